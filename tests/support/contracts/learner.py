"""The contract of a byte learner: it is not refused, begins without knowledge, and learns as it reads.

    class TestMine(LearnerContract):
        subjects = {"mine": estimator_spec(…)}

Each subject is the spec of a learner so small that 2,048 bytes are read in seconds. One run, `run`, is shared by all
tests of a subject: tracing and the probe have then refused what looks ahead, at other rows, or brings constants.
"""

from dataclasses import replace

import pytest

from tests.support.contracts.contract import Contract
from tests.support.prequential import SHORT, task_of
from tests.support.prism_rule import RULE
from whest.estimator.spec import EstimatorSpec
from whest.experiment import gather
from whest.learner.contract import create_learner, step_cost
from whest.progress import SilentProgress
from whest.scoring.prism import PrismScore
from whest.tasks.prequential.task import Prequential

Run = tuple[Prequential, PrismScore]


class LearnerContract(Contract):
    """The subjects are specs of learners."""

    @pytest.fixture(scope="class")
    @classmethod
    def run(cls, subject: EstimatorSpec) -> Run:
        task = replace(task_of("Bigram", SHORT, row_length=32), estimator=subject)
        cases, status = gather(task.cases(SilentProgress()))
        assert status == "finished"
        return task, task.score(RULE, cases)

    def test_it_begins_without_knowledge(self, run: Run) -> None:
        assert not run[1].step0_anomaly

    def test_every_batch_is_finite_and_the_run_is_scored(self, run: Run) -> None:
        _, score = run
        assert (score.failure, score.n_charged_batches) == (None, 0)
        assert score.score is not None
        assert 0 < score.score < 1

    def test_it_learns(self, run: Run) -> None:
        _, score = run
        assert score.train_bpb_converged is not None
        assert score.train_bpb_converged < 7
        assert score.heldout_delta is not None
        assert score.heldout_delta > 0.2

    def test_updates_cost_what_the_meter_says(self, run: Run) -> None:
        task, score = run
        flops = step_cost(create_learner(task.estimator, task.context), task.context).flops
        assert flops > 0
        assert score.flops_used == score.n_batches * flops <= task.limits.budget
