"""What one primitive operation costs in FLOPs.

The price is XLA's own cost analysis of the lowered, unoptimised operation (flops + transcendentals), so it doesn't
depend on the device. For the operations that lower to a single XLA instruction the same figure is written here as a
formula, which is fast; a test holds each formula against XLA. Where XLA is blind (LAPACK, random bits, prefix sums,
anything that hides a loop) the textbook formula is charged, and what can't be known is refused by name.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive

from whest.errors import UnmeterableError

Aval = Any

Params = Mapping[str, Any]

Price = Callable[[Sequence[Aval], Sequence[Aval], Params], float]

FREE = frozenset(
    "reshape broadcast_in_dim transpose squeeze expand_dims slice dynamic_update_slice concatenate pad "
    "rev iota copy copy_p bitcast_convert_type stop_gradient random_wrap random_unwrap split "
    "optimization_barrier real imag device_put create_token empty "
    "pvary sharding_constraint layout_constraint mesh_cast clone stack unstack name platform_index empty2 "
    "tile broadcast_to".split()
)

ELEMENTWISE = frozenset(
    "add sub mul div rem neg sign abs max min floor ceil round nextafter exp expm1 log log1p sqrt rsqrt cbrt "
    "sin cos tan tanh atan2 pow erf square is_finite add_any "
    "eq ne lt le gt ge and or xor not shift_left shift_right_logical shift_right_arithmetic "
    "clz select_n clamp complex conj reduce_precision".split()
)

REDUCTIONS = frozenset("reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or reduce_xor".split())

PREFIX_SUMS = frozenset("cumsum cumprod cummax cummin".split())

REFUSED = {
    "pure_callback": "runs host code",
    "io_callback": "runs host code",
    "debug_callback": "runs host code (jax.debug.print and its kin)",
    "debug_print": "runs host code",
    "ffi_call": "calls foreign code",
    "pallas_call": "is a hand-written kernel",
    "shard_map": "spreads over devices",
    "infeed": "reads from the host",
    "outfeed": "writes to the host",
}

THREEFRY_FLOPS = 117
"""One Threefry-2x32 block: 20 rounds of add, rotate (three operations) and xor, 2 + 5 x 3 key injections."""

RNG_BIT_GENERATOR_FLOPS = 30
"""One 32-bit word of XLA's own generator (Philox: ten rounds of wide multiplies, xors and adds give four words)."""

COMPLEX_FACTORS = {
    **{"mul": 6, "integer_pow": 6, "reduce_prod": 6, "cumprod": 6, "div": 11, "dot_general": 4},
    **dict.fromkeys("exp expm1 log log1p sin cos tan tanh sqrt rsqrt cbrt pow".split(), 6),
    "conv_general_dilated": 1,  # XLA's own figure counts complex products already
}


