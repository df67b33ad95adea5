"""An exam's report: one row per question, the families' shares, the training curve, the history of candidates."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from whest.cases.exam import EARNED, ExamCase, Sitting, events
from whest.cost import Timing
from whest.document import Json
from whest.report import Report, estimator_breakdown
from whest.scoring.exam import ExamScore, QuestionMeasures


@dataclass(frozen=True)
class ExamReport(Report[ExamCase, ExamScore]):
    """One run of a recipe, with the answers of its model."""

    reveal: bool

    @property
    def sitting(self) -> Sitting:
        return self.cases[-1].sitting if self.cases else Sitting()

    @property
    def has_errors(self) -> bool:
        return any(case.failure is not None and case.failure.code not in EARNED for case in self.cases)

    @property
    def problem(self) -> str | None:
        invalid = self.score.invalid
        return super().problem if invalid is None else f"the run is invalid and must be run again: {invalid}"

    def results(self) -> Json:
        sitting = self.sitting
        walls = [event["wall_time_s"] for event in events(sitting.history) if event["event"] == "call"]
        charges = [
            replace(charge, flops=charge.flops * sitting.steps, calls=charge.calls * sitting.steps)
            for charge in (sitting.update_cost.charges if sitting.update_cost else ())
        ]
        shares = right_by_family(self.cases)
        return {
            "training_time_s": sum(walls),
            "program_bytes": sitting.program_bytes,
            "constant_bytes": sitting.constant_bytes,
            "flops_xla": _training_xla(sitting),
            **{f"family/{_plain(name)}": 100 * right / asked for name, (right, asked) in shares.items()},
            "families": {name: {"right": right, "asked": asked} for name, (right, asked) in shares.items()},
            "training": {"losses": [list(point) for point in sitting.losses], "history": events(sitting.history)},
            "breakdowns": {"estimator": estimator_breakdown([charges], [Timing(backend_time_s=sum(walls))])},
            "per_case": [
                _case_json(case, scored, self.reveal) for case, scored in zip(self.cases, self.score.cases, strict=True)
            ],
        }


def _training_xla(sitting: Sitting) -> float | None:
    """XLA's count for all updates."""
    cost = sitting.update_cost
    return None if cost is None or cost.flops_xla is None else cost.flops_xla * sitting.steps


def right_by_family(cases: Sequence[ExamCase]) -> dict[str, tuple[int, int]]:
    """The number of right answers and of questions by family, in the order of the questions."""
    counts: dict[str, list[bool]] = defaultdict(list)
    for case in cases:
        counts[case.question.family].append(case.is_right)
    return {family: (sum(right), len(right)) for family, right in counts.items()}


def _plain(family: str) -> str:
    """A family's name, with only the characters that MLflow allows in a metric's name."""
    return re.sub(r"[^\w. -]", "_", family, flags=re.ASCII)[:100]


def _case_json(case: ExamCase, scored: QuestionMeasures, reveal: bool) -> Json:
    row: Json = {
        "case_index": case.index,
        "case_name": case.name,
        "family": case.question.family,
        "n_bytes": len(case.question.answer),
        "right": scored.right,
        **scored.own_figures,
        "bits": scored.bits,
        "wall_time_s": case.answer.wall_time_s if case.answer else 0.0,
    }
    if reveal:
        given = case.answer.given if case.answer else None
        row |= {
            "prefix": case.question.prefix.decode(errors="replace"),
            "answer": case.question.answer.decode(errors="replace"),
            "given": None if given is None else given.decode(errors="replace"),
        }
    if case.failure is not None:
        row |= {
            "error": {"message": case.failure.message, "details": {}, "exception": None},
            "error_code": case.failure.code,
            "traceback": case.failure.traceback or case.failure.message,
        }
    return row
