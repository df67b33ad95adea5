"""The prequential task: a byte learner reads a stream once. Each batch is charged before it is learnt."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from whest.cases.prediction import Failure
from whest.cases.prequential import Block, Closing, HeldOut, Origin
from whest.cost import Charge, Cost
from whest.document import Json
from whest.errors import ConfigError
from whest.estimator.spec import EstimatorSpec
from whest.isolation.choose import Isolation, describe_protection
from whest.isolation.learner import read_flat, written_programs
from whest.isolation.learning import open_learner
from whest.isolation.messages import Traced, WorkerFailedError
from whest.learner.contract import LearnerContext, create_learner
from whest.learner.engine import TracedEngine
from whest.learner.programs import flatten_learner, trace_programs
from whest.learner.shadow import known_words, knows_text, n_tried_batches
from whest.learner.size import program_bytes
from whest.limits import Limits, WorkerLimits
from whest.metering.walk import METER_VERSION
from whest.progress import Progress
from whest.report import RunMeta
from whest.scoring.prism import PrismRule, PrismScore
from whest.tasks.prequential.engine import Engine, HostEngine
from whest.tasks.prequential.report import PrequentialReport
from whest.tasks.prequential.stream import (
    Ran,
    Schedule,
    Span,
    batches_of,
    guesses,
    mean_bpb,
    online_run,
    run_span,
    spans,
)
from whest.tasks.prequential.text import Text
from whest.tasks.prequential.view import VIEW

PASSES = 2
"""The harness runs each batch twice: for the loss, and for the check that later bytes don't change it."""


