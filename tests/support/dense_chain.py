"""The brute-force cumulant chain that the fast ones are compared with."""

import math
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from tests.support.estimators import (
    erf,
)

SCALE = 0.95


@dataclass
class Dense:
    """The brute-force chain: κ₃ with n³ entries, κ₄ with n⁴, sliced only where a formula asks for a slice."""

    plus: bool
    sphere: bool

    def run(self, weights: np.ndarray) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
        """Mean activations, and each hidden layer's third and fourth cumulants."""
        depth, n, _ = weights.shape
        mean, c, k3, k4 = np.zeros(n), np.eye(n), np.zeros((n,) * 3), np.zeros((n,) * 4)
        rows, thirds, fourths = [], [], []
        for index, stored in enumerate(weights.astype(np.float64)):
            w = stored.T
            mean, s = w @ mean, w @ c @ w.T
            z3 = np.einsum("ia,jb,kc,abc->ijk", w, w, w, k3, optimize=True)
            z4 = self.carried(w, k4)
            number = self.numbers(mean, np.maximum(np.diag(s), 1e-10))
            m, q = self.moments(number, s, z3, z4)
            if index == depth - 1:
                rows.append(m[1] * (self.radial(n, 1) if depth > 1 else 1))
                break
            if index == 0 and self.sphere:
                m, q = self.turned(m, q)
            mean, c, k3, trace = self.cumulants(number, s, z3, m, q)
            k4 = self.core(trace)
            rows.append(mean * self.radial(n, 1))
            thirds.append(k3)
            fourths.append(k4)
        return np.stack(rows), thirds, fourths

    def carried(self, w: np.ndarray, k4: np.ndarray) -> np.ndarray:
        """κ₄ of W·h."""
        return np.einsum("ia,jb,kc,ld,abcd->ijkl", w, w, w, w, k4, optimize=True)

    def turned(self, m: dict, q: dict) -> tuple[dict, dict]:
        """Moments and covariances of powers as they are on the sphere."""
        n = len(m[1])
        raw = {ab: value + np.outer(m[ab[0]], m[ab[1]]) for ab, value in q.items()}
        m = {p: value / self.radial(n, p) for p, value in m.items()}
        return m, {(a, b): v / self.radial(n, a + b) - np.outer(m[a], m[b]) for (a, b), v in raw.items()}

    def radial(self, n: int, p: int) -> float:
        if not self.sphere:
            return 1.0
        return (2 / n) ** (p / 2) * math.gamma((n + p) / 2) / math.gamma(n / 2)

    def numbers(self, mean: np.ndarray, variance: np.ndarray) -> dict[tuple[int, int], np.ndarray]:
        """The table of w(k, p), each entry written out."""
        s = np.sqrt(variance)
        a = mean / s
        on, at = 0.5 * (1 + erf(a / math.sqrt(2))), np.exp(-a * a / 2) / math.sqrt(2 * math.pi)
        r1 = mean * on + s * at
        r2 = (mean**2 + s**2) * on + mean * s * at
        r3 = mean**3 * on + 3 * mean**2 * s * at + 3 * mean * s**2 * (on - a * at) + s**3 * (a**2 + 2) * at
        r4 = mean**4 * on + 4 * mean**3 * s * at + 6 * mean**2 * s**2 * (on - a * at)
        r4 = r4 + 4 * mean * s**3 * (a**2 + 2) * at + s**4 * (3 * on - (a**3 + 3 * a) * at)
        d2, d3, d4 = at / s, -a * at / s**2, (a**2 - 1) * at / s**3
        by_power = {
            1: [r1, on, d2, d3, d4],
            2: [r2, 2 * r1, 2 * on, 2 * d2, 2 * d3],
            3: [r3, 3 * r2, 6 * r1, 6 * on, 6 * d2],
            4: [r4, 4 * r3, 12 * r2, 24 * r1, 24 * on],
        }
        return {(k, p): value for p, values in by_power.items() for k, value in enumerate(values)}

    def moments(self, w: dict, s: np.ndarray, z3: np.ndarray, z4: np.ndarray) -> tuple[dict, dict]:
        n = len(s)
        d3, d4 = np.einsum("iii->i", z3), np.einsum("iiii->i", z4)
        m = {p: w[0, p] + d3 * w[3, p] / 6 + d4 * w[4, p] / 24 for p in (1, 2, 3, 4)}
        q = {ab: np.zeros((n, n)) for ab in ((1, 1), (2, 1), (2, 2))}
        for (a, b), target in q.items():
            for i, j in permutations(range(n), 2):
                u, v = [w[k, a][i] for k in range(5)], [w[k, b][j] for k in range(5)]
                value = s[i, j] * u[1] * v[1] + (s[i, j] ** 2 / 2 + z4[i, i, j, j] / 4) * u[2] * v[2]
                value += z3[i, j, j] / 2 * u[1] * v[2] + z3[i, i, j] / 2 * u[2] * v[1]
                if self.plus:
                    value += (z4[i, i, i, j] * u[3] * v[1] + z4[i, j, j, j] * u[1] * v[3]) / 6
                    value += s[i, j] * (d3[i] * u[4] * v[1] + d3[j] * u[1] * v[4]) / 6
                target[i, j] = value
        return m, q

    def cumulants(self, w: dict, s: np.ndarray, z3: np.ndarray, m: dict, q: dict) -> tuple[np.ndarray, ...]:
        """Mean, covariance, κ₃ in full and κ_iijj with κ_iiii on its diagonal."""
        n, on, bend, m1, m2 = len(s), w[1, 1], w[2, 1], m[1], m[2]
        third = np.einsum("i,j,k,ijk->ijk", on, on, on, z3)
        legs = self.legs(w, s, z3)
        fourth = np.zeros((n, n))
        c = np.diag(np.maximum(m2 - m1**2, 1e-10))
        for i, j, k in permutations(range(n), 3):
            for r, (one, other) in ((i, (j, k)), (j, (i, k)), (k, (i, j))):
                third[i, j, k] += bend[r] * legs[one, r] * legs[other, r]
        for i, j in permutations(range(n), 2):
            c[i, j] = q[1, 1][i, j]
            iij = q[2, 1][i, j] - 2 * m1[i] * c[i, j]
            ijj = q[2, 1][j, i] - 2 * m1[j] * q[1, 1][j, i]
            third[i, i, j] = third[i, j, i] = third[j, i, i] = iij
            fourth[i, j] = q[2, 2][i, j] - 2 * m1[i] * ijj - 2 * m1[j] * iij
            fourth[i, j] -= 2 * c[i, j] ** 2 + 4 * m1[i] * m1[j] * c[i, j]
        for i in range(n):
            third[i, i, i] = m[3][i] - 3 * m2[i] * m1[i] + 2 * m1[i] ** 3
            fourth[i, i] = m[4][i] - 4 * m[3][i] * m1[i] - 3 * m2[i] ** 2 + 12 * m2[i] * m1[i] ** 2 - 6 * m1[i] ** 4
        return m1, c, third, fourth

    def legs(self, w: dict, s: np.ndarray, z3: np.ndarray) -> np.ndarray:
        """How neuron i (row) depends on what bends at neuron r (column)."""
        return w[1, 1][:, None] * s

    def core(self, fourth: np.ndarray) -> np.ndarray:
        """κ₄ = the mean over pairings of diag(g)⊗I, whose partial traces are those of κ_iijj (or whose trace is)."""
        n = len(fourth)
        if self.plus:
            rho = fourth.sum(axis=1)
            g = SCALE * (6 / (n + 4) * rho - 3 / ((n + 2) * (n + 4)) * rho.sum())
        else:
            g = np.full(n, 3 / (n * (n + 2)) * fourth.sum())
        return self.paired(np.diag(g), np.eye(n))

    def paired(self, d: np.ndarray, gram: np.ndarray) -> np.ndarray:
        """The mean over pairings of D⊗G."""
        pairings = ("ij,kl", "kl,ij", "ik,jl", "jl,ik", "il,jk", "jk,il")
        return sum(np.einsum(f"{pairing}->ijkl", d, gram) for pairing in pairings) / 6
