"""What a task is to the runner: it yields cases, has them scored, and knows how its reports are shown.

A task is a module `whest.tasks.NAME` with two names in it: `build_task`, from a composed config to the `Task`, and
`VIEW`, its `View`. Everything else in whest is the same for every task, and asks one of these two.
"""

import importlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from whest.display.view import View
from whest.document import Json, task_name
from whest.limits import Limits
from whest.scoring.score import Rule, Score

if TYPE_CHECKING:
    from whest.estimator.spec import EstimatorSpec
    from whest.progress import Progress
    from whest.report import Report, RunMeta


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


def task_module(name: str, part: str) -> Any:
    """The module behind `task=NAME`."""
    return importlib.import_module(f"whest.tasks.{name}.{part}")


def view_of(document: Json) -> View:
    """How a report.json is shown."""
    view: View = task_module(task_name(document), "view").VIEW
    return view
