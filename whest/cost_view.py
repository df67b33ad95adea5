"""A cost as people read it: a table in text, and one for notebooks."""

from rich.console import Console
from rich.table import Table

from whest.cost import Cost
from whest.html_table import html_table

MOST_ROWS = 20
"""Charges shown; the rest are added up in a last row."""
UNLABELLED = "–"
COLUMNS = ("namespace", "operation", "FLOPs", "share", "calls")


def cost_rows(cost: Cost) -> list[tuple[str, ...]]:
    """The dearest charges, and all others as one."""
    total = max(cost.flops, 1)

    def row(namespace: str, operation: str, flops: int, calls: int) -> tuple[str, ...]:
        return namespace or UNLABELLED, operation, f"{flops:,}", f"{flops / total:.1%}", f"{calls:,}"

    paid = [charge for charge in cost.charges if charge.flops]
    rows = [row(charge.namespace, charge.operation, charge.flops, charge.calls) for charge in paid[:MOST_ROWS]]
    rest = paid[MOST_ROWS:]
    if rest:
        calls = sum(charge.calls for charge in rest)
        rows.append(row("", f"{len(rest)} more", sum(charge.flops for charge in rest), calls))
    return rows


def cost_text(cost: Cost) -> str:
    table = Table(box=None, pad_edge=False)
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in COLUMNS[:2] else "right")
    for row in cost_rows(cost):
        table.add_row(*row)
    console = Console(width=100, no_color=True, highlight=False)
    with console.capture() as captured:
        console.print(table)
    return "\n".join([_title(cost), *(line.rstrip() for line in captured.get().rstrip().splitlines())])


def cost_html(cost: Cost) -> str:
    return html_table(COLUMNS, cost_rows(cost), caption=_title(cost), left=2)


def _title(cost: Cost) -> str:
    free = sum(not charge.flops for charge in cost.charges)
    return f"{cost.flops:,} FLOPs" + (f", {free} kinds of operations cost nothing" if free else "")
