"""Leaks that people found who had not read the code, each closed. docs/attacks.md tells what else they tried."""

import inspect
import logging
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax._src import monitoring
from jax._src.lax.linalg import cholesky_p
from jax.extend.core import Primitive
from jax.interpreters import mlir

from whest.errors import UnmeterableError
from whest.metering import meter
from whest.metering.eager import Ledger, metered
from whest.metering.walk import estimate_cost

ZERO = np.float32(0)
SQUARE = jax.ShapeDtypeStruct((16, 16), jnp.float32)


def by_window(f, *arrays):
    """`f` of arrays through a window of one place, which applies it to the start value and each element."""
    ones, n = (1,) * arrays[0].ndim, len(arrays)
    return lax.reduce_window(tuple(arrays), (ZERO,) * n, lambda _, v: (f(*v), *v[1:]), ones, ones, "VALID")[0]


def product_by_windows(a, b):
    (n, _), m = a.shape, b.shape[1]

    def add_outer(total, pair):
        left, right = lax.broadcast_in_dim(pair[0], (n, m), (0,)), lax.broadcast_in_dim(pair[1], (n, m), (1,))
        return by_window(lambda p, q, r: p * q + r, left, right, total), None

    return lax.scan(add_outer, jnp.zeros((n, m)), (a.T, b))[0]


def test_a_product_by_windows_of_one_place_costs_a_product() -> None:
    a = jax.random.normal(jax.random.key(0), SQUARE.shape)
    np.testing.assert_allclose(product_by_windows(a, a), a @ a, rtol=1e-4, atol=1e-4)
    assert meter(product_by_windows)(SQUARE, SQUARE).flops >= meter(jnp.matmul)(SQUARE, SQUARE).flops


def test_an_own_function_in_reduce_is_paid_for_every_element() -> None:
    def doubled(x):
        return lax.reduce(x, ZERO, lambda a, b: jnp.sin(a) + b, (1,))

    rows = jax.ShapeDtypeStruct((100, 2), jnp.float32)
    assert meter(doubled)(rows).flops >= 200 * meter(lambda a, b: jnp.sin(a) + b)(1.0, 1.0).flops


def test_the_factor_of_one_number_costs_a_square_root() -> None:
    numbers = jax.ShapeDtypeStruct((1000,), jnp.float32)
    roots = meter(lambda v: cholesky_p.bind(v.reshape(-1, 1, 1)).reshape(-1))(numbers)
    assert roots.flops >= meter(jnp.sqrt)(numbers).flops


def own_operation(name: str, whole=lambda x: x, impl=None):
    """An operation that JAX doesn't define, under any name, with a lowering and an evaluation of one's own."""
    own = Primitive(name)
    own.def_abstract_eval(lambda x: jax.core.ShapedArray(x.shape, x.dtype))
    own.def_impl(impl or (lambda x: jax.jit(own.bind)(x)))
    mlir.register_lowering(own, mlir.lower_fun(whole, multiple_results=False))
    return own


@pytest.mark.parametrize("name", ["own", "reshape", "add", "jit", "scan"])
def test_an_operation_of_ones_own_is_refused_whatever_it_is_called(name: str) -> None:
    own = own_operation(name, lambda x: by_window(lambda a, b: a * b, x, x))
    with pytest.raises(UnmeterableError, match="not an operation of JAX"):
        meter(own.bind)(SQUARE)


def test_an_own_evaluation_is_refused_in_eager_mode() -> None:
    ran = []
    own = own_operation("own", impl=lambda x: ran.append(x) or x)
    ledger = Ledger(1e9)
    with pytest.raises(UnmeterableError, match="not an operation of JAX"), metered(ledger):
        own.bind(jnp.ones(3))
    assert not ran


