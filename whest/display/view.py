"""A report away from the command line: as text, as a table of figures, as pictures, and in a notebook."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from matplotlib.figure import Figure
from rich.text import Text

from whest.document import Json
from whest.notation import html_table, plus_minus
from whest.page.drawing import Draw, framed

if TYPE_CHECKING:
    from pandas import DataFrame

    from whest.page.blocks import Block, Fact
    from whest.report import Report


class Pictures(dict[str, Figure]):
    """Pictures by name, which a notebook shows one below the other."""

    def _repr_html_(self) -> str:
        return "".join(_image(figure, name) for name, figure in self.items())


def pictures(report: "Report") -> Pictures:
    drawings = report.view.drawings(report)
    return Pictures({name: framed(draw, title) for name, (title, draw) in drawings.items()})


def case_table(report: "Report") -> "DataFrame":
    """A row a case, named by it; figures as numbers."""
    from pandas import DataFrame

    frame = DataFrame(report.view.case_figures(report))
    return frame.set_index(frame.columns[0]) if len(frame) else frame


def headline_rows(report: "Report") -> list[tuple[str, str, str]]:
    score = report.score
    if score.score is None:
        return []
    return [
        ("score", plus_minus(score.score, score.score_se), f"{score.direction} is better"),
        *report.view.rows(report),
    ]


def report_text(report: "Report") -> str:
    """What the console would say."""
    rows = headline_rows(report)
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(2)]
    lines = [f"{name:<{widths[0]}}  {value:<{widths[1]}}  {remark}".rstrip() for name, value, remark in rows]
    complaints = [_plain(line) for line in report.view.complaints(report)]
    return "\n".join([_plain(report.view.title(report)), *lines, *complaints])


def report_html(report: "Report") -> str:
    """For a notebook: the figures, what went wrong, and the first picture."""
    table = html_table((), headline_rows(report), caption=_plain(report.view.title(report)), left=3)
    complaints = "".join(f"<p>{escape(_plain(line))}</p>" for line in report.view.complaints(report))
    drawn = [_image(framed(draw, title), name) for name, (title, draw) in [*report.view.drawings(report).items()][:1]]
    return table + complaints + "".join(drawn)


def _plain(markup: str) -> str:
    return Text.from_markup(markup).plain


def _image(figure: Figure, name: str) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=90)
    encoded = base64.b64encode(buffer.getvalue()).decode()
    return f'<img alt="{escape(name)}" src="data:image/png;base64,{encoded}"/>'


Row = tuple[str, str, str]
"""A figure's name, its value, a remark."""


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
