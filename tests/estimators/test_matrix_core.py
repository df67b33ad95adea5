"""The matrix core against a chain with every third and fourth cumulant, computed index by index."""

from dataclasses import dataclass, field
from itertools import permutations
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from estimators.matrix_core import TERMS, MatrixCore, MatrixCoreProp
from estimators.parts import lean_sources
from estimators.parts.cumulant_chain import propagate
from estimators.parts.fallback import price
from estimators.parts.lean_sources import LeanSources, largest_part
from estimators.parts.sources import Sources
from estimators.parts.strassen import Strassen
from tests.support.dense_chain import Dense
from tests.support.estimators import (
    draw,
    in_double,
)
from whest.metering.walk import meter

SHRINK = 2.0
FULL = MatrixCoreProp(2, SHRINK, "full", None, 1, None, False)
FORMS: tuple[Literal["full"], Literal["lean"]] = ("full", "lean")


@dataclass
class DenseMatrixCore(Dense):
    """κ₃ with n³ entries and κ₄ with n⁴, the latter rebuilt from B at every layer."""

    radial_power: float = 1.0
    spread: bool = False
    original: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)
    """The layer's Wick numbers before `gated`."""

    def radial(self, n: int, p: int) -> float:
        return super().radial(n, p) ** self.radial_power

    def run(self, weights: np.ndarray) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
        depth, n, _ = weights.shape
        mean, c, k3, b = np.zeros(n), np.eye(n), np.zeros((n,) * 3), None
        rows, thirds, cores = [], [], []
        for index, stored in enumerate(weights.astype(np.float64)):
            w = stored.T
            mean, s, gram = w @ mean, w @ c @ w.T, w @ w.T
            z3 = np.einsum("ia,jb,kc,abc->ijk", w, w, w, k3, optimize=True)
            z4 = np.zeros((n,) * 4) if b is None else self.paired(w @ b @ w.T, gram)
            number = self.more_numbers(mean, np.maximum(np.diag(s), 1e-10))
            m, q = self.all_moments(number, s, z3, z4)
            if index == depth - 1:
                rows.append(m[1] * (self.radial(n, 1) if depth > 1 else 1))
                break
            if index == 0 and self.sphere:
                m, q = self.turned(m, q)
            before, self.original, number = c, number, self.gated(number, z3, z4)
            mean, c, k3, fourth = self.cumulants(number, s, z3, m, q)
            if b is not None:
                self.add_feed(k3, number, w @ b @ w.T, gram, np.diag(b).mean())
                if self.spread:
                    self.add_spread(k3, number, self.legs(number, s, z3), gram, self.likeness(b, before))
            start = -6 * self.radial_power / (n + 2) * gram
            b = self.matrix(number, s, z3, m, q, fourth, gram, start if b is None else w @ b @ w.T)
            rows.append(mean * self.radial(n, 1))
            thirds.append(k3)
            cores.append(b)
        return np.stack(rows), thirds, cores

    def more_numbers(self, mean: np.ndarray, variance: np.ndarray) -> dict[tuple[int, int], np.ndarray]:
        number = self.numbers(mean, variance)
        s = np.sqrt(variance)
        a = mean / s
        number[5, 1] = -(a**3 - 3 * a) * np.exp(-a * a / 2) / np.sqrt(2 * np.pi) / s**4
        number[5, 2], number[5, 3] = 2 * number[4, 1], 6 * number[3, 1]
        number[6, 1] = (a**4 - 6 * a * a + 3) * np.exp(-a * a / 2) / np.sqrt(2 * np.pi) / s**5
        return number

    def gated(self, w: dict, z3: np.ndarray, z4: np.ndarray) -> dict:
        """The mean slope and bend with the κ_iii and κ_iiii of their neuron."""
        d3, d4 = np.einsum("iii->i", z3), np.einsum("iiii->i", z4)
        return w | {(k, 1): w[k, 1] + d3 * w[k + 3, 1] / 6 + d4 * w[k + 4, 1] / 24 for k in (1, 2)}

    def legs(self, w: dict, s: np.ndarray, z3: np.ndarray) -> np.ndarray:
        n, a = len(s), np.zeros_like(s)
        lean = self.original[3, 1] / (2 * self.original[2, 1])
        for i, r in permutations(range(n), 2):
            a[i, r] = w[1, 1][i] * s[i, r] + w[2, 1][i] * z3[i, i, r] / 2
            a[i, r] += lean[r] * (w[1, 1][i] * z3[r, r, i] + w[2, 1][i] * s[i, r] ** 2)
        return a

    def likeness(self, b: np.ndarray, c: np.ndarray) -> float:
        pairs = list(permutations(range(len(b)), 2))
        return sum(b[i, j] * c[i, j] for i, j in pairs) / sum(c[i, j] ** 2 for i, j in pairs)

    def add_spread(self, k3: np.ndarray, w: dict, legs: np.ndarray, gram: np.ndarray, likeness: float) -> None:
        """u_i C_jk and two like it, off the slices, which are exact already."""
        u, x = w[2, 1] * np.diag(gram) * likeness / 12, w[1, 1]
        for i, j, k in permutations(range(len(u)), 3):
            for one, (a, b) in ((i, (j, k)), (j, (i, k)), (k, (i, j))):
                k3[i, j, k] += u[one] * (legs[a, b] * x[b] + legs[b, a] * x[a]) / 2

    def all_moments(self, w: dict, s: np.ndarray, z3: np.ndarray, z4: np.ndarray) -> tuple[dict, dict]:
        n = len(s)
        d3, d4 = np.einsum("iii->i", z3), np.einsum("iiii->i", z4)
        m = {p: w[0, p] + d3 * w[3, p] / 6 + d4 * w[4, p] / 24 for p in (1, 2, 3, 4)}
        q = {ab: np.zeros((n, n)) for ab in ((1, 1), (2, 1), (2, 2), (3, 1))}
        for (a, b), target in q.items():
            for i, j in permutations(range(n), 2):
                u, v = [w[k, a][i] for k in range(6)], [w[k, b][j] for k in range(6)]
                r, iij, ijj = s[i, j], z3[i, i, j], z3[i, j, j]
                weights = {
                    (1, 1): r, (2, 1): iij / 2, (1, 2): ijj / 2, (2, 2): r**2 / 2 + z4[i, i, j, j] / 4,
                    (3, 1): z4[i, i, i, j] / 6, (1, 3): z4[i, j, j, j] / 6,
                    (4, 1): r * d3[i] / 6, (1, 4): r * d3[j] / 6,
                    (3, 2): r * iij / 2, (2, 3): r * ijj / 2, (3, 3): r**3 / 6 + r * z4[i, i, j, j] / 4,
                    (5, 1): r * d4[i] / 24, (1, 5): r * d4[j] / 24,
                    (2, 4): iij * d3[j] / 12 + r * z4[i, j, j, j] / 6,
                    (4, 2): ijj * d3[i] / 12 + r * z4[i, i, i, j] / 6,
                    (5, 2): r**2 * d3[i] / 12, (2, 5): r**2 * d3[j] / 12,
                }  # fmt: skip
                target[i, j] = sum(weight * u[k] * v[o] for (k, o), weight in weights.items())
        return m, q

    def add_feed(self, k3: np.ndarray, w: dict, d: np.ndarray, gram: np.ndarray, level: float) -> None:
        """⅓·Σ of v_i Ĝ_jk over the three choices of i, off the slices, which are exact already."""
        v = w[2, 1] * (np.diag(d) + level * np.diag(gram)) / 4
        gated = np.outer(w[1, 1], w[1, 1]) * gram
        for i, j, k in permutations(range(len(d)), 3):
            k3[i, j, k] += (v[i] * gated[j, k] + v[j] * gated[i, k] + v[k] * gated[i, j]) / 3

    def matrix(
        self, w: dict, s: np.ndarray, z3: np.ndarray, m: dict, q: dict, fourth: np.ndarray, g: np.ndarray, d: np.ndarray
    ) -> np.ndarray:
        n, on, bend = len(s), w[1, 1], w[2, 1]
        e, f = w[1, 2] - 2 * m[1] * on, w[2, 2] - 2 * m[1] * bend
        rho = fourth.sum(axis=1)
        b = np.diag((1 - SHRINK / n) * (6 / (n + 4) * rho - 3 / ((n + 2) * (n + 4)) * rho.sum()))
        for j, k in permutations(range(n), 2):
            total = 0.0
            for x, y in ((j, k), (k, j)):
                total += q[3, 1][x, y] - 3 * m[1][x] * q[2, 1][x, y] - 3 * (m[2][x] - 2 * m[1][x] ** 2) * q[1, 1][x, y]
                total += bend[x] * on[y] * s[x, y] * sum(e[i] * s[i, x] for i in range(n) if i not in (x, y))
            for i in range(n):
                if i not in (j, k):
                    total += on[j] * on[k] * (e[i] * z3[i, j, k] + (f[i] - 2 * on[i] ** 2) * s[i, j] * s[i, k])
                total += on[j] * on[k] * f[i] * (d[i, i] * g[j, k] + g[i, i] * d[j, k]) / 12
            b[j, k] = 6 / (n + 4) * total
        return b


