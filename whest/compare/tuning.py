"""The result of `job=tune`: what was tried, and whether the best is confirmed on MLPs that the search never saw."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from whest.document import Json
from whest.notation import count, figure
from whest.page import Block, Code, Headline, Page, Section, Table, Text
from whest.scoring.paired import Paired, verdict

BEST, DEFAULT = "the best trial", "the default"


@dataclass(frozen=True)
class Tried:
    """One trial."""

    number: int
    knobs: Mapping[str, Any]
    score: float | None
    """The mean over the training MLPs; None if it failed."""
    failure: str | None = None


@dataclass(frozen=True)
class Tuning:
    """A search for knobs and its confirmation."""

    estimator: str
    trials: Sequence[Tried]
    default: Mapping[str, Any]
    lower_is_better: bool
    n_mlps: int
    confirmed: Paired | None
    """The best trial against the default on held-out MLPs; None if no trial was better than the default."""

    @property
    def best(self) -> Tried | None:
        scored = [one for one in self.trials if one.score is not None]
        sign = 1 if self.lower_is_better else -1
        return min(scored, key=lambda one: sign * (one.score or 0.0), default=None)

    @property
    def recommended(self) -> Mapping[str, Any] | None:
        """The knobs to use instead of the default; None unless the held-out MLPs resolve that they are better.

        Where there is an exact test (13 MLPs or fewer) it must agree: the best of many trials is no place for trust in
        a normal distribution.
        """
        found = self.confirmed
        if found is None or self.best is None or not found.is_resolved or found.rests_on_normality:
            return None
        return self.best.knobs if found.a_is_better else None

    def words(self) -> str:
        """The verdict in one sentence."""
        if self.best is None:
            return "no trial has a score: nothing is recommended"
        if self.confirmed is None:
            return f"no trial is better than the default on {count(self.n_mlps, 'training MLP')}: keep the default"
        said = f"on {self.confirmed.n_cases} held-out MLPs: {verdict(self.confirmed, BEST, DEFAULT)}"
        return f"{said}: {'recommended' if self.recommended is not None else 'not recommended, keep the default'}"

    def lines(self) -> list[str]:
        failed = sum(one.score is None for one in self.trials)
        lines = [f"{self.estimator}: {count(len(self.trials), 'trial')} on {count(self.n_mlps, 'training MLP')}"]
        lines += [f"  {failed} of them failed"] if failed else []
        first = next((one for one in self.trials if dict(one.knobs) == dict(self.default)), None)
        for name, one in (("default", first), ("best", self.best)):
            if one is not None and one.score is not None:
                lines.append(f"  {name:<8} {figure(one.score)}  {knob_words(one.knobs)}")
        return [*lines, self.words()]

    def to_json(self) -> Json:
        confirmed = self.confirmed
        return {
            "schema_version": "1.0",
            "estimator": self.estimator,
            "n_training_mlps": self.n_mlps,
            "default": dict(self.default),
            "best": None if self.best is None else asdict(self.best),
            "recommended": None if self.recommended is None else dict(self.recommended),
            "verdict": self.words(),
            "confirmation": None
            if confirmed is None
            else {
                "n_mlps": confirmed.n_cases,
                "difference": confirmed.difference,
                "difference_se": confirmed.standard_error,
                "ratio": confirmed.ratio,
                "p_value": confirmed.p_value,
                "is_resolved": confirmed.is_resolved,
            },
            "trials": [asdict(one) for one in self.trials],
        }

    def table(self) -> str:
        """The trials as CSV."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(["trial", *self.default, "score", "failure"])
        for one in self.trials:
            writer.writerow([one.number, *(one.knobs.get(name) for name in self.default), one.score, one.failure])
        return buffer.getvalue()

    def page(self, command: str) -> Page:
        rows: list[Sequence[str | int]] = [
            (
                one.number,
                *(str(one.knobs.get(name)) for name in self.default),
                "" if one.score is None else figure(one.score),
                one.failure or "",
            )
            for one in self.trials
        ]
        best = self.best
        blocks: list[Block] = [
            Headline(
                "best training score",
                figure(best.score) if best is not None and best.score is not None else "none",
                f"mean over {count(self.n_mlps, 'MLP')} that no suite contains",
            ),
            Text(self.words(), "good" if self.recommended is not None else "warn"),
            Section("Trials", [Table(("trial", *self.default, "score", "failure"), rows, "What was tried, in order.")]),
            Section("Reproduce", [Code(command, "The command that continues or repeats it.")]),
        ]
        return Page(f"{self.estimator}, tuned", command, blocks, kind="run")


def knob_words(knobs: Mapping[str, Any]) -> str:
    shown = {name: f"{value:.6g}" if type(value) is float else value for name, value in knobs.items()}
    return " ".join(f"estimator.{name}={value}" for name, value in shown.items())
