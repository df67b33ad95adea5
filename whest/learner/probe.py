"""The causality probe: the logits of a byte must not change if this byte, a later one or another row changes."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, UInt8

from whest.learner.contract import tokens_of
from whest.learner.programs import LearnerError, Leaves

TOLERANCE = 1e-3
"""In nats of a log-probability. Rounding changes less than this, and a smaller change can carry little information."""
MOST_PLACES = 32
NOISE = 0.3

LEAST_EXPECTED = -30.0
"""In nats. Smaller log-probabilities are treated as equal."""

Forward = Callable[[Leaves, Any], Float[np.ndarray, "row time 256"]]
"""Logits of tokens, by parameters."""


class Seen(NamedTuple):
    """What the probe looks at in the logits of a whole batch."""

    is_finite: Bool[np.ndarray, "row time 256"]
    expected: Float[np.ndarray, "row time 256"]


Predict = Callable[[UInt8[np.ndarray, "row time"]], Seen]


def check_causality(
    forward: Forward, params: Leaves, batch: UInt8[np.ndarray, "row time"], seed: int, with_noise: bool
) -> None:
    """Refuse a learner that looks ahead. `with_noise` is for the start: weights of zero would hide a dependence."""
    draw = np.random.default_rng(seed)
    tried = [_noisy(leaf, draw) for leaf in params] if with_noise else params

    def predict(rows: UInt8[np.ndarray, "row time"]) -> Seen:
        """Of the whole batch, whatever part is compared: JAX would compile anew for the shape of each part."""
        logits = forward(tried, tokens_of(jnp.asarray(rows)))
        return Seen(np.isfinite(logits), np.asarray(expectations(logits)))

    _check_later_bytes(predict, batch, draw)
    _check_other_rows(predict, batch, draw)


def _check_later_bytes(predict: Predict, batch: UInt8[np.ndarray, "row time"], draw: np.random.Generator) -> None:
    """Replace byte t and all later bytes at random: the logits up to t must not change."""
    before = predict(batch)
    for place in _places(batch.shape[1], draw):
        changed = batch.copy()
        changed[:, place:] = draw.integers(0, 256, changed[:, place:].shape, dtype=np.uint8)
        moved = _moved(before, predict(changed), np.s_[:, : place + 1])
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
        moved = _moved(before, predict(changed), np.s_[row])
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


def _moved(before: Seen, after: Seen, part: Any) -> float | None:
    """The largest change of the predictions in a part of the batch; None if it is only rounding.

    Logits that are not finite are ignored.
    """
    known = before.is_finite[part]
    if (known != after.is_finite[part]).any():
        return float("inf")
    rows = known.all(axis=-1)
    if not rows.any():
        return None
    distance = float(np.max(np.abs(before.expected[part][rows] - after.expected[part][rows])))
    return distance if distance > TOLERANCE else None


def expectations(logits: Any) -> Any:
    """Log-probabilities, cut at LEAST_EXPECTED: changes of very unlikely bytes don't count."""
    return jnp.maximum(jax.nn.log_softmax(logits - logits.max(axis=-1, keepdims=True)), LEAST_EXPECTED)


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