@dataclass(frozen=True)
class Prequential:
    """`task=prequential`: one pass over a stream of bytes."""

    name: ClassVar[str] = "prequential"
    version: ClassVar[int] = 3
    """2: a budget below one step is a failed run on record. Version 1 refused it as a wrong config.

    3: a learner whose shadow, which reads random bytes, knows the text has failed.
    """

    text: Text
    estimator: EstimatorSpec
    limits: Limits
    context: LearnerContext
    isolation: Isolation
    worker_limits: WorkerLimits
    bad_batch_charge: float
    random_updates: float
    """The share of the updates that the learner's shadow repeats on random bytes."""
    outputs: Path
    sealed: Traced | None = None
    """The programs of a sealed learner."""

    @property
    def require(self) -> tuple[str, ...]:
        return self.isolation.require

    def cases(self, progress: Progress) -> Iterator[Block]:
        """One case per block of the stream. After the last one, the held-out text is read.

        A worker that is killed or dies ends the run. Then the last case says why.
        """
        origin, index = Origin(), 0
        try:
            with self._opened() as (engine, origin):
                for block in self._blocks(engine, progress):
                    yield replace(block, origin=origin)
                    index = block.index + 1
        except WorkerFailedError as error:
            stopped = Block(index, "stopped", 0, (), 1, self.context.row_length, (), 0, origin=origin)
            yield replace(stopped, failure=error.failure)

    def _blocks(self, engine: Engine, progress: Progress) -> Iterator[Block]:
        rows = self.text.train[: self.n_rows * self.context.row_length].reshape(self.n_rows, -1)
        val = batches_of(self.text.val, engine.rows_per_step, self.context.row_length)
        first = rows[: engine.rows_per_step]
        with progress.stage(f"compiling {self.estimator.name}"):
            n_steps = self._affordable(engine)
            engine.begin(self.context.seed, first)
            engine.probe(first, self.context.seed, with_noise=True)
        with progress.stage("reading the held-out text"):
            twin_bpb = mean_bpb(engine, val, self.bad_batch_charge) if len(val) else None
        todo = spans(self.n_rows, n_steps, engine.rows_per_step)
        kept: list[float] = []
        ran: list[Ran] = []
        started = time.perf_counter()
        for span in progress.each(todo, f"{self.estimator.name} on {self.text.name}"):
            schedule = Schedule(n_steps, self.random_updates, ran[-1].checked_step if ran else -1)
            ran.append(run_span(engine, rows, span, schedule, kept))
            block = self._block(engine, span, ran[-1], kept)
            if span is todo[-1]:
                _refuse_knowledge(ran, kept[: engine.rows_per_step])
            is_over = self._is_over_time(time.perf_counter() - started)
            closing = self._close(engine, val, twin_bpb, first) if span is todo[-1] else None
            yield replace(block, timing=ran[-1].timing, closing=closing)
            if is_over:
                return

    def score(self, rule: PrismRule, cases: Sequence[Block]) -> PrismScore:
        return rule.score(online_run(cases))

    @property
    def n_rows(self) -> int:
        return len(self.text.train) // self.context.row_length

    def protocol(self) -> Json:
        return {
            "dataset": self.text.sha256,
            "row_length": self.context.row_length,
            "seed": self.context.seed,  # part of the protocol, so that nobody can try seeds until one is lucky
            "meter": {"name": "xla-traced", "version": METER_VERSION},
        }

    def describe(self, cases: Sequence[Block]) -> Json:
        return {
            "row_length": self.context.row_length,
            "n_blocks": len(spans(self.n_rows, self.n_rows, 1)),
            "random_updates": self.random_updates,
            "is_reference": is_reference(self.estimator),
            "isolation": {
                "kind": self.isolation.kind,
                "worker": self.isolation.is_process(self.estimator),
                **describe_protection(self.require, self.estimator, cases[-1].origin.protections if cases else {}),
            },
            "dataset": self.text.describe(),
        }

    def determinants(self) -> Json:
        return {"isolation": asdict(self.isolation), "limits": asdict(self.worker_limits), "seed": self.context.seed}

    def report(self, meta: RunMeta, config: Json, cases: tuple[Block, ...], score: PrismScore) -> PrequentialReport:
        return PrequentialReport("score", meta, config, self.limits, cases, score, VIEW)

    @contextmanager
    def _opened(self) -> Iterator[tuple[Engine, Origin]]:
        """The learner, ready to begin: in a worker of its own, or in this process."""
        if self.isolation.is_process(self.estimator):
            hidden = [self.outputs, *([Path(self.text.path)] if self.text.path else [])]
            cache = self.outputs / "cache" / "xla"
            required = self.isolation.required_of(self.estimator)
            opened = open_learner(
                self.estimator, self.context, self.worker_limits, hidden, cache, required, self.sealed
            )
            with opened as (remote, origin):
                yield remote, origin
        elif is_reference(self.estimator):
            yield HostEngine(self.estimator.create()), Origin()
        else:
            learner = create_learner(self.estimator, self.context)
            document, arrays = written_programs(trace_programs(flatten_learner(learner), self.context))
            programs = trace_programs(read_flat(document, arrays), self.context)  # as a worker has them, to the bit
            engine = TracedEngine(programs)
            yield engine, Origin(program_bytes(document, arrays), constant_bytes=engine.constant_bytes)

    def _affordable(self, engine: Engine) -> int:
        flops, in_stream = engine.update_cost.flops, self.n_rows // engine.rows_per_step
        if in_stream < 1:
            raise ConfigError(
                f"data={self.text.name} has {self.n_rows} rows of {self.context.row_length} bytes, but one step needs "
                f"{engine.rows_per_step}: give it more text, or lower task.row_length or estimator.rows_per_step"
            )
        if flops > self.limits.budget:
            said = f"budget={self.limits.budget:.4g} is below one step: one update costs {flops:.4g} FLOPs"
            raise WorkerFailedError(Failure("PREDICT_ERROR", f"{said}, so it learnt nothing"), 0.0)
        return min(int(self.limits.budget // flops), in_stream) if flops else in_stream

    def _is_over_time(self, elapsed_s: float) -> bool:
        """Time does not change the score; the limit only stops a run that would never end."""
        cap = self.limits.wall_time_limit_s
        return cap is not None and elapsed_s > cap

    def _block(self, engine: Engine, span: Span, ran: Ran, kept: Sequence[float]) -> Block:
        steps, length = span.n_steps, self.context.row_length
        on_noise = ran.n_random_updates * engine.update_cost.flops
        tried = n_tried_batches(engine.rows_per_step) * engine.forward_cost.flops if steps else 0
        return Block(
            index=span.index,
            name=f"bytes {span.first_row * length}–{span.end_row * length - 1}",
            first_row=span.first_row,
            row_losses=tuple(kept[span.first_row : span.end_row]),
            rows_per_step=engine.rows_per_step,
            row_length=length,
            charges=_times(engine.update_cost, steps),
            flops_xla=None if engine.update_cost.flops_xla is None else engine.update_cost.flops_xla * steps,
            forward_flops=PASSES * engine.forward_cost.flops * steps + on_noise + tried,
            compile_time_s=engine.compile_time_s if span.first_step == 0 else 0.0,
        )

    def _close(self, engine: Engine, val: np.ndarray, twin_bpb: float | None, first: np.ndarray) -> Closing:
        engine.probe(first, self.context.seed + 1, with_noise=False)
        if twin_bpb is None:
            return Closing(None)
        trained = mean_bpb(engine, val, self.bad_batch_charge)
        return Closing(HeldOut(trained, twin_bpb), tuple(guesses(engine, val)))


def _refuse_knowledge(ran: Sequence[Ran], first_losses: Sequence[float]) -> None:
    """At the end of the stream: a learner that looks ahead is refused for that, and not for what its shadow knows.

    One that knows its first batch has a score, which is zero.
    """
    for each in ran:
        if knows_text(each.shadow_nats) and not knows_text(float(np.mean(first_losses))):
            raise WorkerFailedError(Failure("PREDICT_ERROR", known_words(each.shadow_nats, each.checked_step)), 0.0)


def is_reference(spec: EstimatorSpec) -> bool:
    """Whether this is a bundled reference: it runs on the host, and its work is not counted."""
    made: Any = spec.create() if spec.is_bundled else None
    return bool(getattr(made, "is_reference", False))


def _times(cost: Cost, n: int) -> tuple[Charge, ...]:
    return tuple(replace(charge, flops=charge.flops * n, calls=charge.calls * n) for charge in cost.charges)