@pytest.mark.parametrize(
    ("radial", "width", "depth", "spread"),
    [(2, 8, 4, False), (2, 8, 4, True), (1, 8, 4, True), (0, 8, 3, False), (2, 5, 2, False), (2, 16, 3, False)],
)
def test_equals_the_dense_chain(radial: int, width: int, depth: int, spread: bool) -> None:
    weights = draw(80, width, depth).weights
    expected, _, _ = DenseMatrixCore(True, radial > 0, radial, spread=spread).run(weights)
    found = in_double(MatrixCoreProp(radial, SHRINK, "full", True, 0, None, False, spread).means, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_lean_sources_keep_all_where_their_rank_allows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a width below the rank nothing is left out of the means, the slices or the contraction."""
    monkeypatch.setattr(lean_sources, "RANK", 16)
    weights = draw(81, 8, 4).weights
    methods = [MatrixCoreProp(2, SHRINK, form, True, 0, None, False, spread=True) for form in FORMS]
    full, lean = (in_double(method.means, weights) for method in methods)
    np.testing.assert_allclose(lean, full, rtol=1e-8)


def test_lean_sources_leave_little_out_at_a_real_width() -> None:
    weights = draw(82, 64, 4).weights
    full, lean = (in_double(MatrixCoreProp(2, SHRINK, form, True, 0, None, False).means, weights)[-1] for form in FORMS)
    assert 0 < np.linalg.norm(lean - full) < 0.002 * np.linalg.norm(full)


def test_largest_part_is_a_low_rank_matrix_itself() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 3)) @ rng.normal(size=(3, 20))
    with jax.enable_x64(True):
        z, across = largest_part(jnp.asarray(x), 3)
    np.testing.assert_allclose(np.asarray(z) @ np.asarray(across).T, x, atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_cost_is_the_docstring_s(form: Literal["full", "lean"]) -> None:
    """Products of n×n matrices as counted by hand: carried and sliced sources, S, G, D, pairs and contractions."""
    n, depth, lean = 128, 5, form == "lean"
    pairs, each = depth * (depth - 1) // 2, 2 if lean else 3
    carry, sliced = each * pairs - (depth - 1), each * (depth - 1) * (depth - 2) // 2
    symmetric = 2 * (depth - 1) + 2 * (depth - 2)  # G and pairs, S and D: ½ + 1/32 of a product each
    layers = 2 * (depth - 1) + depth - 2 + 2 * (depth - 1) + depth - 2 - (1 / 2 - 1 / 32) * symmetric
    contracted = 2 * (depth - 1) * (depth - 2) // 2

    def products(third_in_core: bool) -> float:
        run = MatrixCoreProp(2, SHRINK, form, third_in_core, 0, None, False).means
        cost = meter(run)(jax.ShapeDtypeStruct((depth, n, n), jnp.float32))
        return sum(charge.flops for charge in cost.charges if charge.operation == "dot_general") / (2 * n**3)

    narrow = 9 if lean else 0.5  # Z and L, of 4 or 5 columns; products with vectors
    assert 0 <= products(third_in_core=False) - (carry + sliced + layers) < narrow
    assert products(third_in_core=True) - products(third_in_core=False) == pytest.approx(contracted, abs=0.5 * narrow)


def test_sources_are_lean_where_full_ones_cost_more_than_the_floor() -> None:
    estimator, shape = MatrixCoreProp(2, 8, "auto", None, None, None, False), (4, 64, 64)
    full = price(MatrixCoreProp(2, 8, "full", None, None, None, False), shape)
    assert estimator.sized(10 * full, shape).sources == "full"
    assert estimator.sized(10 * full - 10, shape).sources == "lean"


@pytest.mark.parametrize("sources", FORMS)
@pytest.mark.parametrize("depth", [3, 6])
def test_layers_and_sources_in_loops_give_the_answer_of_the_unrolled_chain(sources, depth):
    start = Sources() if sources == "full" else LeanSources()
    parts = MatrixCore(0.9, sources == "full", 2), TERMS, 2.0, Strassen(1, halves=True), start
    weights = draw(3, 8, depth).weights
    unrolled, looped = (in_double(lambda w, how=how: propagate(w, *parts, how), weights) for how in (False, True))
    np.testing.assert_allclose(looped, unrolled, rtol=0, atol=1e-12)


def test_the_program_in_loops_does_not_grow_with_the_depth():
    sizes = [len(jax.make_jaxpr(FULL.means)(jnp.zeros((depth, 8, 8))).eqns) for depth in (5, 9)]
    assert sizes[0] == sizes[1]
