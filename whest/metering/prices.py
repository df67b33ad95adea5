"""What one operation costs in FLOPs: the table. It is closed, and it does not depend on the jaxlib that is installed.

Each operation has a formula (`elementwise`, `lookups`, `regions`, `linalg`, `randomness`). Tests hold every formula
against XLA's figure for the lowered operation: the table is never below it, but for the exceptions that docs/meter.md
gives reasons for. An operation of JAX's own that is not in the table is priced by XLA when it is met, and refused if
XLA can't see all of it; a worker's programs can't contain one. An operation that JAX doesn't define is refused,
whatever it is called: XLA's figure for a stranger's lowering is 0 for much that costs.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from whest.errors import UnmeterableError
from whest.host import page
from whest.metering import elementwise as each
from whest.metering import linalg, lookups, randomness, regions
from whest.metering.elementwise import plain_dtypes
from whest.metering.internals import ClosedJaxpr, Primitive, check_jaxpr
from whest.metering.jaxprs import called_program, refuse_foreign, sub_programs
from whest.metering.lowered import lowered_figure
from whest.metering.parameters import check_params

Aval = Any

Params = Mapping[str, Any]

Price = Callable[[Sequence[Aval], Sequence[Aval], Params], float]

FREE = frozenset(
    "reshape broadcast_in_dim transpose squeeze slice concatenate pad "
    "rev iota copy stop_gradient random_wrap random_unwrap random_clone split "
    "optimization_barrier device_put create_token after_all empty "
    "pvary sharding_constraint layout_constraint stack unstack name platform_index empty2 "
    "tile broadcast_to".split()
)
"""Moving data: no arithmetic, and nothing that depends on the data."""

_LOOP = "hides a loop whose rounds depend on the data"

_DEVICES = "works across devices"

_REFERENCE = "reads or writes a reference"

REFUSED = {
    "pure_callback": "runs host code",
    "io_callback": "runs host code",
    "debug_callback": "runs host code (jax.debug.print and its kin)",
    "debug_print": "runs host code",
    "ffi_call": "calls foreign code",
    "pallas_call": "is a hand-written kernel",
    "call_exported": "calls a program that was compiled ahead of time",
    "shard_map": "spreads over devices",
    "rng_uniform": "keeps a state from one call to the next",
    "infeed": "reads from the host",
    "outfeed": "writes to the host",
    **dict.fromkeys("igamma igammac igamma_grad_a random_gamma random_gamma_grad".split(), _LOOP),
    "regularized_incomplete_beta": _LOOP,
    **dict.fromkeys("psum pmax pmin ppermute all_gather all_to_all ragged_all_to_all axis_index".split(), _DEVICES),
    **dict.fromkeys("get swap addupdate run_state core_map".split(), _REFERENCE),
}

LAPACK: dict[str, Price] = {
    "cholesky": linalg.cholesky,
    "cholesky_update": linalg.cholesky_update,
    "lu": linalg.lu,
    "qr": linalg.qr,
    "geqrf": linalg.householder,
    "geqp3": linalg.householder,
    "householder_product": linalg.householder,
    "ormqr": linalg.ormqr,
    "triangular_solve": linalg.triangular_solve,
    "eigh": linalg.eigh,
    "eig": linalg.eig,
    "schur": linalg.eig,
    "hessenberg": linalg.hessenberg,
    "svd": linalg.svd,
    "tridiagonal": linalg.tridiagonal,
    "tridiagonal_solve": linalg.tridiagonal_solve,
    "symmetric_product": linalg.symmetric_product,
}
"""Textbook formulas for real numbers."""

FORMULAS: dict[str, Price] = {
    **{name: partial(each.elementwise, name) for name in (*each.ONE, *each.SEVERAL)},
    **{name: partial(regions.reduction, name) for name in regions.REDUCED_BY},
    **{name: partial(regions.prefix, name) for name in regions.SUMMED_BY},
    **{name: partial(regions.window, name) for name in regions.WINDOWED_BY},
    "cumlogsumexp": regions.log_sum_exp,
    "select_and_scatter_add": regions.select_and_scatter_add,
    "select_and_gather_add": regions.select_and_gather_add,
    "select_n": each.select_n,
    "rem": each.remainder,
    "integer_pow": each.integer_pow,
    "population_count": each.population_count,
    "gather": lookups.gather,
    "dynamic_slice": lookups.dynamic_slice,
    "dynamic_update_slice": lookups.dynamic_update_slice,
    "sort": lookups.sort,
    "top_k": lookups.top_k,
    "approx_top_k": lookups.top_k,
    "lu_pivots_to_permutation": lookups.lu_pivots_to_permutation,
    "dot_general": linalg.dot_general,
    "conv_general_dilated": linalg.convolution,
    "fft": linalg.fft,
    "random_bits": randomness.random_bits,
    **dict.fromkeys(("random_split", "random_fold_in", "random_seed"), randomness.random_keys),
    "threefry2x32": randomness.threefry2x32,
    "threefry4x32": randomness.threefry4x32,
    "philox2x32": randomness.philox2x32,
    "philox4x32": randomness.philox4x32,
    "rng_bit_generator": randomness.rng_bit_generator,
    "iota_2x32_shape": randomness.iota_2x32_shape,
    **LAPACK,
}

FOUR_TIMES = frozenset(LAPACK) | {"dot_general", "conv_general_dilated"}
"""Operations made of multiply-adds: a complex one is 8 real operations instead of 2."""


def price(primitive: Primitive, inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """FLOPs of one call, float64 and complex work at their higher price."""
    name = primitive.name
    refuse_foreign(primitive)
    if name in REFUSED:
        raise UnmeterableError(f"`{name}` {REFUSED[name]}: its cost can't be metered, so it can't be used in predict")
    if any(n < 0 for aval in (*inputs, *outputs) for n in getattr(aval, "shape", ())):
        raise UnmeterableError(f"`{name}` has a negative dimension")
    check_params(name, params)
    randomness.check_keys([*inputs, *outputs])
    if name in FREE:
        return 0.0
    flops = _flops(primitive, inputs, outputs, params)
    if not 0 <= flops < math.inf:
        raise UnmeterableError(f"`{name}` has no price: its parameters are out of range")
    return flops


def _flops(primitive: Primitive, inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    name = primitive.name
    wide = 2 if each.is_wide(plain_dtypes([*inputs, *outputs])) else 1
    if name in regions.REGIONS:
        bodies = [_region_price(name, region) for region in regions.regions_of(name, params)]
        return wide * regions.REGION_FORMULAS[name](inputs, outputs, params, bodies)
    formula = FORMULAS.get(name)
    if formula is not None:
        return wide * formula(inputs, outputs, params) * _complex_factor(name, inputs, outputs)
    figure = lowered_figure(primitive, inputs, params)
    if figure.unknown is not None:
        raise UnmeterableError(
            f"`{name}` can't be metered: {figure.unknown}. "
            f"Write it with operations that are counted ({page('meter.md')} lists them)"
        )
    return wide * figure.flops * each.complex_factor([*inputs, *outputs], 2)


def _complex_factor(name: str, inputs: Sequence[Aval], outputs: Sequence[Aval]) -> float:
    """4 for complex multiply-adds, 2 where only the answer is complex; other formulas know complex numbers."""
    if name not in FOUR_TIMES:
        return 1
    return each.complex_factor(inputs, 4) if each.complex_factor(inputs, 4) > 1 else each.complex_factor(outputs, 2)


def _region_price(name: str, region: ClosedJaxpr | None) -> float:
    """One application of an operation's region: a function of lone numbers without loops or branches."""
    if region is None:
        return 0.0
    if any(aval.shape for aval in region.in_avals):
        raise UnmeterableError(f"`{name}` can't be metered: its function takes arrays instead of lone numbers")
    try:
        check_jaxpr(region.jaxpr)
    except Exception as error:
        raise UnmeterableError(f"`{name}` has an inconsistent function: {str(error).splitlines()[0]}") from None
    return sum(_region_equation(name, eqn) for eqn in region.jaxpr.eqns)


def _region_equation(name: str, eqn: Any) -> float:
    inner = called_program(eqn)
    if inner is not None:
        check_params(eqn.primitive.name, eqn.params)
        return _region_price(name, inner)
    if sub_programs(eqn) is not None:
        raise UnmeterableError(f"`{name}` can't be metered: there is a `{eqn.primitive.name}` inside its function")
    return price(eqn.primitive, [var.aval for var in eqn.invars], [var.aval for var in eqn.outvars], eqn.params)
