"""The exam task: a training session, then one case per question."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from whest.cases.exam import ExamCase
from whest.document import Json
from whest.estimator.spec import EstimatorSpec
from whest.isolation.choose import describe_protection
from whest.limits import Limits
from whest.metering.walk import METER_VERSION
from whest.progress import Progress
from whest.report import RunMeta
from whest.scoring.exam import ExamRule, ExamScore
from whest.tasks.exam.grading import grade
from whest.tasks.exam.plan import Plan
from whest.tasks.exam.questions import PREFIX_BYTES
from whest.tasks.exam.report import ExamReport
from whest.tasks.exam.session import Session
from whest.tasks.exam.view import VIEW


@dataclass(frozen=True)
class Exam:
    """`task=exam`: training in a process that never sees the questions, grading in another one."""

    name: ClassVar[str] = "exam"
    version: ClassVar[int] = 2
    """2: a learner whose shadow, which reads random bytes, knows the text scores 0. Version 1 looked only at the start.
    """

    plan: Plan
    limits: Limits
    folder: Path
    reveal: bool
    """Whether the report shows the questions. Those of the demo are public; others should stay secret."""

    @property
    def estimator(self) -> EstimatorSpec:
        return self.plan.spec

    @property
    def require(self) -> tuple[str, ...]:
        return self.plan.require

    def cases(self, progress: Progress) -> Iterator[ExamCase]:
        """Train, then answer."""
        (sitting,) = [
            session.hold()
            for session in progress.each([Session(self.plan, self.folder)], f"training {self.estimator.name}")
        ]
        questions = self.plan.material.exam.questions
        graded = grade(self.plan, sitting, questions)
        for _ in progress.each(questions, f"{self.estimator.name} on {self.plan.material.name}"):
            yield next(graded)

    def score(self, rule: ExamRule, cases: Sequence[ExamCase]) -> ExamScore:
        return rule.score_exam(cases)

    def protocol(self) -> Json:
        """The hashes of exam, text and validation set, the rules of grading, the kind of budget, and the meter."""
        plan = self.plan
        return {
            "data": plan.material.protocol(),
            "grading": {
                "prefix_bytes": PREFIX_BYTES,
                "bundle_limit_bytes": plan.bundle_limit_bytes,
                "decoding": "greedy",
            },
            "budget_by": "flops" if plan.wall_clock is None else asdict(plan.wall_clock),
            "meter": {"name": "xla-traced", "version": METER_VERSION},
        }

    def describe(self, cases: Sequence[ExamCase]) -> Json:
        plan = self.plan
        return {
            "seed": plan.seed,
            "n_questions": len(plan.material.exam.questions),
            "recipe": asdict(plan.recipe),
            "budget_by": "flops" if plan.wall_clock is None else "wall",
            "wall_clock": asdict(plan.wall_clock) if plan.wall_clock else None,
            "bundle_limit_bytes": plan.bundle_limit_bytes,
            "random_updates": plan.random_updates,
            "isolation": {
                "worker": True,
                **describe_protection(plan.require, plan.spec, cases[0].sitting.protections if cases else {}),
            },
            "dataset": plan.material.describe(),
        }

    def determinants(self) -> Json:
        plan = self.plan
        return {"recipe": asdict(plan.recipe), "limits": asdict(plan.worker_limits), "seed": plan.seed}

    def report(self, meta: RunMeta, config: Json, cases: tuple[ExamCase, ...], score: ExamScore) -> ExamReport:
        return ExamReport("score", meta, config, self.limits, cases, score, VIEW, self.reveal)
