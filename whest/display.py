"""A report away from the command line: as text, as a table of figures, as pictures, and in a notebook."""

import base64
import io
from html import escape
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from rich.text import Text

from whest.console import plus_minus
from whest.drawing import framed
from whest.html_table import html_table

if TYPE_CHECKING:
    from pandas import DataFrame

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
