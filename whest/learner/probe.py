"""The causality probe: logits of a byte must not move when it, or what follows it, or another row, is changed."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, UInt8

from whest.learner.contract import tokens_of
from whest.learner.programs import LearnerError, Leaves

TOLERANCE = 1e-3
"""In nats of a log-probability: rounding moves less, and little can be told by less."""

MOST_PLACES = 32

NOISE = 0.3

LEAST_EXPECTED = -30.0
"""In nats: less likely is as good as never."""

Forward = Callable[[Leaves, Any], Float[np.ndarray, "row time 256"]]
"""Logits of tokens, by parameters."""

Predict = Callable[[UInt8[np.ndarray, "row time"]], Float[np.ndarray, "row time 256"]]


def check_causality(
    forward: Forward, params: Leaves, batch: UInt8[np.ndarray, "row time"], seed: int, with_noise: bool
) -> None:
    """Refuse a learner that looks ahead. At the start its weights are shaken, since zeros hide where they come from."""
    draw = np.random.default_rng(seed)
    tried = [_shaken(leaf, draw) for leaf in params] if with_noise else params

    def predict(rows: UInt8[np.ndarray, "row time"]) -> Float[np.ndarray, "row time 256"]:
        return forward(tried, tokens_of(jnp.asarray(rows)))

    _check_later_bytes(predict, batch, draw)
    _check_other_rows(predict, batch, draw)


def _check_later_bytes(predict: Predict, batch: UInt8[np.ndarray, "row time"], draw: np.random.Generator) -> None:
    """Byte t and all after it are drawn anew: the logits up to its own must stay."""
    before = predict(batch)
    for place in _places(batch.shape[1], draw):
        changed = batch.copy()
        changed[:, place:] = draw.integers(0, 256, changed[:, place:].shape, dtype=np.uint8)
        moved = _moved(before[:, : place + 1], predict(changed)[:, : place + 1])
        if moved is not None:
            raise LearnerError(
                f"the learner looks ahead: its logits move by {moved:.3g} at or before byte {place} of a row when only "
                f"bytes from {place} on are changed. logits[:, t] may depend on tokens[:, :t + 1] alone"
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
                f"the learner looks at other rows: the logits of row {row} move by {moved:.3g} when only others "
                "change. Each row is predicted from its own bytes"
            )


def _places(length: int, draw: np.random.Generator) -> Sequence[int]:
    """All of a short row; of a long one the ends and some between."""
    if length <= MOST_PLACES:
        return range(length)
    inner = draw.choice(np.arange(1, length - 1), MOST_PLACES - 2, replace=False)
    return sorted({0, length - 1, *inner.tolist()})


def _moved(before: np.ndarray, after: np.ndarray) -> float | None:
    """How far logits moved, where that is more than rounding. What isn't a number says nothing."""
    known = np.isfinite(before) & np.isfinite(after)
    if (np.isfinite(before) != np.isfinite(after)).any():
        return float("inf")
    rows = known.all(axis=-1)
    if not rows.any():
        return None
    distance = float(np.max(np.abs(expectations(before[rows]) - expectations(after[rows]))))
    return distance if distance > TOLERANCE else None


def expectations(logits: Any) -> Any:
    """Log-probabilities as far as they matter: what a logit of no account is doesn't blur the others."""
    return jnp.maximum(jax.nn.log_softmax(logits - logits.max(axis=-1, keepdims=True)), LEAST_EXPECTED)


def refuse_moved(moved: float, step: int) -> None:
    """Of the check that goes with every charge: a place and a continuation that no learner can foresee."""
    if moved > TOLERANCE:
        raise LearnerError(
            f"the learner looks ahead: at step {step} a prediction moved by {moved:.3g} nats when the text went on "
            "otherwise from there. logits[:, t] may depend on tokens[:, :t + 1] alone"
        )


def _shaken(leaf: Any, draw: np.random.Generator) -> Any:
    if not jnp.issubdtype(leaf.dtype, jnp.floating):
        return leaf
    return leaf + jnp.asarray(NOISE * draw.standard_normal(leaf.shape), leaf.dtype)
