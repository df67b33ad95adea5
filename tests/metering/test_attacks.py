"""Programs that try to pay less than they do. Each is charged at least what it does, or refused by name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import primitives

from whest.errors import UnmeterableError
from whest.metering.walk import meter

N = 16
X = jax.ShapeDtypeStruct((N, N), jnp.float32)
ROW = jax.ShapeDtypeStruct((256,), jnp.float32)
C = jax.ShapeDtypeStruct((N, N), jnp.complex64)
WHOLE = jax.ShapeDtypeStruct((N, N), jnp.int32)
ONE = jax.ShapeDtypeStruct((), jnp.float32)
INDEX = jax.ShapeDtypeStruct((), jnp.int32)
PRODUCT = 2 * N**3


def long(v):
    for k in range(200):
        v = jnp.sin(v) * (k + 1.0) + 0.5
    return v


def gaussian(v):
    """A Gaussian in 16 arithmetic operations, made of a number alone."""
    for _ in range(8):
        v = jnp.tanh(v * 1.7 + 0.3)
    return v


def applied(function, x=ROW):
    """`lax.scatter_apply`: the public road to a scatter with a function of one's own."""
    rows = np.arange(x.shape[0], dtype=np.int32)[:, None]
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    return lambda x: lax.scatter_apply(x, rows, function, numbers, update_shape=x.shape)


def rebound(primitive, function, operand=X, **changes):
    """An equation of an honest program, bound again with other parameters."""

    def attack(*args):
        eqn = next(e for e in jax.make_jaxpr(function)(*args).eqns if e.primitive.name == primitive)
        given = [args[0], np.zeros((3, 1), np.int32), np.ones((3, N), np.float32)][: len(eqn.invars)]
        made = {key: change() if callable(change) else change for key, change in changes.items()}
        return eqn.primitive.bind(*given, **{**eqn.params, **made})

    return attack


def region(function):
    one = jax.ShapeDtypeStruct((), jnp.float32)
    return lambda: jax.make_jaxpr(function)(one, one).jaxpr


def at_add(x):
    return x.at[np.array([0, 1, 2])].add(1.0)


def by_table(x):
    """64 values of a function chosen by `select_n` instead of computed."""
    which = (x * 64).astype(jnp.int32)
    return lax.select_n(which, *[jnp.full(x.shape, np.float32(k)) for k in range(64)])


def by_switch(i, x):
    return lax.switch(i, [lambda x, k=k: x * 0 + k for k in range(64)], x)


def by_vmapped_switch(x):
    branches = [lambda v, k=k: v + k for k in range(16)]
    return jax.vmap(jax.vmap(lambda v: lax.switch(v.astype(jnp.int32), branches, v)))(x)


def by_update_slice(x):
    """A table written at places that the data choose."""

    def step(table, v):
        return primitives.dynamic_update_slice_p.bind(table, v[None], v.astype(jnp.int32)), None

    return lax.scan(step, jnp.zeros(1024), x)[0]


def by_slice(x):
    table = jnp.zeros(1024)
    return lax.map(lambda v: primitives.dynamic_slice_p.bind(table, v.astype(jnp.int32), slice_sizes=(1,))[0], x)


def by_scatter_places(x):
    return jnp.zeros(2**20).at[(x * 2**20).astype(jnp.int32)].set(1.0, mode="promise_in_bounds")


def by_one_hot_scatter_max(x):
    return jnp.zeros(4096).at[(x * 4096).astype(jnp.int32)].max(x)


def conversions(x):
    """A floor by conversions of lone numbers, in a loop."""
    return lax.fori_loop(0, 1000, lambda i, v: lax.convert_element_type(lax.convert_element_type(v, int), float) + v, x)


def scan_of_conversions(x):
    return lax.scan(
        lambda v, _: (lax.convert_element_type(lax.convert_element_type(v, int), float), None), x, None, 500
    )[0]


def packed_lanes(a):
    """Two products of 8-bit numbers in one of int32: the convention's bound is 32 / 16 lanes."""
    return (a + (a << 16)) @ a


