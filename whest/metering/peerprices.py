"""The peer's price list: what flopscope bills for the NumPy call that each operation of JAX stands for.

The figures are facts about the package, measured in each release by `benchmarks/peer_prices.py` and held by tests.
Three lists differ: 0.2.0 to 0.4.3, 0.5.0 to 0.7.0 and 0.9.0 to 0.12.4. What NumPy can't say in one call has no price.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from whest.metering import linalg
from whest.metering.elementwise import is_wide, plain_dtypes, size

Edition = Literal["0.4", "0.7", "0.12"]
"""The last minor release that bills by a list."""

Params = Mapping[str, Any]

Formula = Callable[[Sequence[Any], Sequence[Any], Params], float]

ONE = frozenset(
    "add sub mul div neg sign abs max min floor ceil round sqrt square is_finite add_any eq ne lt le gt ge eq_to lt_to "
    "le_to and or xor not shift_left shift_right_logical shift_right_arithmetic conj nextafter "
    "population_count complex".split()
)
SIXTEEN = frozenset(
    "exp expm1 exp2 log log1p cbrt sin cos tan tanh sinh cosh asin acos atan asinh acosh atanh atan2 pow integer_pow "
    "rem".split()
)
COMPOSED = {"rsqrt": 2, "logistic": 19}
"""Written out as NumPy has to: 1 / sqrt(x), 1 / (1 + exp(-x))."""

NORMAL = {"erf": (13, 90), "erfc": (13, 90), "erf_inv": (13, 160)}
"""What `stats.norm.cdf` and `ppf` cost beyond three operations each: until 0.7, and since 0.9, in float64."""

FREE = frozenset(
    "broadcast_in_dim transpose squeeze expand_dims slice rev iota stop_gradient random_wrap random_unwrap "
    "random_clone split unstack optimization_barrier device_put create_token after_all empty empty2 pvary "
    "sharding_constraint layout_constraint name platform_index broadcast_to dynamic_slice bitcast_convert_type "
    "random_seed random_split random_fold_in lu_pivots_to_permutation".split()
)
"""Views, and what is part of another call: keys are a generator's seed, pivots are part of `solve`."""

COPIES = frozenset("concatenate pad stack tile copy".split())

REDUCTIONS = frozenset(
    "reduce_sum reduce_prod reduce_max reduce_min reduce_and reduce_or reduce_xor argmax argmin".split()
)
PREFIXES = frozenset("cumsum cumprod cummax cummin".split())

FACTORISATIONS = frozenset("cholesky lu eigh eig qr geqrf householder_product svd triangular_solve".split())

SCATTERS = frozenset("scatter scatter-add scatter-sub scatter-mul scatter-min scatter-max dynamic_update_slice".split())

COMPLEX = {
    **{"mul": 6, "reduce_prod": 6, "cumprod": 6, "div": 11, "sqrt": 10, "square": 5, "sign": 7, "abs": 4},
    **{"pow": 5.5, "integer_pow": 5.5, "log": 2.25, "log1p": 2.3, "tan": 3.6, "fft": 1, "dot_general": 1},
    **dict.fromkeys(("exp", "expm1", "exp2"), 3.1),
    **dict.fromkeys(("sin", "cos", "sinh", "cosh", "tanh"), 3.4),
    **dict.fromkeys(("asin", "acos", "atan", "asinh", "acosh", "atanh"), 3.5),
    **dict.fromkeys(FACTORISATIONS, 4),
}
"""Since 0.9: the factor of complex numbers, 2 where it isn't listed. Until 0.7 they cost as real ones."""

DRAWS = {"draws normal": 15}
"""A normal number is 16: 1 for the bits and 15 here. All other steps of a draw belong to it."""


def peer_price(
    name: str, inputs: Sequence[Any], outputs: Sequence[Any], params: Params, edition: Edition
) -> float | None:
    """What the peer bills for one call, None if it has nothing like it."""
    units = _units(name, inputs, outputs, params, edition)
    if units is None or edition != "0.12":
        return units
    if name in NORMAL:
        return units  # statistics are computed in float64, whatever comes in
    told = _told(name, inputs, outputs)
    dtypes = plain_dtypes(told)
    sums = name in ("reduce_sum", "reduce_prod", "cumsum", "cumprod") and dtypes[0].kind in "biu"
    wide = 2 if is_wide(dtypes) or sums else 1  # NumPy adds integers up in 64 bits
    return units * wide * (COMPLEX.get(name, 2) if any(it.kind == "c" for it in dtypes) else 1)


