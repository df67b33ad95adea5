"""Eager mode charges what traced mode charges, stops at the budget, and places every second."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from estimators.cov_prop import CovarianceProp
from estimators.mean_prop import MeanProp
from estimators.monte_carlo import MonteCarlo
from whest.dataset.sources import FreshDataset
from whest.errors import UnmeterableError
from whest.estimator.contract import SetupContext
from whest.estimator.eager import EagerSession
from whest.estimator.traced import compile_program, estimator_function
from whest.metering.eager import BudgetSpentError, CompilerClock, Ledger, MeteringTrace, metered
from whest.metering.loops import count_rounds
from whest.metering.walk import estimate_cost


def spend(function, *args, budget=1e15):
    ledger = Ledger(budget)
    with metered(ledger):
        result = jax.block_until_ready(function(*args))
    return result, ledger


def traced_flops(function, *args):
    program = jax.make_jaxpr(function)(*args)
    estimate = estimate_cost(program)
    _, rounds = jax.jit(count_rounds(program, list(estimate.loops)))(*args)
    return estimate.cost(rounds.tolist()).flops


X = jnp.asarray(np.random.default_rng(0).normal(size=(16, 16)), jnp.float32)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.tanh(x @ x) + 1,
        lambda x: lax.scan(lambda h, _: (jnp.sin(h @ x), None), x, None, length=7)[0],
        lambda x: lax.fori_loop(0, 5, lambda i, h: h @ x + i, x),
        lambda x: lax.while_loop(lambda h: h[1] < 40, lambda h: (h[0] @ x, h[1] + 3.0), (x, 0.0))[0],
        lambda x: jax.jit(lambda x: lax.while_loop(lambda i: i < 9, lambda i: i + 1, x[0, 0].astype(int) * 0))(x),
        lambda x: jax.vmap(jnp.linalg.cholesky)(jnp.stack([x @ x.T + 16 * jnp.eye(16)] * 3)),
        lambda x: jax.grad(lambda x: jnp.sum(jnp.tanh(x @ x)))(x),
        lambda x: lax.cond(x.sum() > 1e9, lambda x: x @ x, lambda x: x, x),
        lambda x: jnp.linalg.svd(x)[1],
        lambda x: jax.random.normal(jax.random.key(3), (50, 16)) @ x,
        lambda x: jnp.sort(x) + jnp.cumsum(x, 1) + jnp.fft.fft(x).real,
        jax.checkpoint(lambda x: jnp.sin(x) @ x),
    ],
)
def test_eager_and_traced_cost_the_same(function):
    _, ledger = spend(function, X)
    assert ledger.flops == pytest.approx(traced_flops(function, X), rel=1e-3)


def test_python_loops_on_data_are_charged_as_they_run():
    def halve(x):
        rounds = 0
        while float(jnp.abs(x).sum()) > 1:
            x, rounds = (x @ jnp.eye(16)) * 0.5, rounds + 1
        return x[: rounds % 5 + 1], rounds

    (_, rounds), ledger = spend(halve, X)
    assert rounds > 3
    assert ledger.flops >= rounds * 2 * 16**3


def test_the_budget_stops_the_program_at_the_operation_that_crosses_it():
    ran = []

    def greedy(x):
        for i in range(100):
            x = x @ x
            ran.append(i)
        return x

    ledger = Ledger(10 * 2 * 16**3)
    with pytest.raises(BudgetSpentError), metered(ledger):
        greedy(X)
    assert len(ran) == 10
    assert ledger.flops == 11 * 2 * 16**3


def test_a_broad_except_does_not_swallow_the_budget():
    def stubborn(x):
        for _ in range(100):
            try:
                x = x @ x
            except Exception:
                continue
        return x

    with pytest.raises(BudgetSpentError):
        spend(stubborn, X, budget=1e4)


def test_seconds_add_up_and_namespaces_carry_them():
    def program(x):
        with jax.named_scope("phase"):
            x = x @ x
        total = 0.0
        for i in range(20000):
            total += i
        return x + total

    spend(program, X)  # compiles
    _, ledger = spend(program, X)
    timing = ledger.timing()
    assert timing.wall_time_s == timing.backend_time_s + timing.overhead_time_s + timing.residual_wall_time_s
    assert timing.residual_wall_time_s > 0
    charges = ledger.cost().charges
    assert {charge.namespace for charge in charges} >= {"", "phase"}
    parts = [charge.timing for charge in charges]
    assert sum(part.wall_time_s for part in parts) == pytest.approx(timing.wall_time_s, rel=1e-9)


def test_compilation_is_nobodys_time():
    clock = CompilerClock()
    clock._spans = [(1.0, 2.0), (1.5, 1.8), (1.9, 3.0), (5.0, 6.0)]
    assert clock.seconds_between(0, 10) == pytest.approx(3.0)
    assert clock.seconds_between(1.5, 2.5) == pytest.approx(1.0)
    assert clock.seconds_between(3.5, 4.5) == 0


def test_a_function_compiled_ahead_of_time_is_refused():
    """Once 1,000 products cost 16 FLOPs."""
    compiled = jax.jit(lambda x: lax.fori_loop(0, 1000, lambda i, h: h @ x, x)).lower(X).compile()
    with pytest.raises(UnmeterableError, match="compiled ahead of time"):
        spend(lambda x: compiled(x), X)
    assert compiled(X).shape == X.shape  # outside the meter it is itself again


def test_a_function_that_predict_compiles_itself_is_refused():
    with pytest.raises(UnmeterableError, match="compiled ahead of time"):
        spend(lambda x: jax.jit(lambda x: x @ x).lower(x).compile()(x), X)


def test_an_exported_function_and_callbacks_are_refused():
    exported = jax.export.export(jax.jit(lambda x: x @ x))(X)
    with pytest.raises(UnmeterableError, match="call_exported"):
        spend(exported.call, X)
    with pytest.raises(UnmeterableError, match="pure_callback"):
        spend(lambda x: jax.pure_callback(lambda x: x, x, x), X)
    with pytest.raises(UnmeterableError, match="io_callback"):
        spend(lambda x: jax.experimental.io_callback(lambda x: x, x, x), X)


def test_constants_evaluated_at_trace_time_are_charged():
    def folded(x):
        def inner(y):
            with jax.ensure_compile_time_eval():
                h = x
                for _ in range(10):
                    h = lax.dot(h, x)
            return y + h

        return jax.jit(inner)(x)

    _, ledger = spend(folded, X)
    assert ledger.flops >= 10 * 2 * 16**3


def test_xlas_count_stands_beside_the_meters():
    _, ledger = spend(lambda x: jnp.tanh(x @ x), X)
    assert ledger.cost().flops_xla == ledger.flops == 2 * 16**3 + 16**2


def test_work_outside_the_block_is_not_charged():
    ledger = Ledger(1e15)
    with metered(ledger):
        pass
    jax.block_until_ready(X @ X)
    assert ledger.flops == 0


def test_jax_still_calls_our_trace_for_every_operation():
    """Notices at once when JAX moves its internals: each of these must reach the trace, the cached jitted call too."""
    seen = []

    class Spy(MeteringTrace):
        def process_primitive(self, primitive, args, params, /):
            seen.append(primitive.name)
            return super().process_primitive(primitive, args, params)

    from jax._src.core import set_current_trace

    double = jax.jit(lambda x: x * 2)
    double(X)
    with set_current_trace(Spy(Ledger(1e15))):
        for _ in range(3):
            double(X)
        lax.dot(X, X)
        lax.add(X, X)
    assert seen.count("jit") >= 3
    assert "dot_general" in seen
    assert "add" in seen


CONTEXT = SetupContext(
    width=32, depth=3, flop_budget=10**8, lam=1e11, wall_time_limit_s=60, residual_wall_time_limit_s=None, seed=0,
    scratch_dir=".", submission_dir=None,
)  # fmt: skip


@pytest.mark.parametrize("estimator", [CovarianceProp(), MeanProp(), MonteCarlo(budget_fraction=0.5, seed=0)])
def test_bundled_estimators_agree_in_both_modes(estimator):
    dataset = FreshDataset(width=32, depth=3, seed=1, n_mlps=1).load()
    mlp = dataset.mlp(dataset.rows[0])
    traced = compile_program(estimator_function(estimator, CONTEXT.flop_budget), CONTEXT).predict(mlp)
    eager = EagerSession(estimator, CONTEXT).predict(mlp)
    assert eager.cost.flops == traced.cost.flops
    np.testing.assert_allclose(eager.means, traced.means, rtol=2e-4, atol=1e-5)
