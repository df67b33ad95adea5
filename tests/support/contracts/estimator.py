"""The contract of an estimator: `predict(mlp, budget) -> (depth, width)`, pure, finite, within the budget or refused.

    class TestMine(EstimatorContract):
        subjects = {"mine": Mine(knob=0.5)}

Each subject is a frozen dataclass. Those with a YAML in conf/estimator are subjects already, in
tests/estimators/test_estimators.py.
"""

import numpy as np
import pytest

from tests.support.contracts.contract import Contract
from tests.support.estimators import compiled, draw
from whest.estimator.contract import Estimator

SHAPES = [(16, 3), (5, 1), (32, 4), (1, 2)]
BUDGET = 1e6
"""Enough for covariance propagation at 32x4 and for some samples at every shape."""


class EstimatorContract(Contract):
    """The subjects are estimators."""

    @pytest.mark.parametrize(("width", "depth"), SHAPES)
    def test_answers_in_the_right_shape_or_is_refused(self, subject: Estimator, width: int, depth: int) -> None:
        """The right shape, finite and the same answer twice; or, where it costs more than the budget, refused."""
        program, mlp = compiled(subject, width, depth, BUDGET), draw(21, width, depth)
        first, second = program.predict(mlp), program.predict(mlp)
        assert first.failure is None
        if program.cost.flops > BUDGET:
            assert first.refused
            return
        assert first.means is not None
        assert second.means is not None
        assert first.means.shape == (depth, width)
        assert np.issubdtype(first.means.dtype, np.floating)
        assert np.isfinite(first.means).all()
        np.testing.assert_array_equal(first.means, second.means)
        assert first.cost == second.cost == program.cost

    def test_a_budget_of_one_flop_is_kept_or_refused(self, subject: Estimator) -> None:
        program = compiled(subject, 16, 3, 1)
        prediction = program.predict(draw(21, 16, 3))
        if program.cost.flops > 1:
            assert prediction.refused
            assert prediction.cost == program.cost
        else:
            assert prediction.means is not None

    def test_an_answer_does_not_depend_on_networks_answered_before(self, subject: Estimator) -> None:
        program, first, other = compiled(subject, 16, 3, BUDGET), draw(21, 16, 3), draw(22, 16, 3)
        alone = program.predict(first).means
        assert alone is not None
        program.predict(other)
        np.testing.assert_array_equal(program.predict(first).means, alone)
