"""What the next FLOP buys: the score with more and with less compute, on the same MLPs.

The estimator is told a budget of so many times the round's, and its answers are scored by the round's own budget. A
sampler then draws as many times the samples, and an estimator that chooses its method by the budget chooses again. One
whose compute stays the same has nothing to size.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from whest.cases.whitebox import WhiteboxCase
from whest.document import Json
from whest.notation import figure
from whest.page import Section, Table, Text
from whest.progress import Progress
from whest.scoring.paired import Paired
from whest.scoring.whitebox import WhiteboxRule, WhiteboxScore
from whest.tasks.whitebox.task import Whitebox

HOW = (
    "The estimator is told a budget of so many times the round's, and scored by the round's own. The ratio is that of "
    "the scores on the same MLPs; below 1 is better."
)
Outcome = Literal["scored", "same compute", "over a limit"]


@dataclass(frozen=True)
class Bought:
    """The score at one multiple of the compute."""

    factor: float
    outcome: Outcome
    compute: float | None = None
    """How many times the FLOPs were really spent."""
    score: float | None = None
    paired: Paired | None = None
    """Its scores against those at the compute as it is."""

    @property
    def words(self) -> str:
        if self.outcome != "scored":
            return {"same compute": "it spends the same", "over a limit": "over a limit, no score"}[self.outcome]
        assert self.paired is not None
        ratio, interval = self.paired.ratio, self.paired.ratio_interval
        if ratio is None:
            return "no ratio"
        ends = "" if interval is None else f", 95 % {interval.low:.3f}–{interval.high:.3f}"
        return f"{ratio:.3f} × the score{ends}{'' if self.paired.is_resolved else ', not resolved'}"

    def row(self) -> tuple[str, str, str, str]:
        spent = "" if self.compute is None else f"{self.compute:.3g} ×"
        return f"{self.factor:g} ×", spent, "" if self.score is None else figure(self.score), self.words

    def to_json(self) -> Json:
        interval = None if self.paired is None else self.paired.ratio_interval
        return {
            "factor": self.factor,
            "outcome": self.outcome,
            "compute": self.compute,
            "score": self.score,
            "ratio": None if self.paired is None else self.paired.ratio,
            "ratio_interval": None if interval is None else [interval.low, interval.high],
            "difference": None if self.paired is None else self.paired.difference,
            "difference_se": None if self.paired is None else self.paired.standard_error,
            "is_resolved": None if self.paired is None else self.paired.is_resolved,
        }


def buy(
    task: Whitebox,
    rule: WhiteboxRule,
    cases: Sequence[WhiteboxCase],
    score: WhiteboxScore,
    factor: float,
    progress: Progress,
) -> Bought:
    """Run the estimator with a multiple of its compute. `cases` and `score` are those at the compute as it is."""
    budget = factor * task.limits.budget
    told = replace(
        task,
        limits=replace(task.limits, budget=budget),
        context=replace(task.context, flop_budget=int(budget)),
        profile=None,
    )
    found: list[WhiteboxCase] = []
    for case in told.cases(progress):
        if case.prediction.cost.flops == cases[0].prediction.cost.flops and not found:
            return Bought(factor, "same compute")
        found.append(case)
    scored = task.score(rule, found)
    spent = [sum(case.prediction.cost.flops for case in some) for some in (found, cases)]
    if any(case.failed for case in scored.cases):
        return Bought(factor, "over a limit", spent[0] / spent[1] if spent[1] else None)
    field = score.by_case
    ours, before = (np.array([getattr(c, field.field) for c in one.cases]) for one in (scored, score))
    paired = Paired(ours, before, lower_is_better=field.direction == "lower")
    return Bought(factor, "scored", spent[0] / spent[1] if spent[1] else None, scored.score, paired)


def bought_section(bought: Sequence[Bought]) -> Section:
    title = "What the next FLOP buys"
    if all(one.outcome == "same compute" for one in bought):
        return Section(title, [Text("Nothing: the estimator's compute does not follow the budget it is told.")])
    return Section(title, [Table(("compute", "spent", "score", "against now"), [one.row() for one in bought], HOW)])


def bought_lines(bought: Sequence[Bought]) -> list[str]:
    if all(one.outcome == "same compute" for one in bought):
        return ["next FLOP        buys nothing: its compute does not follow the budget it is told"]
    return ["what the next FLOP buys", *(f"  {one.row()[0]} the compute: {one.words}" for one in bought)]
