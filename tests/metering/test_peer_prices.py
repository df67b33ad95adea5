"""`meter=flopscope`: the peer's prices by their formulas, draws and constants by what flows where."""

from collections.abc import Callable
from math import ceil, log2
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import whest
from whest.errors import UnmeterableError
from whest.experiment import build, protocol_of
from whest.isolation.portable import read_program, write_program
from whest.metering import meter
from whest.metering.lists import PEER_NAME, PEER_RELEASES, priced_by
from whest.metering.peer import peer_count
from whest.metering.xla import count

N, K = 24, 10
X, V = jax.ShapeDtypeStruct((N, N), np.float32), jax.ShapeDtypeStruct((N,), np.float32)
KEY = jax.eval_shape(lambda: jax.random.key(0))
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[int, int, int]]] = {
    "sum of arrays": (jnp.add, (X, X), (N * N,) * 3),
    "exp": (jnp.exp, (X,), (16 * N * N,) * 3),
    "power": (lambda x: x**3, (X,), (16 * N * N,) * 3),
    "reciprocal": (lambda x: 1 / x, (X,), (N * N,) * 3),
    "where": (lambda x: jnp.where(x > 0, x, 0), (X,), (5 * N * N,) * 3),
    "product": (jnp.matmul, (X, X), (N * N * (2 * N - 1),) * 3),
    "matrix and vector": (jnp.matmul, (X, V), (N * (2 * N - 1), N * (2 * N - 1), N * N * N)),
    "mean": (lambda x: x.mean(axis=0), (X,), (N * N,) * 3),
    "cumsum": (lambda x: jnp.cumsum(x, axis=0), (X,), (N * N - N,) * 3),
    "sort": (lambda x: jnp.sort(x, axis=0), (X,), tuple(w * N * N * ceil(log2(N)) for w in (4, 1, 1))),  # type: ignore[dict-item]
    "svd": (lambda x: jnp.linalg.svd(x, compute_uv=False), (X,), (4 * N**3,) * 3),
    "qr": (jnp.linalg.qr, (X,), (4 * N**3 - 4 * N**3 // 3, 4 * N**3, 4 * N**3)),
    "copies": (lambda x: jnp.concatenate([x, x]), (X,), (2 * N * N,) * 3),
    "cast": (lambda x: x.astype(np.float16), (X,), (N * N, 0, 0)),
    "view": (lambda x: x.T[:, None], (X,), (0, 0, 0)),
    "reshape": (lambda x: x.reshape(-1), (X,), (N * N, 0, 0)),
    "normals": (lambda key: jax.random.normal(key, (N, K)), (KEY,), (16 * N * K,) * 3),
    "uniforms": (lambda key: jax.random.uniform(key, (N, K)), (KEY,), (N * K,) * 3),
    "made of shapes": (lambda x: x + jnp.eye(N) * jnp.arange(N), (X,), (N * N,) * 3),
}


def by_list(prices: str, function: Callable[..., Any], *args: Any) -> int:
    with priced_by(prices):
        return meter(function)(*args).flops


@pytest.mark.parametrize("name", CALLS)
def test_a_call_costs_what_the_peer_bills(name: str) -> None:
    function, args, expected = CALLS[name]
    assert tuple(by_list(prices, function, *args) for prices in PEER_RELEASES) == expected


def test_wide_and_complex_numbers_cost_more_since_0_9() -> None:
    with jax.enable_x64(True):
        wide = jax.ShapeDtypeStruct((N, N), np.float64)
        assert [by_list(it, jnp.add, wide, wide) for it in PEER_RELEASES] == [2 * N * N, N * N, N * N]
        normals = [by_list(it, lambda key: jax.random.normal(key, (N,), np.float64), KEY) for it in PEER_RELEASES]
        assert normals == [32 * N, 16 * N, 16 * N]
    pair = jax.ShapeDtypeStruct((N, N), np.complex64)
    assert by_list("flopscope", jnp.matmul, pair, pair) == N * N * (8 * N - 2)
    assert by_list("flopscope", jnp.multiply, pair, pair) == 6 * N * N


def test_a_draw_is_known_by_what_flows_and_not_by_its_name() -> None:
    @jax.jit
    def _normal(x: jax.Array) -> jax.Array:
        return jax.scipy.special.erfinv(x) * 2

    erf_inv = by_list("flopscope", jax.scipy.special.erfinv, V)
    assert by_list("flopscope", _normal, V) == erf_inv + N
    assert erf_inv > 16 * N

    def scaled(key: jax.Array, v: jax.Array) -> jax.Array:
        return jax.random.uniform(key, (N,)) * v  # scaled by an array: an operation of its own

    assert by_list("flopscope", scaled, KEY, V) == 2 * N

    def looped(key: jax.Array) -> jax.Array:
        return jax.lax.map(lambda one: jax.random.normal(one, (N,)), jax.random.split(key, 5))

    assert by_list("flopscope", looped, KEY) == 5 * 16 * N

    def mixed(key: jax.Array, v: jax.Array) -> jax.Array:
        return _normal(jax.random.uniform(key, (N,), minval=-1)) + _normal(v)

    assert by_list("flopscope", mixed, KEY, V) == N + 2 * (erf_inv + N) + N, "one text, two meanings: the dear price"


def test_the_worker_counts_the_same() -> None:
    def program(key_data: jax.Array, x: jax.Array) -> jax.Array:
        drawn = jax.random.normal(jax.random.wrap_key_data(key_data), (N, N))
        return jnp.diagonal(drawn @ x).sum() + jnp.linalg.cholesky(x).sum()

    words = jax.ShapeDtypeStruct((2,), np.uint32)
    here = jax.make_jaxpr(program)(words, X)
    document, constants = write_program(here)
    there = jax.make_jaxpr(read_program(document, constants))(words, X)
    figures = [sum(flops for flops, _ in peer_count(it).estimate.tally.values()) for it in (here, there)]
    assert figures[0] == figures[1] > 0


def test_what_the_peer_has_no_call_for_has_no_figure() -> None:
    program = jax.make_jaxpr(lambda x: jax.lax.digamma(x) + x)(X)
    assert peer_count(program).unpriced == ("digamma",)
    with priced_by("whest+flopscope"):
        cost = count(program).cost()
    assert cost.flops_peer is None
    assert cost.peer_unpriced == ("digamma",)
    with pytest.raises(UnmeterableError, match=r"meter=flopscope-0\.7 has no price for `digamma`"):
        by_list("flopscope-0.7", lambda x: jax.lax.digamma(x), X)


def test_the_figure_stands_beside_f() -> None:
    program = jax.make_jaxpr(jnp.exp)(X)
    with priced_by("whest+flopscope"):
        cost = count(program).cost()
    assert (cost.flops, cost.flops_peer) == (N * N, 16 * N * N)
    assert count(program).cost().flops_peer is None, "nobody asked"


def test_each_list_is_a_track_of_its_own(tmp_path) -> None:  # type: ignore[no-untyped-def]
    found = []
    for prices, releases in PEER_RELEASES.items():
        config = whest.compose(f"meter={prices}", "tracking=none", f"outputs_dir={tmp_path}")
        found.append(protocol_of(build(config, tmp_path))["meter"])
        assert found[-1] == {"name": PEER_NAME, "version": 1, "releases": list(releases)}
    assert len({str(meter) for meter in found}) == 3


def test_an_unknown_list_is_refused() -> None:
    with pytest.raises(ValueError, match="no price list is called 'flops'"), priced_by("flops"):
        pass