def test_nobody_listens_while_an_operation_is_compiled_and_run() -> None:
    """A listener, a log handler and a profiler would run at the compiler's expense."""
    heard: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append("log")

    def profile(frame, event, argument) -> None:
        if frame.f_code.co_name in ("apply_primitive", "_pjit_call_impl", "block_until_ready"):
            heard.append("profile")

    ledger, x = Ledger(1e9), jnp.ones((7, 11))
    handler, logger = Handler(), logging.getLogger("jax")
    logger.addHandler(handler)
    jax.monitoring.register_event_duration_secs_listener(listener := lambda event, seconds, **_: heard.append(event))
    try:
        with jax.log_compiles(), metered(ledger):
            sys.setprofile(profile)
            jnp.tan(x) + 0.123
            sys.setprofile(None)
        assert not [name for name in heard if name == "log"]
        logging.getLogger("jax._src.dispatch").warning("heard again")
        assert heard.pop() == "log"
    finally:
        sys.setprofile(None)
        logger.removeHandler(handler)
        monitoring.unregister_event_duration_listener(listener)
    inside = [name for name in heard if name in ("log", "profile") or "backend_compile" in name]
    assert ledger.flops > 0
    assert not inside


@pytest.mark.parametrize(
    "precision",
    [
        lax.DotAlgorithmPreset.F64_F64_F64,
        lax.DotAlgorithmPreset.BF16_BF16_F32_X3,
        lax.DotAlgorithm(np.float64, np.float64, np.float64),
    ],
)
def test_a_product_that_computes_in_another_type_is_refused(precision) -> None:
    """float64 products were had at the price of float32 ones, and below XLA's figure."""
    with pytest.raises(UnmeterableError, match=r"precision=.* has no price"):
        meter(lambda a, b: lax.dot(a, b, precision=precision))(SQUARE, SQUARE)
    for plain in (None, "highest", lax.DotAlgorithmPreset.DEFAULT):
        assert meter(lambda a, b: lax.dot(a, b, precision=plain))(SQUARE, SQUARE).flops == 2 * 16**3  # noqa: B023


def test_a_generator_with_a_memory_is_refused() -> None:
    """Its state lives in the compiled program: what one MLP drew was seen by the next."""
    with pytest.raises(UnmeterableError, match="keeps a state from one call to the next"):
        meter(lambda: lax.rng_uniform(np.float32(0), np.float32(1), (3,)))()


@pytest.mark.parametrize(("name", "price"), [("THREE_FRY", 59), ("PHILOX", 38), ("DEFAULT", 38)])
def test_xlas_generator_costs_what_its_algorithm_does(name: str, price: int) -> None:
    """Threefry by XLA's own generator was had at half of `threefry2x32`'s price."""
    algorithm = lax.RandomAlgorithm[f"RNG_{name}"]
    drawn = meter(lambda key: lax.rng_bit_generator(key, (1000,), algorithm=algorithm)[1])
    assert drawn(jnp.zeros(4, jnp.uint32)).flops == 1000 * price


def test_the_remainder_of_floats_costs_its_longest_division() -> None:
    """2^127 mod m was had for one FLOP; squaring and reducing takes 7 products and 7 reductions at least."""
    numbers = jax.ShapeDtypeStruct((10,), jnp.float32)
    assert meter(lax.rem)(numbers, numbers).flops == 10 * (254 + 23)
    whole = jax.ShapeDtypeStruct((10,), jnp.int32)
    assert meter(lax.rem)(whole, whole).flops == 10


def nested(x, depth: int, length: int):
    return lax.scan(lambda c, _: (nested(c, depth - 1, length), None), x, None, length)[0] if depth else x * 1.5


def test_what_is_too_large_or_too_deep_is_refused_in_words() -> None:
    with pytest.raises(UnmeterableError, match="more FLOPs than a number can hold"):
        meter(lambda x: nested(x, 36, 2**31 - 1))(1.0)
    program = jax.make_jaxpr(lambda x: nested(x, 12, 2))(1.0)
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(len(inspect.stack(0)) + 30)
        with pytest.raises(UnmeterableError, match="nested too deep"):
            estimate_cost(program)
    finally:
        sys.setrecursionlimit(limit)
    assert meter(lambda x: x.sum(1))(jax.ShapeDtypeStruct((1000, 0), jnp.float32)).flops == 0
