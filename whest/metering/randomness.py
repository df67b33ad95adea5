"""What random bits cost. XLA counts a generator's rolled loop once, or as nothing, so the blocks are counted here."""

from collections.abc import Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from whest.errors import UnmeterableError
from whest.metering.elementwise import size

Aval = Any

Params = Mapping[str, Any]

THREEFRY_FLOPS = 117
"""One Threefry-2x32 block: 20 rounds of add, rotate (three operations) and xor, 2 + 5 x 3 key injections."""

THREEFRY4_FLOPS = 234
"""One Threefry-4x32 block: twice the rounds' work, four words."""

PHILOX2_FLOPS, PHILOX4_FLOPS = 80, 150
"""One Philox block: ten rounds of one or two wide products (high and low word), xors and a key's step."""

PHILOX_WORD_FLOPS, THREEFRY_WORD_FLOPS = 38, 59
"""One 32-bit word of XLA's own generator: a quarter of a Philox block (also its default), or half of a Threefry one."""

GENERATORS = ("threefry2x32", "rbg", "unsafe_rbg")


@cache
def generators() -> dict[str, Any]:
    """JAX's own generators: their implementations, by name."""
    return {name: jax.eval_shape(lambda name=name: jax.random.key(0, impl=name)).dtype._impl for name in GENERATORS}


def generator_of(aval: Aval) -> str:
    """The generator of an array of keys. One that somebody defined himself could compute anything, so it is refused."""
    implementation = getattr(aval.dtype, "_impl", None)
    for name, known in generators().items():
        if implementation == known:
            return name
    raise UnmeterableError(
        f"random keys of {aval.dtype}: only JAX's own generators have a price ({', '.join(GENERATORS)})"
    )


def check_keys(avals: Sequence[Aval]) -> None:
    for aval in avals:
        if hasattr(aval, "dtype") and jnp.issubdtype(aval.dtype, jax.dtypes.prng_key):
            generator_of(aval)


def _words(aval: Aval, bit_width: int) -> float:
    return size(aval) * max(1, bit_width // 32)


def random_bits(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """118 per 32-bit word (a Threefry block and its fold), 38 with XLA's own generator."""
    per_word = THREEFRY_FLOPS + 1 if generator_of(inputs[0]) == "threefry2x32" else PHILOX_WORD_FLOPS
    return per_word * _words(outputs[0], params["bit_width"])


def random_keys(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """117 per key of two words."""
    return THREEFRY_FLOPS * size(outputs[0]) * _blocks(outputs[0])


def _blocks(aval: Aval) -> int:
    if not jnp.issubdtype(aval.dtype, jax.dtypes.prng_key):
        return 1
    return max(1, prod(generators()[generator_of(aval)].key_shape) // 2)


def threefry2x32(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """117 per block of two words."""
    return THREEFRY_FLOPS * size(outputs[0])


def threefry4x32(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """234 per block of four words."""
    return THREEFRY4_FLOPS * size(outputs[0])


def philox2x32(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """80 per block of two words."""
    return PHILOX2_FLOPS * size(outputs[0])


def philox4x32(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """150 per block of four words."""
    return PHILOX4_FLOPS * size(outputs[0])


def rng_bit_generator(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """38 per 32-bit word, 59 by Threefry: XLA's own generator."""
    is_threefry = params["algorithm"] == lax.RandomAlgorithm.RNG_THREE_FRY
    per_word = THREEFRY_WORD_FLOPS if is_threefry else PHILOX_WORD_FLOPS
    return per_word * _words(outputs[-1], np.dtype(outputs[-1].dtype).itemsize * 8)


def iota_2x32_shape(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """A counter of 64 bits in two words: a product and a carried sum per axis."""
    return 8 * size(outputs[0]) * max(1, len(outputs[0].shape))
