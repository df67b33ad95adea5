"""What a task is to the runner: it yields cases, has them scored, and knows how its reports are shown.

A task is a module `whest.tasks.NAME` with two names in it: `build_task`, from a composed config to the `Task`, and
`VIEW`, its `View`. Everything else in whest is the same for every task, and asks one of these two.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from whest.case import Limits
from whest.recorded import task_name
from whest.scoring.score import Rule, Score

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from whest.estimator import EstimatorSpec
    from whest.page.blocks import Block, Fact
    from whest.progress import Progress
    from whest.report import Report, RunMeta

Json = dict[str, Any]


class Task(Protocol):
    """Cases under a budget. Its fields say what it works on; building it checks every value, running it is `cases`."""

    name: ClassVar[str]
    version: ClassVar[int]
    """Goes up when the same words come to mean other cases."""

    @property
    def limits(self) -> Limits: ...

    @property
    def estimator(self) -> "EstimatorSpec": ...

    def cases(self, progress: "Progress") -> Iterator[Any]:
        """One result a case, as each is finished; a Ctrl-C keeps those."""

    def score(self, rule: Any, cases: Sequence[Any]) -> Score:
        """Hand the rule what it weighs."""

    def protocol(self) -> Json:
        """Its part of what two runs must share to be comparable: data, how truth is known, the meter."""

    def describe(self, cases: Sequence[Any]) -> Json:
        """Its part of `run_config`: its data under `dataset` (with name and sha256), its own knobs, the isolation."""

    def determinants(self) -> Json:
        """What else decides the outcome, beside the protocol, the estimator and the code."""

    def report(self, meta: "RunMeta", config: Json, cases: tuple[Any, ...], score: Score) -> "Report": ...


Row = tuple[str, str, str]
"""A figure's name, its value, a remark."""
Draw = Callable[["Axes"], None]


@dataclass(frozen=True)
class PageParts:
    """What a task puts on a run's page; how to do it again, and the config, are there anyhow."""

    title: str
    subtitle: str
    notices: Sequence["Block"] = ()
    note: str = ""
    """Beneath the score."""
    facts: Sequence["Fact"] = ()
    gauges: Sequence["Block"] = ()
    sections: Mapping[str, Sequence["Block"]] = field(default_factory=dict)
    provenance: Mapping[str, str] = field(default_factory=dict)


class View(Protocol):
    """How a task's reports look: on the console, in pictures, on a page, in MLflow."""

    files: ClassVar[tuple[str, ...]]
    """What `save_files` leaves beside the report, for MLflow to keep."""

    def title(self, report: Any) -> str:
        """One line: who, on what, under which budget; in rich's markup."""

    def rows(self, report: Any) -> list[Row]:
        """The figures behind the score."""

    def complaints(self, report: Any) -> list[str]:
        """What went wrong, in rich's markup; empty for a clean run."""

    def next_step(self, report: Any) -> str | None:
        """A command worth trying now."""

    def case_table(self, report: Any) -> tuple[Sequence[str], list[Sequence[str]]]:
        """For the console: columns and rows."""

    def case_figures(self, report: Any) -> list[Json]:
        """For MLflow: a row a case, all with the same keys."""

    def save_files(self, report: Any, folder: Path) -> None:
        """What the report itself is too small for."""

    def drawings(self, report: Any) -> dict[str, tuple[str, Draw]]:
        """By file name: a title, and what draws it. Empty where nothing was finished."""

    def page(self, document: Json, report: Any | None) -> PageParts:
        """From the report's own document; from the report, where there still is one, what that leaves out."""


PAIRS: dict[str, tuple[str, ...]] = {
    "whitebox": ("whest", "fherma"),
    "prequential": ("prism",),
    "exam": ("ari", "fherma"),
}
"""Which rules can score which task."""


def legal_pairs() -> str:
    return "; ".join(f"task={task} with scoring={' or '.join(rules)}" for task, rules in PAIRS.items())


def fits(task: str, rule: Rule) -> bool:
    return rule.name in PAIRS[task]


def task_module(name: str) -> Any:
    """The module behind `task=NAME`."""
    return importlib.import_module(f"whest.tasks.{name}")


def view_of(document: Json) -> View:
    """How a report.json is shown."""
    view: View = task_module(task_name(document)).VIEW
    return view
