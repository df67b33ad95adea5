"""Programs sent as plain data keep their answer, their cost and their labels."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from whest.errors import UnmeterableError
from whest.isolation.portable import ForeignProgramError, read_program, write_program
from whest.isolation.vocabulary import OPERATIONS
from whest.metering.walk import estimate_cost

A = np.array(jnp.eye(8) + 0.01 * jnp.arange(64.0).reshape(8, 8))
A = (A @ A.T).astype(np.float32)

PROGRAMS = {
    "matmul": lambda a: jnp.tanh(a @ a) * 2,
    "scan": lambda a: lax.scan(lambda c, x: (c @ a + x, c.sum()), a, a),
    "fori": lambda a: lax.fori_loop(0, 5, lambda i, h: h @ a + i, a),
    "while": lambda a: lax.while_loop(lambda x: x.sum() > 1, lambda x: x * 0.5, a),
    "vmapped while": lambda a: jax.vmap(lambda k: lax.while_loop(lambda s: s < k, lambda s: s * 1.5 + 1, 0.0))(a[0]),
    "cond": lambda a: lax.cond(a[0, 0] > 0, lambda a: a @ a, lambda a: a, a),
    "switch": lambda a: lax.switch(jnp.int32(1), [lambda a: a, lambda a: a @ a], a),
    "cholesky": jnp.linalg.cholesky,
    "qr": jnp.linalg.qr,
    "svd": jnp.linalg.svd,
    "eigh": jnp.linalg.eigh,
    "solve": lambda a: jnp.linalg.solve(a, a[0]),
    "inverse": jnp.linalg.inv,
    "determinant": jnp.linalg.det,
    "normal": lambda a: jax.random.normal(jax.random.key(1), (6, 4)) + a[0, 0],
    "rbg": lambda a: jax.random.normal(jax.random.key(1, impl="rbg"), (6, 4)) + a[0, 0],
    "split": lambda a: jax.vmap(lambda k: jax.random.uniform(k))(jax.random.split(jax.random.key(3), 4)),
    "permutation": lambda a: jax.random.permutation(jax.random.key(0), a),
    "orthogonal": lambda a: jax.random.orthogonal(jax.random.key(0), 8),
    "gather scatter": lambda a: a.at[jnp.array([1, 2])].add(3.0).at[0].set(1.0)[jnp.array([2, 0])],
    "sort": lambda a: jnp.argsort(a),
    "top_k": lambda a: lax.top_k(a, 3),
    "fft": lambda a: jnp.abs(jnp.fft.fft(a)),
    "complex": lambda a: jnp.abs((a + 1j * a) @ (a + 1j)),
    "convolution": lambda a: jnp.convolve(a[0], a[1]),
    "gradient": jax.grad(lambda a: jnp.sum(jnp.tanh(a @ a))),
    "remat": jax.checkpoint(lambda a: jnp.sin(a) @ a),
    "statistics": lambda a: (jnp.median(a), jnp.quantile(a, 0.3), jnp.cumsum(a), jax.nn.log_softmax(a)),
    "special": lambda a: (jax.scipy.stats.norm.cdf(a), lax.erf_inv(a * 0.01), jax.scipy.special.gammaln(a)),
    "einsum": lambda a: jnp.einsum("ij,jk,kl->il", a, a, a),
    "fill diagonal": lambda a: jnp.fill_diagonal(a, a[0], inplace=False),
    "rounding": lambda a: jnp.round(a, 2),
    "stack": lambda a: jnp.stack([a, jnp.tile(a, (1, 1)), jnp.where(a > 0, a, 0)]),
    "associative scan": lambda a: lax.associative_scan(jnp.add, a),
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_program_comes_back_the_same(name):
    function = PROGRAMS[name]
    traced = jax.jit(function).trace(A)
    document, arrays = write_program(traced.jaxpr)
    copy = read_program(json.loads(json.dumps(document)), arrays)
    again = jax.jit(copy).trace(A)
    before, after = estimate_cost(traced.jaxpr), estimate_cost(again.jaxpr)
    assert after.cost().flops == before.cost().flops
    assert len(after.loops) == len(before.loops)
    for ours, theirs in zip(jax.jit(copy)(A), jax.tree.leaves(jax.jit(function)(A)), strict=True):
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


def test_labels_travel_too():
    def program(a):
        with jax.named_scope("phase"), jax.named_scope("sub"):
            return jax.jit(lambda a: a @ a)(a)

    document, arrays = write_program(jax.make_jaxpr(program)(A))
    copied = jax.make_jaxpr(read_program(document, arrays))(A)
    assert {charge.namespace for charge in estimate_cost(copied).cost().charges} == {"phase.sub"}


@pytest.mark.parametrize(
    "function",
    [
        lambda a: jax.pure_callback(lambda a: a, a, a),
        lambda a: (jax.debug.print("{}", a[0, 0]), a)[1],
        lambda a: jax.ffi.ffi_call("anything", jax.ShapeDtypeStruct(a.shape, a.dtype))(a),
        lambda a: lax.reduce(a, jnp.float32(0), lambda x, y: x + y * y, (0,)),
    ],
)
def test_code_does_not_travel(function):
    with pytest.raises(UnmeterableError):
        write_program(jax.make_jaxpr(function)(A))


def _document():
    document, arrays = write_program(jax.make_jaxpr(lambda a: a @ a + 1)(A))
    return json.loads(json.dumps(document)), arrays


def test_foreign_documents_are_refused():
    document, arrays = _document()
    for broken in ({}, [], None, {**document, "format": 99}):
        with pytest.raises(ForeignProgramError):
            read_program(broken, arrays)
    document["program"]["equations"][0][0] = "pure_callback"
    with pytest.raises(ForeignProgramError, match="pure_callback"):
        jax.make_jaxpr(read_program(document, arrays))(A)


def test_operations_that_run_code_are_not_in_the_vocabulary():
    names = OPERATIONS
    for name in (
        "pure_callback",
        "io_callback",
        "debug_callback",
        "ffi_call",
        "pallas_call",
        "custom_vjp_call",
        "reduce",
    ):
        assert name not in names


def test_a_program_of_absurd_length_is_refused(monkeypatch):
    monkeypatch.setattr("whest.isolation.bounds.LARGEST_PROGRAM", 1)
    document, arrays = _document()
    with pytest.raises(ForeignProgramError, match="more than 1 operations"):
        read_program(document, arrays)
