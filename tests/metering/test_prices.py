"""Each price against XLA's own figure or the textbook's."""

import math

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from whest.metering.meter import meter
from whest.metering.prices import ELEMENTWISE, FORMULAS, REDUCTIONS

N = 64
SQUARE = jax.ShapeDtypeStruct((N, N), jnp.float32)
POSITIVE = {"log", "sqrt", "rsqrt", "log1p", "cbrt"}


def xla_flops(function, *args):
    analysis = jax.jit(function).lower(*args).cost_analysis() or {}
    return analysis.get("flops", 0) + analysis.get("transcendentals", 0)


UNARY = {
    "neg": lax.neg, "sign": lax.sign, "abs": lax.abs, "floor": lax.floor, "ceil": lax.ceil, "round": lax.round,
    "exp": lax.exp, "expm1": lax.expm1, "log": lax.log, "log1p": lax.log1p, "sqrt": lax.sqrt,
    "rsqrt": lax.rsqrt, "cbrt": lax.cbrt, "sin": lax.sin, "cos": lax.cos, "tan": lax.tan, "tanh": lax.tanh,
    "erf": lax.erf, "square": lax.square, "is_finite": lax.is_finite,
}  # fmt: skip
BINARY = {
    "add": lax.add, "sub": lax.sub, "mul": lax.mul, "div": lax.div, "rem": lax.rem, "max": lax.max, "min": lax.min,
    "atan2": lax.atan2, "pow": lax.pow, "nextafter": lax.nextafter, "eq": lax.eq, "ne": lax.ne, "lt": lax.lt,
    "le": lax.le, "gt": lax.gt, "ge": lax.ge,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(UNARY))
def test_unary_elementwise_prices_are_xlas(name):
    assert name in ELEMENTWISE
    assert meter(UNARY[name])(SQUARE).flops == xla_flops(UNARY[name], SQUARE) == N * N


@pytest.mark.parametrize("name", sorted(BINARY))
def test_binary_elementwise_prices_are_xlas(name):
    assert name in ELEMENTWISE
    ours = meter(BINARY[name])(SQUARE, SQUARE).flops
    assert ours == N * N
    if name != "nextafter":  # XLA expands it on the way in
        assert ours == xla_flops(BINARY[name], SQUARE, SQUARE)


@pytest.mark.parametrize("reduce", [jnp.sum, jnp.max, jnp.min, jnp.prod])
def test_reductions_are_xlas(reduce):
    def function(x):
        return reduce(x, axis=0)

    assert {"reduce_sum", "reduce_max", "reduce_min", "reduce_prod"} <= REDUCTIONS
    assert meter(function)(SQUARE).flops == xla_flops(function, SQUARE) == N * N - N


@pytest.mark.parametrize("exponent", [2, 3, 4, 5, 7, 8, 15, -1, -3])
def test_integer_powers_are_xlas(exponent):
    def function(x):
        return lax.integer_pow(x, exponent)

    assert meter(function)(SQUARE).flops == xla_flops(function, SQUARE)


@pytest.mark.parametrize("spec", ["ij,jk->ik", "ij,kj->ik", "bij,bjk->bik", "i,i->", "ij,j->i", "ijk,lk->ijl"])
def test_einsums_cost_two_flops_a_multiply_add(spec):
    sizes = {"i": 8, "j": 12, "k": 5, "b": 3, "l": 7}
    left, right = spec.split("->")[0].split(",")
    args = [jax.ShapeDtypeStruct(tuple(sizes[d] for d in dims), jnp.float32) for dims in (left, right)]

    def function(a, b):
        return jnp.einsum(spec, a, b)

    expected = 2 * math.prod(sizes[d] for d in set(left + right))
    assert meter(function)(*args).flops == pytest.approx(expected, rel=0.05)
    assert meter(function)(*args).flops == xla_flops(function, *args)


def _within(function, expected, *args, rel=0.05):
    assert meter(function)(*args).flops == pytest.approx(expected, rel=rel)


