"""The slices of benchmarks/trees.py against the whole tensor κ₄, written out tree by tree."""

import sys
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from estimators.parts.sources import Source
from tests.support.places import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
import trees

N = 5


def drawn(number: int) -> list[trees.Branch]:
    rng = np.random.default_rng(3)

    def some(*shape: int) -> jax.Array:
        return jnp.asarray(rng.normal(size=shape))

    branches = []
    for i in range(number):
        s = some(N, N)
        older = tuple((some(N, N), some(N, N)) for _ in range(i))
        tree = trees.Tree(some(N), some(N), (some(N), some(N), some(N), some(N)), s + s.T, older)
        branches.append((Source(some(N, N), some(N, N), some(N, N), some(N)), tree))
    return branches


def one_hub(branches: list[trees.Branch]) -> np.ndarray:
    """All ways to put A on 0 to 3 of the four legs and P on the others."""
    total = np.zeros((N,) * 4)
    for source, tree in branches:
        for number, weight in enumerate(tree.four):
            for places in combinations(range(4), number):
                legs = [source.a if k in places else source.p for k in range(4)]
                total += np.einsum("r,ar,br,cr,dr->abcd", weight, *legs)
    return total


def two_hubs(branches: list[trees.Branch]) -> np.ndarray:
    """X_abcd: a and b at one hub, c and d at the other, in either order."""
    by_a, by_p = [], []  # the hub's vertex with two legs, and its third on A or on P
    for (a, _, p, w, _), tree in branches:
        ap, aa, pp = (np.einsum("ar,br->abr", x, y) for x, y in ((a, p), (a, a), (p, p)))
        both = ap + ap.transpose(1, 0, 2)
        by_a.append(w * both + tree.e * pp)
        by_p.append(w * aa + tree.e * both + tree.s * pp)
    total = np.zeros((N,) * 4)
    for i, (_, tree) in enumerate(branches):
        total += np.einsum("abi,ij,cdj->abcd", by_a[i], tree.covariance, by_a[i])
        for r, (a, p) in enumerate(tree.older):
            joined = np.einsum("abi,ir,cdr->abcd", by_a[i], a, by_a[r])
            joined += np.einsum("abi,ir,cdr->abcd", by_a[i], p, by_p[r])
            total += joined + joined.transpose(2, 3, 0, 1)
    return total


@pytest.mark.slow
def test_slices_are_those_of_all_trees_but_one_pairing() -> None:
    with jax.enable_x64(True):
        branches = drawn(3)
        k31, k22 = trees.tree_slices(branches)
        pairs = two_hubs(branches)
        whole = one_hub(branches) + pairs + pairs.transpose(0, 2, 1, 3) + pairs.transpose(0, 2, 3, 1)
    i, j = np.indices((N, N))
    np.testing.assert_allclose(k31, whole[i, i, i, j], rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(k22, whole[i, i, j, j] - 2 * pairs[i, j, i, j], rtol=1e-10, atol=1e-9)
