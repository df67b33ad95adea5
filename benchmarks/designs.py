"""What a design integrates: the variance that each point set leaves of each degree, and of a wide random network.

    python benchmarks/designs.py            # width 256 and 8, 16 and 32 layers; seconds

Split f on the sphere into spherical harmonics of degree k with energies σ_k². A randomly rotated set of N points leaves
    Σ_k c_k·σ_k²/N,   c_k = (1/N)·Σ_{x,y} G_k(x·y)
of variance, with G_k the Gegenbauer polynomial of n dimensions, G_k(1) = 1. N independent points have c_k = 1. The
energies are those of an infinitely wide network: K_L(t) = Σ_k σ_k² G_k(t), with K_L the arc-cosine kernel of Cho and
Saul 2009, applied L times. All even degrees together have (K_L(1) + K_L(−1))/2. If the points are those of a Gaussian
behind layer m, which has a mean, K_L(t) is K_{L−m}(ρ + (1 − ρ)t) with ρ = K_m(0).
"""

from collections.abc import Mapping
from functools import cache

import numpy as np
from jaxtyping import Float

from whest.truth.designs import kerdock_signs

WIDTH, DEPTHS, NODES = 256, (8, 16, 32), 600
SHOWN = (1, 2, 3, 4, 6, 8)
STARTS = (0, 2, 4, 6, 8, 12)
"""Layers of the deepest network behind which a design may start."""
DEGREES = SHOWN[-1]
Inner = tuple[Float[np.ndarray, " value"], Float[np.ndarray, " value"]]
"""The values of x·y for one x, and how many y have each."""


def gegenbauer(n: int, t: Float[np.ndarray, " t"]) -> Float[np.ndarray, "degree t"]:
    """G_0 to G_DEGREES by their recurrence."""
    found = [np.ones_like(t), t]
    for k in range(1, DEGREES):
        found.append(((2 * k + n - 2) * t * found[k] - k * found[k - 1]) / (k + n - 2))
    return np.array(found)


def point_sets(n: int) -> Mapping[str, Inner]:
    bases = len(kerdock_signs(n)) + 1
    near = 1 / np.sqrt(n)
    block = (np.array([1.0, -1, 0]), np.array([1.0, 1, 2 * (n - 1)]))
    return {
        "independent points": (np.array([1.0]), np.array([1.0])),
        "± pairs": (block[0][:2], block[1][:2]),
        "± orthogonal blocks": block,
        f"Kerdock, {bases} bases": (
            np.append(block[0], [near, -near]), np.append(block[1], [n * (bases - 1.0), n * (bases - 1.0)])
        ),
    }  # fmt: skip


def kernel(t: Float[np.ndarray, " t"], depth: int) -> Float[np.ndarray, " t"]:
    for _ in range(depth):
        t = (np.sqrt(np.maximum(1 - t * t, 0)) + t * (np.pi - np.arccos(np.clip(t, -1, 1)))) / np.pi
    return t


@cache
def energies(n: int, depth: int, start: int = 0) -> tuple[Float[np.ndarray, " degree"], float, float]:
    """σ_k² of the degrees from 0 on, that of all higher odd ones together, and of all higher even ones."""
    alike = kernel(np.zeros(1), start)

    def behind(t: Float[np.ndarray, " t"]) -> Float[np.ndarray, " t"]:
        return kernel(alike + (1 - alike) * t, depth - start)

    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    angles = 0.5 * np.pi * (nodes + 1)
    t, density = np.cos(angles), weights * np.sin(angles) ** (n - 2)
    basis = gegenbauer(n, t)
    found = (basis * behind(t) * density).sum(axis=1) / (basis**2 * density).sum(axis=1)
    ends = behind(np.array([1.0, -1]))
    odd, even = (ends[0] - ends[1]) / 2, (ends[0] + ends[1]) / 2
    return found, odd - found[1::2].sum(), even - found[0::2].sum()


def main() -> None:
    heads = [f"c_{k}" for k in SHOWN] + [f"variance, {depth} layers" for depth in DEPTHS]
    print(f"| {WIDTH} dimensions | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for name, (values, counts) in point_sets(WIDTH).items():
        left = np.abs(gegenbauer(WIDTH, values) @ counts)
        odd, even = (0, 2) if len(values) > 1 else (1, 1)
        cells = [f"{max(0, round(left[k], 9)):.3g}" for k in SHOWN]
        for depth in DEPTHS:
            known, odd_rest, even_rest = energies(WIDTH, depth)
            variance = (left * known)[1:].sum() + odd * odd_rest + even * even_rest
            cells.append(f"{variance / (1 - known[0]):.3f}")
        print(f"| {name} | {' | '.join(cells)} |")
    print(
        "\n| share of the variance | 1 | 2 | 3 | 4 | 5 | odd from 7 | even from 6 |\n|---|---|---|---|---|---|---|---|"
    )
    for depth in DEPTHS:
        known, odd_rest, even_rest = energies(WIDTH, depth)
        rests = (odd_rest + known[7], even_rest + known[6] + known[8])
        cells = [f"{x / (1 - known[0]):.3f}" for x in (*known[1:6], *rests)]
        print(f"| {depth} layers | {' | '.join(cells)} |")
    print("\n| a Kerdock design behind layer | variance, of that from the input | products |\n|---|---|---|")
    *_, (values, counts) = point_sets(WIDTH).values()
    left, first = np.abs(gegenbauer(WIDTH, values) @ counts), 0.0
    for start in STARTS:
        known, _, even_rest = energies(WIDTH, DEPTHS[-1], start)
        variance = float((left * known)[1:].sum() + 2 * even_rest)
        first = first or variance
        print(f"| {start} | {variance / first:.3f} | {(DEPTHS[-1] - start) / DEPTHS[-1]:.3f} |")


if __name__ == "__main__":
    main()
