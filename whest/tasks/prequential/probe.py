"""The causality probe: the logits of a byte must not change if this byte, a later one or another row changes."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, UInt8

from whest.learner.contract import tokens_of
from whest.learner.programs import LearnerError
from whest.tasks.prequential.engine import TracedEngine, expectations

TOLERANCE = 1e-3
"""In nats of a log-probability. Rounding changes less than this, and a smaller change can carry little information."""
MOST_PLACES = 32
NOISE = 0.3
Predict = Callable[[UInt8[np.ndarray, "row time"]], Float[np.ndarray, "row time 256"]]


def probe(engine: TracedEngine, batch: UInt8[np.ndarray, "row time"], seed: int, with_noise: bool) -> None:
    """Refuse a learner that looks ahead. `with_noise` is for the start: weights of zero would hide a dependence."""
    draw = np.random.default_rng(seed)
    params = [_noisy(leaf, draw) for leaf in engine.params] if with_noise else engine.params

    def predict(rows: UInt8[np.ndarray, "row time"]) -> Float[np.ndarray, "row time 256"]:
        return engine.logits_of(params, tokens_of(jnp.asarray(rows)))

    _check_later_bytes(predict, batch, draw)
    _check_other_rows(predict, batch, draw)


def _check_later_bytes(predict: Predict, batch: UInt8[np.ndarray, "row time"], draw: np.random.Generator) -> None:
    """Replace byte t and all later bytes at random: the logits up to t must not change."""
    before = predict(batch)
    for place in _places(batch.shape[1], draw):
        changed = batch.copy()
        changed[:, place:] = draw.integers(0, 256, changed[:, place:].shape, dtype=np.uint8)
        moved = _moved(before[:, : place + 1], predict(changed)[:, : place + 1])
        if moved is not None:
            raise LearnerError(
                f"the learner looks ahead: its logits at or before byte {place} of a row change by {moved:.3g} if only "
                f"the bytes from {place} on change. logits[:, t] may depend only on tokens[:, :t + 1]"
            )


def _check_other_rows(predict: Predict, batch: UInt8[np.ndarray, "row time"], draw: np.random.Generator) -> None:
    if len(batch) == 1:
        return
    before = predict(batch)
    for row in {0, len(batch) - 1}:
        changed = draw.integers(0, 256, batch.shape, dtype=np.uint8)
        changed[row] = batch[row]
        moved = _moved(before[row], predict(changed)[row])
        if moved is not None:
            raise LearnerError(
                f"the learner looks at other rows: the logits of row {row} change by {moved:.3g} if only other rows "
                "change. Predict each row only from its own bytes"
            )


def _places(length: int, draw: np.random.Generator) -> Sequence[int]:
    """All places of a short row; the ends and some places between of a long one."""
    if length <= MOST_PLACES:
        return range(length)
    inner = draw.choice(np.arange(1, length - 1), MOST_PLACES - 2, replace=False)
    return sorted({0, length - 1, *inner.tolist()})


def _moved(before: np.ndarray, after: np.ndarray) -> float | None:
    """The largest change of the predictions; None if it is only rounding. Logits that are not finite are ignored."""
    known = np.isfinite(before) & np.isfinite(after)
    if (np.isfinite(before) != np.isfinite(after)).any():
        return float("inf")
    rows = known.all(axis=-1)
    if not rows.any():
        return None
    distance = float(np.max(np.abs(expectations(before[rows]) - expectations(after[rows]))))
    return distance if distance > TOLERANCE else None


def refuse_moved(moved: float, step: int) -> None:
    """Judge the check of each step, whose place and continuation are random, so that no learner can know them."""
    if moved > TOLERANCE:
        raise LearnerError(
            f"the learner looks ahead: at step {step} a prediction changed by {moved:.3g} nats because of later "
            "text. logits[:, t] may depend only on tokens[:, :t + 1]"
        )


def _noisy(leaf: Any, draw: np.random.Generator) -> Any:
    if not jnp.issubdtype(leaf.dtype, jnp.floating):
        return leaf
    return leaf + jnp.asarray(NOISE * draw.standard_normal(leaf.shape), leaf.dtype)
