"""A table for notebooks: plain HTML that takes the notebook's own style."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(columns: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "", left: int = 1) -> str:
    """The first `left` columns hold words, the others figures."""

    def cells(row: Sequence[str], tag: str) -> str:
        aligned = ((value, "left" if place < left else "right") for place, value in enumerate(row))
        return "".join(f'<{tag} style="text-align:{side}">{escape(value)}</{tag}>' for value, side in aligned)

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    title = f'<caption style="text-align:left;caption-side:top"><b>{escape(caption)}</b></caption>' if caption else ""
    head = f"<thead><tr>{cells(columns, 'th')}</tr></thead>" if columns else ""
    return f"<table>{title}{head}<tbody>{body}</tbody></table>"
