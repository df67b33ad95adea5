"""Figures as text: numbers with their errors, shares as bars, tables in text and HTML."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

GAUGE_WIDTH = 20

FORMULAS = ("=", "+", "-", "@")
"""How a formula begins in a spreadsheet."""


def figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def short_number(value: float) -> str:
    """A number in few letters, as people type it: 6.8e10, 0.25, 12."""
    return f"{value:.6g}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")


def count(number: int, unit: str) -> str:
    """A number of things: 1 MLP, 2 MLPs."""
    return f"{number:,} {unit}" if number == 1 else f"{number:,} {unit}s"


def failed_words(number: int, unit: str) -> str:
    """In the place of a score, if no case has an answer."""
    return f"failed (the {count(number, unit)})" if number == 1 else f"failed (all {count(number, unit)})"


def plus_minus(value: float | None, error: float | None) -> str:
    """A value and its error in the same power of ten: 3.69e-06 ± 0.21e-06. From 1 up without one: 942.81 ± 0.35."""
    if value is None:
        return "–"
    if (1 if error else 10) <= abs(value) < 1e6:
        decimals = 2 if not error else min(max(1 - math.floor(math.log10(error)), 0), 4)
        return f"{value:.{decimals}f}" + (f" ± {error:.{decimals}f}" if error is not None else "")
    if error is None:
        return figure(value)
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    # 10^-324 is 0 as a float: such an error is shown by itself
    scale = 10.0 ** int(exponent) if int(exponent) > -300 else 0.0
    return f"{mantissa}e{exponent} ± " + (f"{error / scale:.2f}e{exponent}" if scale else figure(error))


def inert(cell: object) -> object:
    """A cell of a CSV file that no spreadsheet takes for a formula or a new row: text gets a quote, numbers stay."""
    if not isinstance(cell, str):
        return cell
    words = "".join(letter if letter.isprintable() else " " for letter in cell)
    return f"'{words}" if words.lstrip().startswith(FORMULAS) else words


def printable(words: str) -> str:
    """Words without control characters, which a terminal would act on."""
    return "".join(letter for letter in words if letter.isprintable())


def gauge(utilization: float) -> str:
    """A share of the budget as a bar."""
    filled = round(min(utilization, 1) * GAUGE_WIDTH)
    return f"{'█' * filled}{'░' * (GAUGE_WIDTH - filled)} {utilization:.2%} of the budget"


def short_path(path: Path) -> Path:
    """The path relative to the current folder, if it is inside it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def text_table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table of aligned columns. The first `left` columns hold words, the others figures."""
    lines = [columns, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]

    def aligned(line: Sequence[str]) -> str:
        cells = (
            f"{cell:<{width}}" if place < left else f"{cell:>{width}}"
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        return "  ".join(cells).rstrip()

    return "\n".join(aligned(line) for line in lines)


def html_table(columns: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "", left: int = 1) -> str:
    """A table in HTML. The first `left` columns hold words, the others figures."""

    def cells(row: Sequence[str], tag: str) -> str:
        aligned = ((value, "left" if place < left else "right") for place, value in enumerate(row))
        return "".join(f'<{tag} style="text-align:{side}">{escape(value)}</{tag}>' for value, side in aligned)

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    title = f'<caption style="text-align:left;caption-side:top"><b>{escape(caption)}</b></caption>' if caption else ""
    head = f"<thead><tr>{cells(columns, 'th')}</tr></thead>" if columns else ""
    return f"<table>{title}{head}<tbody>{body}</tbody></table>"
