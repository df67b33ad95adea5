"""The pass over the stream: each batch is charged before it is learnt, until the budget or the stream ends."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int, UInt8

from whest.cases.prequential import Block, Guess
from whest.cost import Timing
from whest.learner.contract import N_BYTES
from whest.learner.probe import refuse_moved
from whest.learner.shadow import n_tried_batches, random_batches, random_updates
from whest.scoring.prism import NATS_OF_UNIFORM, OnlineRun
from whest.tasks.prequential.engine import Engine

N_BLOCKS = 64
"""Every stream has this many blocks, for all learners: comparisons pair runs by blocks."""
SHOWN_BEFORE, N_SHOWN, N_GUESSES = 24, 12, 3


@dataclass(frozen=True)
class Span:
    """A block: its rows, and the steps that cover them."""

    index: int
    first_row: int
    end_row: int
    first_step: int
    end_step: int

    @property
    def n_steps(self) -> int:
        return self.end_step - self.first_step


@dataclass(frozen=True)
class Ran:
    """A block that was run."""

    timing: Timing
    checked_step: int
    """The update, at a place that nobody can know, after which the learner's shadow read text."""
    n_random_updates: int
    shadow_nats: float
    """The nats per byte of this text. Not finite if the shadow can't say."""


def spans(n_rows: int, n_steps: int, rows_per_step: int) -> list[Span]:
    """The blocks of the stream that `n_steps` steps cover. A block has the steps that are needed to finish it."""
    covered = n_steps * rows_per_step
    edges = [n_rows * i // N_BLOCKS for i in range(N_BLOCKS + 1)]
    found, done = [], 0
    for index, (first, end) in enumerate(pairwise(edges)):
        last = min(end, covered)
        if last <= first:
            continue
        steps = -(-last // rows_per_step)
        found.append(Span(index, first, last, done, steps))
        done = steps
    return found


@dataclass(frozen=True)
class Schedule:
    """The updates of a run."""

    n_steps: int
    random_updates: float
    """The share that is repeated on random bytes."""
    last_check: int = -1
    """The update after which the shadow was checked last."""

    def time_left(self, steps: Int[np.ndarray, " step"]) -> Float[np.ndarray, " step"]:
        """The share of the updates that is still to come, before each of these."""
        return np.maximum(1 - steps / self.n_steps, 0).astype(np.float32)


def run_span(
    engine: Engine, rows: UInt8[np.ndarray, "row time"], span: Span, schedule: Schedule, kept: list[float]
) -> Ran:
    """Run the steps of a block, and append the loss of every row to `kept`. At a secret place, check the shadow."""
    size, length = engine.rows_per_step, rows.shape[1]
    if not span.n_steps:
        return Ran(Timing(), schedule.last_check, 0, math.nan)
    secret = np.random.default_rng()  # a learner can't know the places of the next check; no score depends on it
    batches = rows[span.first_step * size : span.end_step * size].reshape(-1, size, length)
    others = rows[secret.integers(len(rows), size=batches.shape[:2])]
    places = secret.integers(length, size=batches.shape[:2])
    left = schedule.time_left(np.arange(span.first_step, span.end_step))
    checked, elapsed_s = int(secret.integers(1, span.n_steps + 1)), 0.0
    again = random_updates(schedule.last_check, span.first_step + checked, schedule.random_updates)
    for start, end in pairwise(sorted({0, checked, span.n_steps})):
        began = time.perf_counter()
        losses, moved = engine.steps(batches[start:end], others[start:end], places[start:end], left[start:end])
        elapsed_s += time.perf_counter() - began
        for step, (found, distance) in enumerate(zip(losses, moved, strict=True), start=span.first_step + start):
            refuse_moved(float(distance), step)
            kept += (found if np.isfinite(found).all() else np.full(size, np.nan)).tolist()
        if end == checked:
            noise = random_batches(secret, len(again), size, length)
            text = rows[secret.integers(len(rows), size=(n_tried_batches(size), size))]
            shadow_nats = float(engine.shadow(noise, text, schedule.time_left(again)).mean())
    return Ran(Timing(backend_time_s=elapsed_s), span.first_step + checked, len(again), shadow_nats)


def batches_of(text: UInt8[np.ndarray, " byte"], rows: int, length: int) -> UInt8[np.ndarray, "batch row time"]:
    whole = len(text) // (rows * length)
    return text[: whole * rows * length].reshape(whole, rows, length)


def mean_bpb(engine: Engine, batches: UInt8[np.ndarray, "batch row time"], charge: float) -> float:
    """Bits per byte of text that is not learnt. A batch without a finite loss has the fixed rate."""
    means = engine.losses(batches).mean(axis=1).tolist()
    rate = charge * NATS_OF_UNIFORM
    return math.fsum(mean if math.isfinite(mean) else rate for mean in means) / len(means) / math.log(2)


def guesses(engine: Engine, batches: UInt8[np.ndarray, "batch row time"]) -> Iterator[Guess]:
    """Predictions at some places of the held-out text, evenly spread."""
    batch = batches[0]
    logits = engine.logits(batch)[0].astype(np.float64)
    probabilities = _softmax(logits)
    for place in np.linspace(len(probabilities) // 8, len(probabilities) - 1, N_SHOWN).astype(int):
        here, byte = probabilities[place], int(batch[0, place])
        best = np.argsort(-here, kind="stable")[:N_GUESSES]
        before = batch[0, max(0, place - SHOWN_BEFORE) : place].tobytes().decode("latin-1")
        bits = -math.log2(max(float(here[byte]), 1e-300))
        yield Guess(before, byte, bits, tuple((int(i), float(here[i])) for i in best))


def _softmax(logits: Float[np.ndarray, "time 256"]) -> Float[np.ndarray, "time 256"]:
    known = np.where(np.isfinite(logits), logits, -1e9)
    powers = np.exp(known - known.max(axis=-1, keepdims=True))
    assert powers.shape[-1] == N_BYTES
    return powers / powers.sum(axis=-1, keepdims=True)


def finished(cases: Sequence[Block]) -> list[Block]:
    """The blocks that were read; a run that was stopped has one more case, which says why."""
    return [case for case in cases if case.failure is None]


def online_run(cases: Sequence[Block]) -> OnlineRun:
    """The input of the rule: the losses of all whole batches in the finished blocks."""
    blocks = finished(cases)
    stopped = next((case.failure.message for case in cases if case.failure is not None), None)
    if not blocks:
        return OnlineRun((), 0, None, is_whole=False, stopped=stopped)
    size = blocks[0].rows_per_step
    rows = np.array([loss for block in blocks for loss in block.row_losses])
    means = rows[: len(rows) // size * size].reshape(-1, size).mean(axis=1)
    closing = blocks[-1].closing
    return OnlineRun(
        online_loss=[float(mean) if np.isfinite(mean) else None for mean in means],
        batch_bytes=size * blocks[0].row_length,
        held_out=closing.held_out if closing else None,
        is_whole=closing is not None,
        flops_used=sum(block.flops for block in blocks),
        stopped=stopped,
    )
