"""What an operation costs per element of its result: real numbers, complex numbers, half precision, double precision.

Real figures are XLA's for the lowered operation. Complex figures are XLA's where it opens the operation up, and the
count of real operations where it doesn't (it says 1 for a complex product, which is 4 products and 2 sums).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Aval = Any

Params = Mapping[str, Any]

ONE = frozenset(
    "add sub mul div neg sign abs max min floor ceil round exp expm1 log log1p sqrt rsqrt cbrt "
    "sin cos tan tanh atan atan2 pow erf square is_finite add_any "
    "eq ne lt le gt ge eq_to lt_to le_to and or xor not shift_left shift_right_logical shift_right_arithmetic "
    "clz clamp complex conj real imag reduce_precision bitcast_convert_type convert_element_type".split()
)
"""One FLOP per element; a conversion of a lone number too, or a loop could compute by conversions for nothing."""

SEVERAL = {
    **{"acos": 5, "acosh": 11, "asin": 7, "asinh": 14, "atanh": 8, "cosh": 5, "sinh": 13, "exp2": 2, "logistic": 4},
    **{"bessel_i0e": 84, "bessel_i1e": 84, "digamma": 76, "erf_inv": 39, "erfc": 63, "lgamma": 57},
    **{"polygamma": 279, "zeta": 132, "nextafter": 24, "mulhi": 2},
}
"""FLOPs per element of operations that XLA opens up into several."""

HALF = {
    **dict.fromkeys("bessel_i0e bessel_i1e cosh sinh digamma erf_inv erfc lgamma".split(), 2),
    **dict.fromkeys(("polygamma", "zeta"), 3),
}
"""What the conversions to float32 and back add for floats of 16 bits or fewer."""

DOUBLE = {"bessel_i0e": 174, "bessel_i1e": 174, "erf_inv": 102}
"""FLOPs per float64 element where a longer series costs more than twice the short one."""

COMPLEX = {
    **{"mul": 6, "div": 11, "square": 14, "max": 9, "min": 9, "clamp": 18, "conj": 4, "real": 1, "imag": 1},
    **{"abs": 7, "sign": 12, "eq": 3, "ne": 3},
    **{"exp": 19, "exp2": 20, "expm1": 25, "log": 66, "log1p": 84, "sqrt": 93, "rsqrt": 104, "pow": 91},
    **{"sin": 18, "cos": 19, "tan": 48, "tanh": 48, "logistic": 34, "atan2": 190},
    **{"sinh": 107, "cosh": 107, "asinh": 113, "acosh": 114, "acos": 114, "asin": 114, "atan": 49, "atanh": 47},
}
"""FLOPs per complex64 element; what isn't listed costs twice the real one. Where XLA has no figure: tan = sin / cos,
tanh likewise, pow = exp(y log x), rsqrt = 1 / sqrt, logistic = 1 / (1 + exp(-x)), atan2 by its logarithm."""


def per_element(name: str, avals: Sequence[Aval]) -> float:
    """FLOPs per element of the result, in float32 or complex64 terms unless the series is longer in float64."""
    dtypes = plain_dtypes(avals)
    real = 1 if name in ONE else SEVERAL[name]
    if any(dtype.kind == "c" for dtype in dtypes):
        return COMPLEX.get(name, 2 * real)
    if name in HALF and any(is_half(dtype) for dtype in dtypes):
        return real + HALF[name]
    if name in DOUBLE and is_wide(dtypes):
        return DOUBLE[name] / 2  # the factor for 64-bit numbers follows
    if name == "sign" and any(dtype.kind == "u" for dtype in dtypes):
        return 2
    return real


def plain_dtypes(avals: Sequence[Aval]) -> list[np.dtype]:
    """The dtypes of numbers; keys of random generators and tokens have none."""
    found = [getattr(aval, "dtype", None) for aval in avals]
    return [np.dtype(dtype) for dtype in found if dtype is not None and not jnp.issubdtype(dtype, jax.dtypes.extended)]


def is_wide(dtypes: Sequence[np.dtype]) -> bool:
    """Numbers of 64 bits, or complex ones of 128."""
    return any((dtype.kind in "fiu" and dtype.itemsize == 8) or dtype.itemsize == 16 for dtype in dtypes)


def is_half(dtype: np.dtype) -> bool:
    return dtype.itemsize < 4 and bool(jnp.issubdtype(dtype, jnp.floating))


def size(aval: Aval) -> int:
    return math.prod(aval.shape)


def choices(places: float) -> int:
    """FLOPs of choosing one of so many places by data: the bits of the choice, at least one."""
    return max(1, math.ceil(math.log2(max(places, 2))))


def elementwise(name: str, inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    return size(outputs[0]) * per_element(name, [*inputs, *outputs])


def remainder(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """1 per integer; per float a step for each bit between the largest number and the smallest (277 in float32)

    A float's remainder is a long division whose rounds depend on the data: 2^k mod m would be had for one FLOP.
    """
    ranges = [jnp.finfo(dtype) for dtype in plain_dtypes(outputs) if jnp.issubdtype(dtype, jnp.floating)]
    return size(outputs[0]) * max((int(it.maxexp - it.minexp + it.nmant) for it in ranges), default=1)


def select_n(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """⌈log2 k⌉ per element for k cases, 2 where a number is compared to choose between two; complex ones twice."""
    n_cases = len(inputs) - 1
    compared = n_cases == 2 and inputs[0].dtype != np.bool_
    return size(outputs[0]) * (choices(n_cases) + compared) * complex_factor(outputs, 2)


def integer_pow(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """Square-and-multiply; a negative exponent adds the reciprocal."""
    exponent = abs(params["y"])
    products = exponent.bit_length() + exponent.bit_count() - 2 if exponent else 0
    reciprocal = complex_factor(outputs, COMPLEX["div"]) if params["y"] < 0 else 0
    return size(outputs[0]) * (products * complex_factor(outputs, COMPLEX["mul"]) + reciprocal)


def population_count(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """One per bit: products of bits would otherwise be had by the word."""
    return size(outputs[0]) * 8 * np.dtype(inputs[0].dtype).itemsize


def complex_factor(avals: Sequence[Aval], factor: float) -> float:
    """The factor for complex numbers, 1 for others."""
    return factor if any(dtype.kind == "c" for dtype in plain_dtypes(avals)) else 1
