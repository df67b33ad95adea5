"""Old sources in shared bases: exact where the basis is whole, near and cheaper where it is not."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from estimators.matrix_core import TERMS, MatrixCore
from estimators.parts import thinning
from estimators.parts.cumulant_chain import propagate
from estimators.parts.lean_sources import LeanSource, LeanSources
from estimators.parts.sources import Third
from estimators.parts.strassen import Strassen
from estimators.parts.thinning import Thinning
from estimators.parts.tiers import Plan, TieredSources, founded
from tests.support.estimators import draw, in_double
from whest.metering.walk import meter

PRODUCT = Strassen(0)
Answer = Callable[..., jax.Array]


def chain(
    width: int, plan: Plan | None, beyond: float | None = None, in_core: bool = False
) -> Callable[..., jax.Array]:
    young = LeanSources(None if beyond is None else Thinning(width, beyond))
    third: Third = young if plan is None else TieredSources(plan, young)
    return lambda w: propagate(w, MatrixCore(1 - 2 / width, in_core, 2, spread=True), TERMS, 2, PRODUCT, third)


@pytest.mark.parametrize("beyond", [None, 1.5])
def test_a_whole_basis_leaves_nothing_out(beyond: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tiers, so that sources join one and leave it for the next; the contraction of κ₃ in the core too."""
    monkeypatch.setattr(thinning, "ROUNDED", 2)
    weights = draw(95, 12, 6).weights
    expected, found = (in_double(chain(12, plan, beyond, in_core=True), weights) for plan in (None, ((2, 12), (3, 12))))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_a_small_basis_is_near() -> None:
    weights = draw(96, 64, 8).weights
    one, other = (in_double(chain(64, plan), weights)[-1] for plan in (None, ((3, 40), (5, 24))))
    assert 0 < np.mean((one - other) ** 2) < 1e-6


def test_a_small_basis_is_cheaper_in_a_deep_network() -> None:
    shape = jax.ShapeDtypeStruct((12, 64, 64), jnp.float32)
    whole, shared = (meter(chain(64, plan))(shape).flops for plan in (None, ((4, 24),)))
    assert shared < 0.96 * whole


def test_members_of_low_rank_are_kept_exactly() -> None:
    """Two sources whose legs lie in one space of 4 dimensions, in a basis of 4 columns."""
    rng = np.random.default_rng(5)
    space = rng.normal(size=(20, 4))

    def source() -> LeanSource:
        a, p = (jnp.asarray(space @ rng.normal(size=(4, 20))) for _ in "ap")
        e, s, w = (jnp.asarray(rng.uniform(0.1, 1, size=20)) for _ in range(3))
        return LeanSource(a, p, jnp.zeros((20, 1)), jnp.zeros((20, 1)), e, s, w)

    with jax.enable_x64(True):
        first, second = source(), source()
        w = jnp.asarray(rng.normal(size=(20, 20)))
        tier = founded(first, w, 4, PRODUCT).joined(second, w, PRODUCT)
        found = tier.expanded(PRODUCT)
    for one, other in zip((first, second), found, strict=True):
        np.testing.assert_allclose(other.a, np.asarray(w) @ np.asarray(one.a), atol=1e-8)
        np.testing.assert_allclose(other.known_p, np.asarray(w) @ np.asarray(one.known_p), atol=1e-8)