def _told(name: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
    """The arrays whose dtypes make the price: not an index, and not the complex answer to a real question."""
    if name in SCATTERS or name == "gather":
        return [inputs[0], outputs[0]]
    return [*inputs] if name in FACTORISATIONS or name == "fft" else [*inputs, *outputs]


def draw_price(role: str, outputs: Sequence[Any], edition: Edition) -> float:
    """A step of a random draw beyond its bits."""
    wide = 2 if edition == "0.12" and is_wide(plain_dtypes(outputs)) else 1
    return DRAWS.get(role, 0) * size(outputs[0]) * wide


def _units(name: str, inputs: Sequence[Any], outputs: Sequence[Any], params: Params, edition: Edition) -> float | None:
    """The price of real numbers of 32 bits."""
    is_new = edition == "0.12"
    if name in FREE:
        return 0.0
    n = size(outputs[0])
    each = 1 if name == "integer_pow" and params["y"] == -1 else _per_element(name, inputs, outputs, is_new)
    if each is not None:
        return n * each
    if name in REDUCTIONS:
        return max(1, size(inputs[0]) - n)
    if name in PREFIXES:
        return max(1, n - n // max(1, inputs[0].shape[params["axis"]]))
    if name in SCATTERS:
        return size(inputs[0]) + size(inputs[-1] if name.startswith("scatter") else inputs[1]) if is_new else 0.0
    if name == "dot_general":
        return _product(inputs, outputs, params, edition)
    if name in ("sort", "top_k"):
        return _sort(inputs, params) * (4 if is_new else 1)
    formula = FORMULAS.get(name)
    if formula is not None:
        return formula(inputs, outputs, params)
    factorised = _factorisation(name, inputs, outputs, params, is_new)
    return None if factorised is None else math.floor(factorised)


def _per_element(name: str, inputs: Sequence[Any], outputs: Sequence[Any], is_new: bool) -> float | None:
    if name in ONE:
        return 1
    if name in SIXTEEN:
        return 16
    if name in COMPOSED:
        return COMPOSED[name]
    if name in NORMAL:
        return NORMAL[name][is_new]
    if name in COPIES:
        return 1 if is_new or name != "copy" else 0
    if name == "convert_element_type":
        return 1 if is_new and inputs[0].dtype != outputs[0].dtype else 0
    if name == "reshape":
        return 1 if is_new and _without_ones(inputs[0]) != _without_ones(outputs[0]) else 0
    return {"select_n": 4, "clamp": 2 if is_new else 1, "gather": 4 if is_new else 0, "real": 0 if is_new else 1,
            "imag": 0 if is_new else 1}.get(name)  # fmt: skip


def _without_ones(aval: Any) -> list[int]:
    return [n for n in aval.shape if n != 1]


def _product(inputs: Sequence[Any], outputs: Sequence[Any], params: Params, edition: Edition) -> float:
    """2k − 1 per number of the answer; complex 8k − 2. Until 0.4 a matrix and a vector cost the product of sizes."""
    n, k = size(outputs[0]), linalg.dot_general(inputs, outputs, params) / max(1, 2 * size(outputs[0]))
    if edition == "0.4" and {len(aval.shape) for aval in inputs} not in ({1}, {2}):
        return size(inputs[0]) * size(inputs[1])
    is_complex = edition == "0.12" and any(np.dtype(aval.dtype).kind == "c" for aval in inputs)
    return n * ((8 * k - 2) if is_complex else (2 * k - 1)) if k else 0.0


def _factorisation(
    name: str, inputs: Sequence[Any], outputs: Sequence[Any], params: Params, is_new: bool
) -> float | None:
    if name not in FACTORISATIONS:
        return None
    if name == "triangular_solve":
        return linalg.triangular_solve(inputs, outputs, params)
    *batch, m, n = inputs[0].shape
    a, b = max(m, n), min(m, n)
    if not is_new:
        return math.prod(batch) * 4 * m * n * b / (2 if name in ("geqrf", "householder_product") else 1)
    if name in ("qr", "geqrf", "householder_product"):
        half = 2 * a * b * b - 2 * b**3 / 3
        return math.prod(batch) * half * (2 if name == "qr" else 1)
    if name == "svd":
        return math.prod(batch) * _svd(
            a, b, m != n and bool(params.get("full_matrices")), params.get("compute_uv", True)
        )
    return float(getattr(linalg, name)(inputs, outputs, params))


def _svd(a: int, b: int, is_full: bool, has_vectors: bool) -> float:
    if not has_vectors:
        return 2 * a * b * b + 2 * b**3
    return 4 * a * a * b + 22 * b**3 if is_full else 6 * a * b * b + 20 * b**3


def _sort(inputs: Sequence[Any], params: Params) -> float:
    """n·⌈log2 n⌉ comparisons per lane, 4 each since 0.9. `top_k` answers in order, so it is a sort here."""
    lane = inputs[0].shape[params.get("dimension", params.get("axis", -1))] if inputs[0].shape else 1
    return size(inputs[0]) * max(1, math.ceil(math.log2(max(lane, 1))))


def _fft(inputs: Sequence[Any], outputs: Sequence[Any], params: Params) -> float:
    """5·n·⌈log2 n⌉ per transform, half for a real one."""
    length = math.prod(params["fft_lengths"])
    batch = max(size(inputs[0]), size(outputs[0])) // max(length, 1)
    is_real = any(np.dtype(aval.dtype).kind == "f" for aval in [*inputs, *outputs])
    return (2.5 if is_real else 5) * batch * length * math.ceil(math.log2(max(length, 2)))


def _words(inputs: Sequence[Any], outputs: Sequence[Any], params: Params) -> float:
    return size(outputs[-1])


FORMULAS: dict[str, Formula] = {
    "fft": _fft,
    **dict.fromkeys(("random_bits", "threefry2x32", "rng_bit_generator"), _words),
}