def price(primitive: Primitive, inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """FLOPs of one call, float64 and complex work at their higher price."""
    name = primitive.name
    if any(n < 0 for aval in (*inputs, *outputs) for n in getattr(aval, "shape", ())):
        raise UnmeterableError(f"`{name}` has a negative dimension")
    if name in REFUSED:
        raise UnmeterableError(f"`{name}` {REFUSED[name]}: its cost can't be metered, so it can't be used in predict")
    if name in FREE:
        return 0.0
    formula = FORMULAS.get(name)
    if formula is not None:
        flops = formula(inputs, outputs, params)
    else:
        flops = _lowered_price(primitive, tuple(inputs), _Frozen(params))
    if not 0 <= flops < math.inf:
        raise UnmeterableError(f"`{name}` has no price: its parameters are out of range")
    return flops * _dtype_factor(name, [*inputs, *outputs])


def _dtype_factor(name: str, avals: Sequence[Aval]) -> float:
    """Twice for 64-bit numbers; complex ones by what the operation takes in real arithmetic."""
    dtypes = [np.dtype(aval.dtype) for aval in avals if not jnp.issubdtype(aval.dtype, jax.dtypes.extended)]
    is_complex = any(dtype.kind == "c" for dtype in dtypes)
    wide = any((dtype.kind in "fiu" and dtype.itemsize == 8) or dtype == np.complex128 for dtype in dtypes)
    return (2 if wide else 1) * (COMPLEX_FACTORS.get(name, 2) if is_complex else 1)


def _size(aval: Aval) -> int:
    return math.prod(aval.shape)


def _output_size(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    return _size(outputs[0])


def _convert(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """One an element; a lone number's conversion is free, since tracing folds it or not as it happens to be written."""
    return _size(outputs[0]) if outputs[0].shape else 0


def _input_size(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    return _size(inputs[0])


def _reduction(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    return _size(inputs[0]) - _size(outputs[0])


def _dot_general(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    (contracted, _), _ = params["dimension_numbers"]
    return 2 * _size(outputs[0]) * math.prod(inputs[0].shape[axis] for axis in contracted)


def _integer_pow(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """Square-and-multiply; a negative exponent adds the reciprocal."""
    exponent = abs(params["y"])
    products = exponent.bit_length() + exponent.bit_count() - 2 if exponent else 0
    return (products + (params["y"] < 0)) * _size(outputs[0])


def _sort(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """n·log2 n comparisons a lane and key; `top_k` pays for a sort."""
    axis = params.get("dimension", params.get("axis", params.get("operand_axis", -1)))
    lane = inputs[0].shape[axis] if inputs[0].shape else 1
    keys = params.get("num_keys", 1)
    return _size(inputs[0]) * max(1, math.ceil(math.log2(max(lane, 2)))) * keys


def _fft(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """5·n·log2 n real operations a complex transform, half for a real one (the dtype factor counts complex twice)."""
    length = math.prod(params["fft_lengths"])
    batch = max(_size(inputs[0]), _size(outputs[0])) / max(length, 1)
    is_real = any(np.dtype(aval.dtype).kind == "f" for aval in [*inputs, *outputs])
    return (1.25 if is_real else 2.5) * batch * length * math.log2(max(length, 2))


def _look_up(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """log2 of the places to choose from, for each piece fetched: tables can stand in for arithmetic, so they cost."""
    numbers = params["dimension_numbers"]
    places = math.prod(inputs[0].shape[axis] for axis in numbers.start_index_map)
    pieces = math.prod(inputs[1].shape[:-1])
    return pieces * max(1, math.ceil(math.log2(max(places, 2))))


def _dynamic_slice(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """One piece fetched."""
    return max(1, math.ceil(math.log2(max(_size(inputs[0]) / max(_size(outputs[0]), 1), 2))))


def _scatter(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """One an updated element."""
    return _size(inputs[2])


def _population_count(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """One a bit: products of bits would otherwise be had by the word."""
    return _size(outputs[0]) * 8 * np.dtype(inputs[0].dtype).itemsize


def _log_sum_exp(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    return 4 * _size(inputs[0])


def _words(aval: Aval, bit_width: int) -> float:
    return _size(aval) * max(1, bit_width // 32)


def _random_bits(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """A Threefry block and the fold of its two words, for each 32-bit word drawn; other generators as XLA's own."""
    per_word = THREEFRY_FLOPS + 1 if "fry" in str(inputs[0].dtype) else RNG_BIT_GENERATOR_FLOPS
    return per_word * _words(outputs[0], params["bit_width"])


def _random_keys(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    return THREEFRY_FLOPS * _size(outputs[0])


def _rng_bit_generator(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    return RNG_BIT_GENERATOR_FLOPS * _words(outputs[-1], np.dtype(outputs[-1].dtype).itemsize * 8)


def _matrix(aval: Aval) -> tuple[int, int, int]:
    """Batch, rows, columns."""
    *batch, rows, columns = aval.shape
    return math.prod(batch), rows, columns


def _cholesky(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    batch, n, _ = _matrix(inputs[0])
    return batch * n**3 / 3


def _lu(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    batch, m, n = _matrix(inputs[0])
    k = min(m, n)
    return batch * 2 * (m * n * k - (m + n) * k**2 / 2 + k**3 / 3)


def _householder(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """Reflections of an m x n panel (geqrf), and as much again to form Q from them (orgqr)."""
    batch, m, n = _matrix(inputs[0])
    return batch * _householder_flops(m, n)


def _qr(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """Factor, then form Q: 4(m²n − mn² + n³/3) for the full Q, twice the factorisation for the thin one."""
    batch, m, n = _matrix(inputs[0])
    factor = _householder_flops(m, n)
    form = 4 * (m * m * n - m * n * n + n**3 / 3) if params.get("full_matrices") and m > n else factor
    return batch * (factor + form)


def _householder_flops(m: int, n: int) -> float:
    k = min(m, n)
    return 2 * k * k * (max(m, n) - k / 3) if m >= n else 2 * (m * m * n - m**3 / 3)


def _triangular_solve(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    n = inputs[0].shape[-1]
    return _size(inputs[1]) * n


def _eigh(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    batch, n, _ = _matrix(inputs[0])
    return batch * 9 * n**3


def _eig(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    batch, n, _ = _matrix(inputs[0])
    return batch * 25 * n**3


def _svd(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """Golub and Reinsch: 4m²n + 8mn² + 9n³ with both factors (m ≥ n), 4mn² − 4n³/3 for the values alone."""
    batch, rows, columns = _matrix(inputs[0])
    m, n = max(rows, columns), min(rows, columns)
    if not params.get("compute_uv", True):
        return batch * (4 * m * n * n - 4 * n**3 / 3)
    return batch * (4 * m * m * n + 8 * m * n * n + 9 * n**3)


def _tridiagonal(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    batch, n, _ = _matrix(inputs[0])
    return batch * 4 * n**3 / 3


def _hessenberg(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    batch, n, _ = _matrix(inputs[0])
    return batch * 10 * n**3 / 3


def _rng_uniform(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    return (RNG_BIT_GENERATOR_FLOPS + 4) * _size(outputs[0])


def _tridiagonal_solve(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    return 8 * _size(outputs[0])


FORMULAS: dict[str, Price] = {
    **dict.fromkeys(ELEMENTWISE, _output_size),
    **dict.fromkeys(REDUCTIONS, _reduction),
    **dict.fromkeys(PREFIX_SUMS, _input_size),
    "convert_element_type": _convert,
    "argmax": _reduction,
    "argmin": _reduction,
    "dot_general": _dot_general,
    "integer_pow": _integer_pow,
    "gather": _look_up,
    "dynamic_slice": _dynamic_slice,
    **dict.fromkeys(("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"), _scatter),
    "population_count": _population_count,
    "cumlogsumexp": _log_sum_exp,
    "rng_uniform": _rng_uniform,
    "sort": _sort,
    "top_k": _sort,
    "fft": _fft,
    "random_bits": _random_bits,
    "random_split": _random_keys,
    "random_fold_in": _random_keys,
    "random_seed": _random_keys,
    "threefry2x32": _random_keys,
    "rng_bit_generator": _rng_bit_generator,
    "cholesky": _cholesky,
    "lu": _lu,
    "qr": _qr,
    "geqrf": _householder,
    "geqp3": _householder,
    "householder_product": _householder,
    "triangular_solve": _triangular_solve,
    "eigh": _eigh,
    "eig": _eig,
    "schur": _eig,
    "hessenberg": _hessenberg,
    "svd": _svd,
    "tridiagonal": _tridiagonal,
    "tridiagonal_solve": _tridiagonal_solve,
    "lu_pivots_to_permutation": _output_size,
}


class _Frozen:
    """Parameters as a cache key: compared by what they say."""

    def __init__(self, params: Params) -> None:
        self.params = params
        self._key = repr(sorted(params.items(), key=lambda item: item[0]))

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Frozen) and self._key == other._key


@cache
def _lowered_price(primitive: Primitive, inputs: tuple[Aval, ...], frozen: _Frozen) -> float:
    """XLA's figure for an operation without a formula, refused where XLA can't see all of it."""

    def call(*arguments: jax.Array) -> Any:
        return primitive.bind(*arguments, **frozen.params)

    arguments = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in inputs]
    try:
        lowered = jax.jit(call).trace(*arguments).lower(lowering_platforms=("cpu",))
    except Exception as error:
        raise UnmeterableError(f"`{primitive.name}` can't be metered: XLA does not lower it alone ({error})") from error
    text = lowered.as_text()
    for blind in ("stablehlo.while", "custom_call"):
        if blind in text:
            raise UnmeterableError(
                f"`{primitive.name}` can't be metered: it lowers to a {blind.removeprefix('stablehlo.')} whose cost "
                "XLA doesn't know. Write it with operations that are counted (docs/meter.md lists them)"
            )
    analysis = lowered.cost_analysis() or {}
    return float(analysis.get("flops", 0.0)) + float(analysis.get("transcendentals", 0.0))