def test_linear_algebra_costs_what_the_textbook_says():
    n, m = 256, 400
    square, tall = jax.ShapeDtypeStruct((n, n), jnp.float32), jax.ShapeDtypeStruct((m, n), jnp.float32)
    _within(lambda a: lax.linalg.cholesky(a, symmetrize_input=False), n**3 / 3, square)
    _within(lax.linalg.lu, 2 * n**3 / 3, square)
    _within(lambda a: lax.linalg.qr(a, full_matrices=False), 2 * (2 * m * n * n - 2 * n**3 / 3), tall)
    _within(lambda a: lax.linalg.qr(a), 4 * n**3 - 4 * n**3 / 3, square)
    _within(lambda a: lax.linalg.eigh(a, symmetrize_input=False), 9 * n**3, square)
    _within(lambda a: lax.linalg.svd(a, full_matrices=False), 4 * m * m * n + 8 * m * n * n + 9 * n**3, tall)
    _within(lambda a: lax.linalg.svd(a, compute_uv=False), 4 * m * n * n - 4 * n**3 / 3, tall)
    _within(lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True), n * n * n, square, square)
    batched = jax.ShapeDtypeStruct((5, n, n), jnp.float32)
    _within(lambda a: lax.linalg.cholesky(a, symmetrize_input=False), 5 * n**3 / 3, batched)


def test_solve_and_inverse_pay_for_their_parts():
    n = 128
    square = jax.ShapeDtypeStruct((n, n), jnp.float32)
    _within(jnp.linalg.solve, 2 * n**3 / 3 + 2 * n**3, square, square)
    _within(jnp.linalg.inv, 2 * n**3 / 3 + 2 * n**3, square)


def test_convolutions_and_transforms():
    image, kernel = jax.ShapeDtypeStruct((2, 3, 32, 32), jnp.float32), jax.ShapeDtypeStruct((5, 3, 3, 3), jnp.float32)
    _within(lambda x, k: lax.conv(x, k, (1, 1), "VALID"), 2 * (2 * 5 * 30 * 30) * (3 * 3 * 3), image, kernel)
    signal = jax.ShapeDtypeStruct((10, 256), jnp.complex64)
    _within(jnp.fft.fft, 10 * 5 * 256 * 8, signal)
    real = jax.ShapeDtypeStruct((10, 256), jnp.float32)
    _within(jnp.fft.rfft, 10 * 2.5 * 256 * 8, real)


def test_sorting_costs_n_log_n():
    _within(lambda x: lax.sort(x), 1024 * 10, jax.ShapeDtypeStruct((1024,), jnp.float32))


def test_prefix_sums_cost_one_addition_an_element():
    _within(lambda x: jnp.cumsum(x, axis=0), N * N, SQUARE)


def test_float64_costs_twice_and_complex_products_four_times():
    def product(a, b):
        return a @ b

    single = meter(product)(SQUARE, SQUARE).flops
    with jax.enable_x64(True):
        double = jax.ShapeDtypeStruct((N, N), jnp.float64)
        assert meter(product)(double, double).flops == 2 * single
        assert meter(lambda x: x + x)(double).flops == 2 * N * N
    pair = jax.ShapeDtypeStruct((N, N), jnp.complex64)
    assert meter(product)(pair, pair).flops == 4 * single
    assert meter(lambda x: x + x)(pair).flops == 2 * N * N


@pytest.mark.parametrize("dtype", [jnp.int8, jnp.int32, jnp.bfloat16, jnp.float16])
def test_small_numbers_are_no_cheaper(dtype):
    narrow = jax.ShapeDtypeStruct((N, N), dtype)
    assert meter(lambda a, b: a @ b)(narrow, narrow).flops >= 2 * N**3


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_random_bits_are_never_free(impl):
    key = jax.random.key(0, impl=impl)
    flops = meter(lambda k: jax.random.bits(k, (1000,)))(key).flops
    assert flops >= 30 * 1000


def test_threefry_is_charged_for_all_its_rounds():
    """XLA's own analysis counts the generator's rolled loop once."""
    key = jax.random.key(0)
    rounds_of_five = 20 * 5
    assert meter(lambda k: jax.random.bits(k, (1000,)))(key).flops >= rounds_of_five * 1000


def test_moving_data_is_free():
    def shuffle(x):
        return jnp.concatenate([x.T[:3], x[5:8]]).reshape(-1)[jnp.arange(3)]

    assert meter(shuffle)(SQUARE).flops <= 40  # three look-ups, their indices compared and mended


def test_every_formula_names_a_real_operation():
    from whest.isolation.portable import vocabulary

    known = set(vocabulary())
    assert {name for name in FORMULAS if name not in known} <= {"add_any", "geqrf", "geqp3", "lu_pivots_to_permutation"}
