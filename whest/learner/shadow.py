"""The check of the start, repeated all through training: a second state of the learner, which reads random bytes.

A learner that starts from nothing and has read nothing but noise can't predict text. One that brought knowledge along
can, also if a counter in its state kept the knowledge back at first: before each check the small arrays of the state
that reads the text, where counters are, are copied over. docs/learners.md says what this does not find.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, UInt8

from whest.learner.contract import N_BYTES

SMALL = 64
"""Numbers of an array that is copied over. So few can't hold what text is like, but any counter."""
LEAST_SHARE = 0.5
"""Of ln 256. Text that costs less was not unknown."""
TRIED_ROWS = 8
"""Rows of text per check, at least: a single row may repeat itself, and be cheap for an honest learner."""

LEAST_UPDATES = 1 / 16
"""The smallest share of the updates that is repeated on random bytes."""


def advanced(
    shadow: Sequence[Any], learning: Sequence[Any], update: Callable[..., Any], lessons: Iterable[Sequence[Any]]
) -> list[Any]:
    """The shadow after its lessons. Before the last one it gets the counters of the state that reads the text.

    The lessons before bring its own counters from the last check to this one: if they are as many as the updates in
    between, it has seen every value that a counter had.
    """
    *before, last = lessons
    for lesson in before:
        shadow = update(*shadow, *lesson)
    return list(update(*_synchronised(shadow, learning), *last))


def _synchronised(shadow: Sequence[Any], learning: Sequence[Any]) -> list[Any]:
    return [
        jnp.array(real, copy=True) if real.size <= SMALL else own for own, real in zip(shadow, learning, strict=True)
    ]


def random_updates(after: int, until: int, share: float) -> Int[np.ndarray, " update"]:
    """Which updates are repeated on random bytes, of those after the last check and until this one: this one too."""
    n = max(1, math.ceil(share * (until - after)))
    return np.linspace(after + 1 if n > 1 else until, until, n).round().astype(int)


def n_tried_batches(rows_per_step: int) -> int:
    return -(-TRIED_ROWS // rows_per_step)


def random_batches(secret: np.random.Generator, n: int, rows: int, length: int) -> UInt8[np.ndarray, "batch row time"]:
    return secret.integers(0, N_BYTES, (n, rows, length), dtype=np.uint8)


def knows_text(nats: float) -> bool:
    """Whether text is too cheap for a state that read only noise. What isn't a number knows nothing."""
    return nats < LEAST_SHARE * math.log(N_BYTES)


def known_words(nats: float, step: int) -> str:
    bits, least = nats / math.log(2), LEAST_SHARE * math.log2(N_BYTES)
    return (
        f"after update {step}, a copy of the learner that read random bytes instead of the text needs {bits:.3g} bits "
        f"per byte of text, which is below {least:g}: what it knows must come from the text"
    )
