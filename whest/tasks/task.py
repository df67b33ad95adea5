"""The contract of a task: it yields cases, has them scored and makes the report.

A task is one folder `whest/tasks/NAME` with two entry points: `build.build_task`, from a composed config to the `Task`,
and `view.VIEW`, its `View`. The rest of whest is the same for every task and uses these two.
"""

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from whest.display.view import AnyView
from whest.document import Json, task_name
from whest.errors import WhestError
from whest.limits import Limits
from whest.notation import printable
from whest.report import Report, RunMeta
from whest.scoring.score import Rule, Score

if TYPE_CHECKING:
    from whest.estimator.spec import EstimatorSpec
    from whest.progress import Progress

CaseT = TypeVar("CaseT")
RuleT = TypeVar("RuleT", contravariant=True)
ScoreT = TypeVar("ScoreT", bound=Score)


class Task(Protocol[CaseT, RuleT, ScoreT]):
    """Yields cases under a budget. Building a task checks every value; `cases` does the work."""

    name: ClassVar[str]
    version: ClassVar[int]
    """Increment when the same config would yield different cases; part of the protocol hash."""

    @property
    def limits(self) -> Limits: ...

    @property
    def estimator(self) -> "EstimatorSpec": ...

    @property
    def require(self) -> tuple[str, ...]:
        """The protections a stranger's code must have; part of the protocol."""
        ...

    def cases(self, progress: "Progress") -> Iterator[CaseT]:
        """One result per case, as each is finished. Ctrl-C keeps the finished ones."""
        ...

    def score(self, rule: RuleT, cases: Sequence[CaseT]) -> ScoreT:
        """Score the cases by the rule."""
        ...

    def protocol(self) -> Json:
        """The task's part of the protocol: its data, the source of the truth, the meter."""
        ...

    def describe(self, cases: Sequence[CaseT]) -> Json:
        """The task's part of `run_config`: `dataset` (with name and sha256), its knobs, the isolation."""
        ...

    def determinants(self) -> Json:
        """All other values that change the result, beside the protocol, the estimator and the code."""
        ...

    def report(self, meta: RunMeta, config: Json, cases: tuple[CaseT, ...], score: ScoreT) -> Report[CaseT, ScoreT]: ...


AnyTask = Task[Any, Any, Any]
"""Any task."""
PAIRS: dict[str, tuple[str, ...]] = {
    "whitebox": ("whest", "fherma"),
    "prequential": ("prism",),
    "exam": ("ari", "fherma"),
}
"""The rules that can score each task."""


def legal_pairs() -> str:
    return "; ".join(f"task={task} with scoring={' or '.join(rules)}" for task, rules in PAIRS.items())


def fits(task: str, rule: Rule) -> bool:
    """A rule of a plug-in names its tasks itself, as `tasks`."""
    return rule.name in PAIRS[task] or task in getattr(rule, "tasks", ())


def task_builder(name: str) -> Callable[..., AnyTask]:
    """The function `build_task` of `task=NAME`."""
    builder: Callable[..., AnyTask] = importlib.import_module(f"whest.tasks.{name}.build").build_task
    return builder


def view_of(document: Json) -> AnyView:
    """The view for a report.json, which may be a stranger's."""
    name = task_name(document)
    if name not in PAIRS:
        raise WhestError(f"the report is of task={printable(name)[:50]}, and whest has {', '.join(PAIRS)}")
    view: AnyView = importlib.import_module(f"whest.tasks.{name}.view").VIEW
    return view
