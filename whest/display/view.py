"""The base class of all views, with their common parts: text, HTML, a table of figures, pictures."""

import base64
import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from rich.text import Text

from whest.document import Json
from whest.notation import failed_words, html_table, plus_minus
from whest.report import AnyReport, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from whest.page.drawing import Draw
    from whest.page.run import PageParts

R = TypeVar("R", bound=AnyReport)


class View(ABC, Generic[R]):
    """Shows a task's reports: on the console, in pictures, on a page, in MLflow. See `whest.report.ReportView`."""

    files: ClassVar[tuple[str, ...]]

    @abstractmethod
    def title(self, report: R) -> str: ...

    @abstractmethod
    def rows(self, report: R) -> list[Row]: ...

    @abstractmethod
    def complaints(self, report: R) -> list[str]: ...

    @abstractmethod
    def next_step(self, report: R, is_tracked: bool) -> str | None: ...

    @abstractmethod
    def case_table(self, report: R) -> tuple[Sequence[str], list[Sequence[str]]]: ...

    @abstractmethod
    def case_figures(self, document: Json) -> list[Json]: ...

    @abstractmethod
    def series(self, document: Json) -> dict[str, Sequence[float]]: ...

    @abstractmethod
    def save_files(self, report: R, folder: Path) -> None: ...

    @abstractmethod
    def drawings(self, report: R) -> dict[str, tuple[str, "Draw"]]: ...

    @abstractmethod
    def page(self, document: Json, report: R | None) -> "PageParts": ...

    def text(self, report: R) -> str:
        rows = self._headline_rows(report)
        widths = [max((len(row[column]) for row in rows), default=0) for column in range(2)]
        lines = [f"{name:<{widths[0]}}  {value:<{widths[1]}}  {remark}".rstrip() for name, value, remark in rows]
        complaints = [_plain(line) for line in self.complaints(report)]
        return "\n".join([_plain(self.title(report)), *lines, *complaints])

    def html(self, report: R) -> str:
        """The figures, the problems and the first picture."""
        table = html_table((), self._headline_rows(report), caption=_plain(self.title(report)), left=3)
        complaints = "".join(f"<p>{escape(_plain(line))}</p>" for line in self.complaints(report))
        from whest.page.drawing import framed

        drawn = [_image(framed(draw, title), name) for name, (title, draw) in [*self.drawings(report).items()][:1]]
        return table + complaints + "".join(drawn)

    def table(self, report: R) -> "DataFrame":
        """One row per case, with the case's name as index; figures as numbers."""
        from pandas import DataFrame

        frame = DataFrame(self.case_figures(report.to_json()))
        return frame.set_index(frame.columns[0]) if len(frame) else frame

    def pictures(self, report: R) -> "Pictures":
        from whest.page.drawing import framed

        drawings = self.drawings(report)
        return Pictures({name: framed(draw, title) for name, (title, draw) in drawings.items()})

    def _headline_rows(self, report: R) -> list[Row]:
        score = report.score
        if score.score is None or report.never_ran:
            return []
        return [score_row(report), *self.rows(report)]


def score_row(report: AnyReport) -> Row:
    """The score; if every case failed, this fact in its place."""
    score = report.score
    told = plus_minus(score.score, score.score_se)
    if report.all_failed:
        failed = failed_words(len(report.cases), score.by_case.unit)
        return "score", failed, f"the rule gives it {told}, as without any answer"
    return "score", told, f"{score.direction} is better"


class Pictures(dict[str, "Figure"]):
    """Pictures by name. A notebook shows them one below the other."""

    def _repr_html_(self) -> str:
        return "".join(_image(figure, name) for name, figure in self.items())


AnyView = View[Any]
"""A view of any task."""


def _plain(markup: str) -> str:
    return Text.from_markup(markup).plain


def _image(figure: "Figure", name: str) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=90)
    encoded = base64.b64encode(buffer.getvalue()).decode()
    return f'<img alt="{escape(name)}" src="data:image/png;base64,{encoded}"/>'
