"""A small call of every operation that the meter has a price for, to hold the table against XLA's figure."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, JaxprEqn, primitives

from whest.metering.elementwise import ONE, SEVERAL
from whest.metering.internals import operations
from whest.metering.jaxprs import sub_programs

Call = tuple[Callable[..., Any], tuple[Any, ...]]

SHAPE = (6, 10)

DTYPES = {
    "float32": jnp.float32, "bfloat16": jnp.bfloat16, "float16": jnp.float16, "int32": jnp.int32, "uint8": jnp.uint8,
    "bool": jnp.bool_, "complex64": jnp.complex64, "float64": jnp.float64, "complex128": jnp.complex128,
    "int64": jnp.int64,
}  # fmt: skip


LENGTHENED = frozenset("digamma lgamma polygamma".split() if jax.__version_info__ >= (0, 11) else ())
"""Operations that JAX lowers to a longer series since 0.11. The table keeps its price: F is the same on each JAX."""


def array(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


F, WHOLE, B = array(*SHAPE), array(*SHAPE, dtype=jnp.int32), array(*SHAPE, dtype=jnp.bool_)
C, SQUARE, INDEX = array(*SHAPE, dtype=jnp.complex64), array(6, 6), array(3, dtype=jnp.int32)
COMPLEX_SQUARE = array(6, 6, dtype=jnp.complex64)
WORD = array(5, dtype=jnp.uint32)

PARAMETERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    **dict.fromkeys(
        "exp exp2 expm1 log log1p logistic sqrt rsqrt cbrt sin cos tan tanh".split(), lambda dtype: {"accuracy": None}
    ),
    "conj": lambda dtype: {"input_dtype": np.dtype(dtype)},
    "round": lambda dtype: {"rounding_method": lax.RoundingMethod.TO_NEAREST_EVEN},
    "reduce_precision": lambda dtype: {"exponent_bits": 5, "mantissa_bits": 5},
    "convert_element_type": lambda dtype: {"new_dtype": np.dtype("float32"), "weak_type": False, "sharding": None},
    "bitcast_convert_type": lambda dtype: {"new_dtype": np.dtype("uint8")},
}


def elementwise_calls(name: str, dtype: Any) -> Iterator[Call]:
    """The operation on one, two or three arrays of this dtype, as far as it takes them."""
    primitive = {**operations(), "mulhi": _primitive(lax.mulhi, WORD, WORD)}.get(name) or getattr(
        primitives, f"{name}_p"
    )
    params = PARAMETERS.get(name, lambda dtype: {})(dtype)
    for n in (1, 2, 3):
        operands = (array(*SHAPE, dtype=dtype),) * n

        def call(*arguments: Any) -> Any:
            return primitive.bind(*arguments, **params)

        try:
            jax.make_jaxpr(call)(*operands)
        except Exception:
            continue
        yield call, operands


def _primitive(function: Callable[..., Any], *args: Any) -> Any:
    return jax.make_jaxpr(function)(*args).eqns[-1].primitive


def _window(combine: Callable[..., Any], start: float) -> Callable[..., Any]:
    return lambda x: lax.reduce_window(x, np.array(start, x.dtype), combine, (3, 3), (1, 2), "SAME")


def _scatters(combine: str) -> Callable[..., Any]:
    return lambda x, i: getattr(x.at[i], combine)(jnp.ones((), x.dtype), mode="clip")


def _key(kind: str) -> Any:
    return jax.eval_shape(lambda: jax.random.key(0, impl=kind))


CALLS: list[Call] = [
    *[(lambda x, name=name: getattr(lax, name)(x, (0,)), (operand,))
      for name in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min") for operand in (F, WHOLE)],
    *[(lambda x, name=name: getattr(lax, name)(x, (0,)), (C,)) for name in ("reduce_sum", "reduce_prod")],
    *[(lambda x, name=name: getattr(lax, name)(x, (0,)), (B,)) for name in ("reduce_and", "reduce_or", "reduce_xor")],
    *[(lambda x, name=name: getattr(lax, name)(x, 0), (operand,))
      for name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp") for operand in (F, C)],
    *[(lambda x, name=name: getattr(lax, name)(x, 0, jnp.int32), (F,)) for name in ("argmax", "argmin")],
    *[(lax.rem, (operand, operand)) for operand in (F, WHOLE)],
    *[(lambda x, y=y: lax.integer_pow(x, y), (operand,)) for y in (0, 1, 2, 3, 5, 8, -1, -3) for operand in (F, C)],
    *[(lambda p, x, n=n: lax.select_n(p, *[x] * n), (WHOLE, operand)) for n in (3, 5, 64) for operand in (F, C)],
    (lambda p, x: lax.select_n(p, x, x), (B, F)),
    (lambda x: lax.population_count(x), (WHOLE,)),
    *[(lambda x, i, mode=mode: x.at[i].get(mode=mode), (operand, INDEX))
      for mode in ("fill", "clip", "promise_in_bounds") for operand in (F, C, WHOLE)],
    (lambda x, i: x.at[i, i].get(mode="fill"), (F, INDEX)),
    *[(_scatters(name), (operand, INDEX))
      for name in ("set", "add", "subtract", "multiply", "min", "max") for operand in (F, WHOLE, C)],
    (lambda x, i: lax.scatter_apply(x, i, lambda v: jnp.sin(v) * 3, lax.ScatterDimensionNumbers((1,), (0,), (0,)),
                                    update_shape=(3, 10)), (F, array(3, 1, dtype=jnp.int32))),
    (lambda x, i: lax.dynamic_slice(x, (i, i), (2, 3)), (F, array(dtype=jnp.int32))),
    (lambda x, i: lax.dynamic_update_slice(x, jnp.ones((2, 3)), (i, i)), (F, array(dtype=jnp.int32))),
    *[(lambda x: lax.sort(x, dimension=0), (operand,)) for operand in (F, WHOLE, C, array(3, 7, 2))],
    (lambda x: lax.sort((x, x, x), dimension=0, num_keys=2), (F,)),
    (lambda x: lax.top_k(x, 2), (F,)),
    (lambda x: lax.approx_max_k(x, 2), (array(8, 64),)),
    *[(lambda a, b: lax.dot_general(a, b, (((1,), (1,)), ((), ()))), (operand, operand)) for operand in (F, WHOLE, C)],
    (lambda a, b: jnp.einsum("bij,bjk->bik", a, b), (array(2, 3, 4), array(2, 4, 5))),
    *[(lambda a, b: lax.conv_general_dilated(a, b, (2, 1), [(1, 2), (0, 3)], (1, 2), (2, 1)),
       (array(2, 3, 9, 8, dtype=dtype), array(6, 3, 3, 2, dtype=dtype))) for dtype in (jnp.float32, jnp.complex64)],
    (lambda a, b: lax.conv_general_dilated(a, b, (2, 1), "SAME", feature_group_count=3),
     (array(2, 6, 9, 8), array(6, 2, 3, 2))),
    (lambda a, b: lax.conv_general_dilated(a, b, (2, 1), "VALID", batch_group_count=2),
     (array(2, 3, 9, 8), array(6, 3, 3, 2))),
    (jnp.fft.fft, (C,)), (jnp.fft.rfft, (F,)), (jnp.fft.irfft, (C,)),
    (_window(lax.add, 0), (F,)), (_window(lax.add, 0), (C,)), (_window(lambda a, b: jnp.sin(a) * b, 0), (F,)),
    (lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 3), (1, 2), "VALID", (2, 1), (1, 2)), (F,)),
    (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 3), (1, 2), "VALID"), (F,)),
    (lambda x: lax.reduce_window(x, jnp.inf, lax.min, (2, 3), (1, 2), "VALID"), (F,)),
    (jax.grad(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 3), (1, 2), "VALID").sum()), (F,)),
    *[(lambda x, y, w=w: jax.jvp(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, w, (1, 2), "VALID"), (x,), (y,)),
       (F, F)) for w in ((2, 3), (1, 1))],
    (lambda x: lax.reduce(x, np.float32(0), lambda a, b: jnp.sin(a) * b, (0,)), (F,)),
    (lambda x, y: lax.reduce((x, y), (np.float32(0), np.int32(0)), lambda a, b: (a[0] + b[0], a[1] * b[1]), (0,)),
     (F, WHOLE)),
    *[(call, (operand,)) for operand in (SQUARE, COMPLEX_SQUARE) for call in (
        lambda a: lax.linalg.cholesky(a, symmetrize_input=False), lax.linalg.lu, lax.linalg.qr, lax.linalg.svd,
        lambda a: lax.linalg.eigh(a, symmetrize_input=False), lax.linalg.eig, lax.linalg.schur, lax.linalg.hessenberg,
        lambda a: lax.linalg.triangular_solve(a, a), lambda a: lax.linalg.tridiagonal(a),
        lambda a: lax.linalg.tridiagonal_solve(a[0], a[1], a[2], a), lambda a: lax.linalg.householder_product(a, a[0]),
        lambda a: lax.linalg.svd(a, compute_uv=False))],
    (lambda a: lax.linalg.cholesky_update(a, a[0]), (SQUARE,)),
    (lambda a: lax.linalg.symmetric_product(a, a, alpha=2.0, beta=0.5), (SQUARE,)),
    (lambda pivots: lax.linalg.lu_pivots_to_permutation(pivots, 7), (INDEX,)),
    (lambda a: jax.scipy.linalg.qr(a, pivoting=True), (SQUARE,)),
    *[(lambda k: jax.random.bits(k, (7,)), (_key(kind),)) for kind in ("threefry2x32", "rbg", "unsafe_rbg")],
    *[(lambda k: jax.random.split(k, 7), (_key(kind),)) for kind in ("threefry2x32", "rbg", "unsafe_rbg")],
    *[(lambda k: jax.random.fold_in(k, 7), (_key(kind),)) for kind in ("threefry2x32", "rbg", "unsafe_rbg")],
    (lambda s: jax.random.key_data(jax.random.key(s)), (array(dtype=jnp.int32),)),
    (lambda s: jax.random.clone(jax.random.wrap_key_data(s)), (array(2, dtype=jnp.uint32),)),
    (primitives.threefry2x32_p.bind, (WORD,) * 4),
    (lambda k: lax.rng_bit_generator(k, (7,)), (array(4, dtype=jnp.uint32),)),
    (lambda x: lax.pad(x, np.float32(0), ((1, 1, 2), (-1, 0, 0))), (F,)),
    (lambda x: jnp.concatenate([x.T.reshape(6, 10), x[::-1], x[:2, None].squeeze(1)]), (F,)),
    (lambda x: lax.optimization_barrier(jnp.stack(jnp.unstack(x))), (F,)), (lambda x: lax.split(x, (2, 4)), (F,)),
    (lambda x: lax.stop_gradient(jnp.copy(x)) + lax.iota(jnp.float32, 10), (F,)), (lambda x: jnp.tile(x, 3), (F,)),
    (lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos), (F,)),
    (lambda x: jnp.broadcast_to(x, (3, 6, 10)), (F,)), (lambda x: jax.device_put(x), (F,)),
    (lambda x: lax.after_all(lax.create_token(x)), (F,)), (lambda: lax.empty((3,), jnp.float32), ()),
    (lambda x: jax.lax.with_sharding_constraint(x, jax.sharding.SingleDeviceSharding(jax.devices()[0])), (F,)),
    (lambda x: jax.random.normal(jax.random.key(0), x.shape) + x, (F,)), (jax.nn.softmax, (F,)),
]  # fmt: skip
"""Programs whose equations are held against XLA one by one."""


def equations(program: ClosedJaxpr) -> Iterator[JaxprEqn]:
    """The plain operations of a program, those inside calls, loops and branches too."""
    for eqn in program.jaxpr.eqns:
        inner = sub_programs(eqn)
        if inner is None:
            yield eqn
        for part in inner or ():
            yield from equations(part)


def every_elementwise() -> list[tuple[str, str]]:
    return [(name, dtype) for name in sorted({*ONE, *SEVERAL}) for dtype in DTYPES]
