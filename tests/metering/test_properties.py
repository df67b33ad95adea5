"""Random programs: the same cost traced and eager, unrolled and scanned, here and as plain data."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from tests.support.operations import equations
from whest.isolation.portable import read_program, write_program
from whest.metering.eager import Ledger, metered
from whest.metering.walk import meter

N = 6
IDENTITY = np.eye(N, dtype=np.float32)
STEPS = {
    "add": lambda x: x + 1.5, "sub": lambda x: x - x.T, "mul": lambda x: x * 0.5, "div": lambda x: x / 3.0,
    "neg": lambda x: -x, "abs": jnp.abs, "sign": jnp.sign, "max": lambda x: jnp.maximum(x, 0.0),
    "min": lambda x: jnp.minimum(x, 1.0), "exp": lambda x: jnp.exp(-jnp.abs(x)), "tanh": jnp.tanh, "sin": jnp.sin,
    "cos": jnp.cos, "erf": lax.erf, "logistic": jax.nn.sigmoid, "sqrt": lambda x: jnp.sqrt(jnp.abs(x)),
    "square": jnp.square, "pow": lambda x: x**3, "log1p": lambda x: jnp.log1p(jnp.abs(x)), "floor": jnp.floor,
    "round": jnp.round, "where": lambda x: jnp.where(x > 0, x, 0.1 * x), "clip": lambda x: jnp.clip(x, -2, 2),
    "matmul": lambda x: x @ x, "matvec": lambda x: x * (x @ x[0]), "transpose": lambda x: x.T @ IDENTITY,
    "einsum": lambda x: jnp.einsum("ij,kj->ik", x, x), "sum": lambda x: x - x.sum(0), "mean": lambda x: x - x.mean(),
    "maxreduce": lambda x: x - x.max(1, keepdims=True), "cumsum": lambda x: jnp.cumsum(x, 0), "sort": jnp.sort,
    "roll": lambda x: jnp.roll(x, 1, 0), "gather": lambda x: x[jnp.array([1, 0, 2, 3, 5, 4])],
    "scatter": lambda x: x.at[0].add(1.0), "slice": lambda x: x.at[:, 1:].set(x[:, :-1]),
    "cholesky": lambda x: jnp.linalg.cholesky(x @ x.T + 50 * IDENTITY),
    "qr": lambda x: jnp.linalg.qr(x + 9 * IDENTITY)[0],
    "solve": lambda x: jnp.linalg.solve(IDENTITY * 9 + 0.01 * jnp.tanh(x), x), "fft": lambda x: jnp.fft.fft(x).real,
    "random": lambda x: x + jax.random.normal(jax.random.key(3), x.shape), "softmax": jax.nn.softmax,
    "cond": lambda x: lax.cond(x[0, 0] > 0, lambda x: x @ x, lambda x: x + 1, x),
    "loop": lambda x: lax.fori_loop(0, 3, lambda i, h: h * 0.9 + i, x),
    "vmap": jax.vmap(lambda row: row / (1 + jnp.abs(row).max())), "grad": jax.grad(lambda x: jnp.sum(jnp.tanh(x) ** 2)),
}  # fmt: skip
PRODUCTS = {"matmul": 1, "transpose": 1, "einsum": 1}
programs = st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=6)
X = jnp.asarray(np.random.default_rng(0).normal(size=(N, N)), jnp.float32)
QUICK = settings(max_examples=20, deadline=None, derandomize=True)


def compose(names):
    def program(x):
        for name in names:
            x = STEPS[name](x)
        return x

    return program


def lone_conversions(program):
    found = equations(jax.make_jaxpr(program)(X))
    return sum(eqn.primitive.name == "convert_element_type" and not eqn.outvars[0].aval.shape for eqn in found)


def test_there_are_about_forty_primitives_to_draw_from():
    used = set()
    for step in STEPS.values():
        used |= {charge.operation for charge in meter(step)(X).charges}
    assert len(used) >= 40


@settings(QUICK, max_examples=8)
@given(programs)
def test_traced_equals_eager(names):
    program = compose(names)
    ledger = Ledger(1e15)
    with metered(ledger):
        program(X)
    traced = meter(program)(X).flops
    assert abs(ledger.flops - traced) <= 1e-3 * traced + 2


@QUICK
@given(programs, st.integers(1, 5))
def test_unrolled_equals_scanned(names, length):
    program = compose(names)

    def unrolled(x):
        for _ in range(length):
            x = program(x)
        return x

    def scanned(x):
        return lax.scan(lambda x, _: (program(x), None), x, None, length=length)[0]

    counted = meter(lambda x: lax.fori_loop(0, length, lambda i, x: program(x), x))(X).flops
    expected = meter(unrolled)(X).flops
    lone = length * lone_conversions(program)  # free outside loops, charged inside
    assert 0 <= meter(scanned)(X).flops - expected <= lone
    assert abs(counted - expected) <= length + lone


@QUICK
@given(programs)
def test_never_less_than_the_products_alone(names):
    products = sum(PRODUCTS.get(name, 0) for name in names)
    assert meter(compose(names))(X).flops >= products * 2 * N**3


@QUICK
@given(programs)
def test_wrapping_and_travelling_change_nothing(names):
    program = compose(names)
    expected = meter(program)(X).flops
    assert meter(jax.jit(program))(X).flops == expected
    assert meter(jax.checkpoint(program))(X).flops == expected
    document, arrays = write_program(jax.make_jaxpr(program)(X))
    assert meter(read_program(document, arrays))(X).flops == expected
    with jax.default_matmul_precision("highest"):
        assert meter(program)(X).flops == expected
    with jax.default_device(jax.devices("cpu")[-1]):
        assert meter(program)(X).flops == expected
