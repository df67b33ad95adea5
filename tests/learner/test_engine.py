"""What a byte is charged: never less than nothing, whatever the logits are."""

import math

import jax
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from whest.learner.engine import byte_charges, row_means

CHARGES = jax.jit(byte_charges)
ROWS, TIME = 2, 8
LARGEST = float(np.finfo(np.float32).max)
SHARP = st.sampled_from(
    [0.0, 1.0, -1.0, 1e-7, -1e-7, 16.6, 17.4, 88.0, -103.9, 1e4, -1e4, 1e9, 1e30, -LARGEST, LARGEST]
)
"""Where `exp` and `log` change their mind in float32: at one unit of rounding, at underflow, at the largest number."""
ANY = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def logits_and_bytes(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Mostly one level, with a few other values; the byte that comes is often the likeliest."""
    logits = np.full((ROWS, TIME, 256), draw(SHARP | ANY), np.float32)
    places = draw(st.lists(st.integers(0, logits.size - 1), max_size=40))
    for place in places:
        logits.flat[place] = draw(SHARP | ANY)
    batch = draw(arrays(np.uint8, (ROWS, TIME)))
    return logits, logits.argmax(axis=-1).astype(np.uint8) if draw(st.booleans()) else batch


@settings(max_examples=300, deadline=None)
@given(logits_and_bytes())
def test_no_charge_is_below_zero(case: tuple[np.ndarray, np.ndarray]) -> None:
    logits, batch = case
    charges = np.asarray(CHARGES(logits, batch))
    assert not (charges < 0).any()
    means = row_means([charges], batch[None])
    assert means.dtype == np.float64
    assert not (means < 0).any()


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 20))
def test_charges_are_the_code_lengths(seed: int, scale: float) -> None:
    """Against float64: log Σ exp(z) − z_own."""
    draw = np.random.default_rng(seed)
    logits = (scale * draw.standard_normal((ROWS, TIME, 256))).astype(np.float32)
    batch = draw.integers(0, 256, (ROWS, TIME), dtype=np.uint8)
    exact = logits.astype(np.float64)
    own = np.take_along_axis(exact, batch[..., None].astype(int), -1)[..., 0]
    np.testing.assert_allclose(CHARGES(logits, batch), np.logaddexp.reduce(exact, axis=-1) - own, rtol=1e-5, atol=1e-5)


def test_what_is_no_number_stays_so() -> None:
    logits = np.zeros((ROWS, TIME, 256), np.float32)
    logits[0, 3, 7] = math.nan
    charges = np.asarray(CHARGES(logits, np.zeros((ROWS, TIME), np.uint8)))
    assert np.isnan(charges[0, 3])
    assert np.isfinite(charges[1]).all()
    assert np.isnan(row_means([charges], charges[None])[0, 0])