CHARGED = {
    "a long function in scatter_apply": (applied(long), (ROW,), 256 * 600),
    "Gaussians in scatter_apply": (applied(gaussian), (ROW,), 256 * 24),
    "a product in scatter_apply": (applied(lambda v: v * v * v * v), (ROW,), 256 * 3),
    "scatter-add with another function": (
        rebound("scatter-add", at_add, update_jaxpr=region(lambda a, b: long(a) + b)), (X,), 3 * N * 601),
    "scatter-max that draws": (
        rebound("scatter-max", lambda x: x.at[np.array([0, 1, 2])].max(1.0),
                update_jaxpr=region(lambda a, b: gaussian(a) + b)), (X,), 3 * N * 25),
    "scatter with a function in jit": (applied(jax.jit(long)), (ROW,), 256 * 600),
    "a long function in reduce": (
        lambda x: lax.reduce(x, np.float32(0), lambda a, b: long(a) + b, (0,)), (X,), (N * N - N) * 601),
    "a long function in reduce_window": (
        lambda x: lax.reduce_window(x, np.float32(0), lambda a, b: long(a) + b, (2, 2), (1, 1), "VALID"), (X,),
        15 * 15 * 3 * 601),
    "two operands in reduce": (
        lambda x: lax.reduce((x, x), (np.float32(0), np.float32(1)), lambda a, b: (a[0] + b[0], a[1] * b[1]), (0,)),
        (X,), 2 * (N * N - N)),
    "complex numbers in reduce": (
        lambda x: lax.reduce(x, np.complex64(1), lambda a, b: a * b * b, (0,)), (C,), 12 * (N * N - N)),
    "select_n of 64 cases": (by_table, (X,), N * N * 6),
    "switch of 64 branches": (by_switch, (INDEX, X), 6 + 2 * N * N),
    "switch under vmap": (by_vmapped_switch, (X,), N * N * (4 + 16)),
    "a table written by dynamic_update_slice": (by_update_slice, (ROW,), 256 * 10),
    "a table read by dynamic_slice": (by_slice, (ROW,), 256 * 10),
    "a million places to scatter to": (by_scatter_places, (ROW,), 256 * 21),
    "scatter-max as a choice": (by_one_hot_scatter_max, (ROW,), 256 * 13),
    "gather of single numbers": (lambda x: jnp.arange(1024.0)[(x * 1024).astype(jnp.int32)], (ROW,), 256 * 10),
    "gather that fills": (
        lambda x: jnp.arange(1024.0).at[(x * 1024).astype(jnp.int32)].get(mode="fill"), (ROW,), 256 * 15),
    "complex square": (lax.square, (C,), 14 * N * N),
    "complex square root": (lax.sqrt, (C,), 93 * N * N),
    "complex exponential": (lax.exp, (C,), 19 * N * N),
    "complex logarithm": (lax.log, (C,), 66 * N * N),
    "complex power": (lax.pow, (C, C), 91 * N * N),
    "complex tangent": (lax.tan, (C,), 37 * N * N),
    "complex maximum": (lax.max, (C, C), 9 * N * N),
    "complex product of matrices": (lambda c: c @ c, (C,), 4 * PRODUCT),
    "complex Cholesky": (lambda c: lax.linalg.cholesky(c, symmetrize_input=False), (C,), 4 * N**3 / 3),
    "complex LU": (lax.linalg.lu, (C,), 4 * 2 * N**3 / 3),
    "complex triangular solve": (lambda c: lax.linalg.triangular_solve(c, c), (C,), 4 * N**3),
    "complex eigenvectors": (lambda c: lax.linalg.eigh(c, symmetrize_input=False), (C,), 4 * 9 * N**3),
    "complex singular values": (lax.linalg.svd, (C,), 4 * 21 * N**3),
    "complex QR": (lax.linalg.qr, (C,), 4 * 2 * (4 / 3) * N**3),
    "lone conversions in fori_loop": (conversions, (ONE,), 3000),
    "lone conversions in scan": (scan_of_conversions, (ONE,), 1000),
    "two lanes in an int32": (packed_lanes, (WHOLE,), PRODUCT),
    "bytes by bitcast": (lambda x: lax.bitcast_convert_type(x, jnp.uint8), (X,), 4 * N * N),
    "nextafter as a ladder": (lambda x: lax.nextafter(x, x + 1), (X,), 24 * N * N),
    "bits by popcount": (lambda x: lax.population_count(x ^ x.T), (WHOLE,), 32 * N * N),
    "many lanes sorted at once": (lambda x: lax.sort(x, dimension=0), (X,), N * N * 8),
    "keys of four words": (
        lambda s: jax.random.split(jax.random.wrap_key_data(s, impl="rbg"), 64),
        (jax.ShapeDtypeStruct((4,), jnp.uint32),), 64 * 2 * 117),
    "a branch under cond in scan": (
        lambda x: lax.fori_loop(0, 9, lambda i, h: lax.cond(h[0, 0] > 1e9, lambda h: h @ h, lambda h: h, h), x),
        (X,), 9 * PRODUCT),
    "a long dead branch of select": (lambda x: jnp.where(x > 0, x @ x, x), (X,), PRODUCT),
    "windows that overlap": (
        lambda x: lax.reduce_window(x, np.float32(0), lax.add, (8, 8), (1, 1), "SAME"), (X,), N * N * 63),
    "a convolution of one channel": (
        lambda x: lax.conv(x[None, None], x[None, None, :3, :3], (1, 1), "VALID"), (X,), 2 * 9 * 14 * 14),
    "float64 in the middle": (
        lambda x: (x.astype(jnp.float64) @ x.astype(jnp.float64)).astype(jnp.float32), (X,), 2 * PRODUCT),
    "a composite": (lambda x: lax.composite(lambda x: x @ x, "whest.free")(x), (X,), PRODUCT),
}  # fmt: skip
"""Name: program, operands, the least it must cost."""


