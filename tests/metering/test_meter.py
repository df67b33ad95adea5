"""The meter counts what the author wrote, however it is written."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from whest.errors import UnmeterableError
from whest.metering.loops import count_rounds
from whest.metering.walk import estimate_cost, meter

DEPTH, ROWS, WIDTH = 8, 32, 64
WEIGHTS = jax.ShapeDtypeStruct((DEPTH, WIDTH, WIDTH), jnp.float32)
X = jax.ShapeDtypeStruct((ROWS, WIDTH), jnp.float32)
MATMULS = DEPTH * 2 * ROWS * WIDTH * WIDTH
ELEMENTWISE = DEPTH * ROWS * WIDTH


def unrolled(x, weights):
    for w in weights:
        x = jnp.maximum(x @ w, 0)
    return x


def scanned(x, weights):
    return lax.scan(lambda h, w: (jnp.maximum(h @ w, 0), None), x, weights)[0]


def counted(x, weights):
    return lax.fori_loop(0, DEPTH, lambda i, h: jnp.maximum(h @ weights[i], 0), x)


def counted_by_arrays(x, weights):
    return lax.fori_loop(jnp.int32(0), jnp.int32(DEPTH), lambda i, h: jnp.maximum(h @ weights[i], 0), x)


def counted_by_while(x, weights):
    state = lax.while_loop(lambda s: s[0] < DEPTH, lambda s: (s[0] + 1, jnp.maximum(s[1] @ weights[s[0]], 0)), (0, x))
    return state[1]


def counted_down(x, weights):
    state = lax.while_loop(
        lambda s: s[0] >= 0, lambda s: (s[0] - 1, jnp.maximum(s[1] @ weights[s[0]], 0)), (DEPTH - 1, x)
    )
    return state[1]


def nested(x, weights):
    def two_layers(h, pair):
        return lax.fori_loop(0, 2, lambda i, h: jnp.maximum(h @ pair[i], 0), h), None

    return lax.scan(two_layers, x, weights.reshape(DEPTH // 2, 2, WIDTH, WIDTH))[0]


def mapped(x, weights):
    """The same products, one for each matrix instead of one after the other."""
    return lax.map(lambda w: jnp.maximum(x @ w, 0), weights)


def vmapped(x, weights):
    return jax.vmap(lambda w: jnp.maximum(x @ w, 0))(weights)


def in_jit_in_remat(x, weights):
    return jax.checkpoint(jax.jit(unrolled))(x, weights)


@pytest.mark.parametrize(
    "chain",
    [
        unrolled,
        scanned,
        counted,
        counted_by_arrays,
        counted_by_while,
        counted_down,
        nested,
        mapped,
        vmapped,
        in_jit_in_remat,
    ],
)
def test_a_chain_costs_the_same_however_it_is_written(chain):
    flops = meter(chain)(X, WEIGHTS).flops
    assert flops == pytest.approx(MATMULS + ELEMENTWISE, rel=1e-3)
    assert flops >= MATMULS + ELEMENTWISE


def test_agrees_with_xla_on_a_program_without_loops():
    def program(x, w):
        h = jnp.tanh(x @ w) * jnp.exp(-x) + jnp.where(x > 0, x, 0.5)
        return (h / (1 + jnp.abs(h))).sum(0), lax.erf(h).max()

    analysis = jax.jit(program).lower(X, jax.ShapeDtypeStruct((WIDTH, WIDTH), jnp.float32)).cost_analysis()
    ours = meter(program)(X, jax.ShapeDtypeStruct((WIDTH, WIDTH), jnp.float32)).flops
    assert ours == pytest.approx(analysis["flops"] + analysis["transcendentals"], rel=1e-3)


def test_a_cond_costs_its_dearest_branch_and_under_vmap_all_of_them():
    def choose(x):
        return lax.cond(x.sum() > 0, lambda x: x @ x, lambda x: x + 1, x)

    one = jax.ShapeDtypeStruct((16, 16), jnp.float32)
    dear, cheap, test = 2 * 16**3, 16**2, 16**2
    assert meter(choose)(one).flops == pytest.approx(dear + test, abs=2)
    both = meter(jax.vmap(choose))(jax.ShapeDtypeStruct((5, 16, 16), jnp.float32)).flops
    assert both >= 5 * (dear + cheap + test)


def rounds_and_cost(function, *args):
    program = jax.make_jaxpr(function)(*args)
    estimate = estimate_cost(program)
    results, rounds = jax.jit(count_rounds(program, list(estimate.loops)))(*args)
    expected = function(*args)
    np.testing.assert_allclose(results[0], expected, rtol=1e-6)
    return rounds.tolist(), estimate.cost(rounds.tolist()).flops, estimate.cost().flops


def test_a_data_dependent_while_is_counted_by_the_rounds_it_ran():
    identity = np.eye(8, dtype=np.float32)

    def halve(x):
        return lax.while_loop(lambda x: x.sum() > 1, lambda x: (x @ identity) * 0.5, x)

    rounds, flops, before = rounds_and_cost(halve, jnp.ones((8, 8)))
    assert rounds == [6]
    a_round = 2 * 8**3 + 64 + 64
    assert flops == pytest.approx(6 * a_round, rel=0.02)
    assert before < a_round  # a lower bound: the test alone
    with pytest.raises(UnmeterableError, match="depends on the data"):
        meter(halve)(jnp.ones((8, 8)))


def test_rounds_are_counted_through_scan_cond_jit_vmap_and_inside_a_loop_test():
    def program(x, n):
        def inner(c, i):
            return lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, s[1] + 1.0), (i, c))[1], None

        x = lax.scan(inner, x, jnp.arange(5))[0]  # 0 + 1 + 2 + 3 + 4 rounds
        x = lax.cond(
            n > 2, lambda x: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 2, s[1] * 2), (0, x))[1], jnp.sin, x
        )  # 2 rounds
        x = jax.jit(lambda x: lax.fori_loop(0, n, lambda i, x: x + 1, x))(x)  # 3 rounds
        lanes = jax.vmap(lambda k: lax.while_loop(lambda s: s < k, lambda s: s + 1, 0))(jnp.arange(4) * n)  # 9 rounds

        def dear_test(s):
            return lax.while_loop(lambda t: t < 7, lambda t: t + 1, s * 0) + s < 9  # 7 rounds per test, 3 tests

        return x + lanes.sum() + lax.while_loop(dear_test, lambda s: s + 1, n - 3)

    rounds, _, _ = rounds_and_cost(program, jnp.ones((4, 4)), 3)
    assert sorted(rounds) == sorted([10, 2, 3, 9, 2, 21])


def test_a_loop_inside_a_scan_that_runs_as_long_as_a_counter_says_is_counted():
    def triangle(x):
        def step(state, _):
            count, x = state
            x = lax.fori_loop(0, count, lambda i, x: x @ x, x)
            count = count + 1
            return (count, lax.fori_loop(0, count, lambda i, x: x + 1, x)), None

        return lax.scan(step, (0, x), length=5)[0][1]

    charges = {charge.operation: charge.flops for charge in meter(triangle)(jnp.eye(8)).charges}
    assert charges["dot_general"] == (0 + 1 + 2 + 3 + 4) * 2 * 8**3
    assert charges["add"] >= (1 + 2 + 3 + 4 + 5) * 8**2


def test_a_loop_inside_a_scan_whose_counter_depends_on_the_data_is_counted_when_it_runs():
    def triangle(x, n):
        def step(state, _):
            count, x = state
            return (count + 1, lax.fori_loop(0, count, lambda i, x: x @ x, x)), None

        return lax.scan(step, (n, x), length=5)[0][1]

    rounds, flops, _ = rounds_and_cost(triangle, jnp.eye(8), 2)
    assert rounds == [2 + 3 + 4 + 5 + 6]
    assert flops >= 20 * 2 * 8**3


def test_a_counter_that_wraps_around_is_not_taken_at_its_word():
    def wrapping(x):
        state = lax.while_loop(
            lambda s: s[0] < jnp.uint8(250), lambda s: (s[0] + jnp.uint8(100), s[1] @ s[1]), (jnp.uint8(0), x)
        )
        return state[1]

    rounds, flops, _ = rounds_and_cost(wrapping, jnp.eye(8))
    steps, counter = 0, 0
    while counter < 250:
        counter, steps = (counter + 100) % 256, steps + 1
    assert rounds == [steps]
    assert steps > 3
    assert flops >= steps * 2 * 8**3


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("pure_callback", lambda x: jax.pure_callback(lambda x: x, x, x)),
        ("io_callback", lambda x: jax.experimental.io_callback(lambda x: x, x, x)),
        ("debug_callback", lambda x: (jax.debug.callback(lambda: None), x)[1]),
        ("ffi_call", lambda x: jax.ffi.ffi_call("unknown_target", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)),
        ("igamma", lambda x: jax.scipy.special.gammainc(x, x)),
    ],
)
def test_what_cannot_be_counted_is_refused_by_name(name, function):
    with pytest.raises(UnmeterableError, match=name):
        meter(function)(jnp.ones((4, 4)))


def test_named_scopes_become_namespaces():
    def program(x):
        with jax.named_scope("first"):
            x = x @ x
            with jax.named_scope("inner"):
                x = jax.jit(lambda x: x + 1)(x)
        return jnp.einsum("ij,jk->ik", x, x)

    cost = meter(program)(jnp.ones((8, 8)))
    found = {(charge.namespace, charge.operation): charge.flops for charge in cost.charges if charge.flops}
    assert found == {("first", "dot_general"): 1024, ("first.inner", "add"): 64, ("", "dot_general"): 1024}


def test_derivatives_and_custom_rules_are_charged():
    @jax.custom_jvp
    def twice(x):
        return x @ x

    twice.defjvp(lambda primals, tangents: (twice(primals[0]), tangents[0]))
    x = jnp.ones((8, 8))
    assert meter(twice)(x).flops == 1024
    assert meter(jax.grad(lambda x: (x @ x).sum()))(x).flops >= 2 * 1024


def test_strassen_written_by_hand_costs_less():
    def strassen(a, b):
        (a11, a12), (a21, a22) = (jnp.split(half, 2, 1) for half in jnp.split(a, 2, 0))
        (b11, b12), (b21, b22) = (jnp.split(half, 2, 1) for half in jnp.split(b, 2, 0))
        m1 = (a11 + a22) @ (b11 + b22)
        m2, m3, m4, m5 = (a21 + a22) @ b11, a11 @ (b12 - b22), a22 @ (b21 - b11), (a11 + a12) @ b22
        m6, m7 = (a21 - a11) @ (b11 + b12), (a12 - a22) @ (b21 + b22)
        return jnp.block([[m1 + m4 - m5 + m7, m3 + m5], [m2 + m4, m1 - m2 + m3 + m6]])

    n = 256
    square = jax.ShapeDtypeStruct((n, n), jnp.float32)
    flops = meter(strassen)(square, square).flops
    assert flops == 7 * 2 * (n // 2) ** 3 + 18 * (n // 2) ** 2