@pytest.mark.parametrize("name", CHARGED)
def test_charged(name):
    function, operands, at_least = CHARGED[name]
    with jax.enable_x64("float64" in name):
        flops = meter(function)(*operands).flops
    assert flops >= at_least
    assert flops <= 3 * at_least + 3000  # and not for something else


def own_generator():
    """A random generator of one's own: its functions may compute anything."""
    from jax.extend.random import define_prng_impl

    seed = lambda s: jnp.zeros(2, jnp.uint32)  # noqa: E731
    split = lambda k, shape: jnp.zeros((*shape, 2), jnp.uint32)  # noqa: E731
    bits = lambda k, width, shape: lax.bitcast_convert_type(long(jnp.ones(shape)), jnp.uint32)  # noqa: E731
    return define_prng_impl(
        key_shape=(2,), seed=seed, split=split, random_bits=bits, fold_in=lambda k, d: k, name="own", tag="fry"
    )


def with_a_loop(v):
    return lax.fori_loop(0, 9, lambda i, v: v * 2, v)


def exported(x):
    done = jax.export.export(jax.jit(lambda x: x @ x))(X)
    return done.call(x)


def hidden(parameter):
    """An honest sine that carries something in a parameter."""
    return lambda x: primitives.sin_p.bind(x, accuracy=parameter)


REFUSED = {
    "a loop in scatter_apply": (applied(with_a_loop), (ROW,), "scatter"),
    "a branch in scatter_apply": (
        applied(lambda v: lax.cond(v > 0, jnp.sin, jnp.cos, v)), (ROW,), "scatter"),
    "a callback in scatter_apply": (
        applied(lambda v: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), jnp.float32), v)), (ROW,), "callback"),
    "a loop in reduce": (
        lambda x: lax.reduce(x, np.float32(0), lambda a, b: with_a_loop(a) + b, (0,)), (X,), "reduce"),
    "a generator of one's own": (
        lambda s: jax.random.bits(jax.random.wrap_key_data(s, impl=own_generator())),
        (jax.ShapeDtypeStruct((2,), jnp.uint32),), "generator|parameter"),
    "a function in a parameter": (hidden(long), (X,), "sin.*accuracy"),
    "a program in a parameter": (hidden(jax.make_jaxpr(long)(1.0)), (X,), "sin.*accuracy"),
    "an object in a parameter": (hidden(object()), (X,), "sin.*accuracy"),
    "an exported program": (exported, (X,), "call_exported"),
    "incomplete gamma": (jax.scipy.special.gammainc, (X, X), "igamma"),
    "incomplete beta": (jax.scipy.special.betainc, (X, X, X), "regularized_incomplete_beta"),
    "gamma variates": (
        lambda s: jax.random.gamma(jax.random.wrap_key_data(s), 2.0),
        (jax.ShapeDtypeStruct((2,), jnp.uint32),), "random_gamma"),
    "a debug print": (lambda x: (jax.debug.print("{}", x), x)[1], (X,), "debug"),
    "a foreign call": (lambda x: jax.ffi.ffi_call("mine", X)(x), (X,), "ffi_call"),
}  # fmt: skip
"""Name: program, operands, what the refusal names."""


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    function, operands, words = REFUSED[name]
    with pytest.raises(UnmeterableError, match=words):
        meter(function)(*operands)


def test_there_are_many_of_them():
    assert len(CHARGED) + len(REFUSED) >= 60
