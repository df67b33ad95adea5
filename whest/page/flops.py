"""The bill on a page: FLOPs by namespace, each with its operations, XLA's own count, and all operations in a table."""

from collections.abc import Sequence

from whest.document import Json
from whest.notation import figure
from whest.page.blocks import COLOURS, Bar, Bars, Block, Cell, Colour, Column, Table, Text
from whest.page.charts import colours_of

MOST_BARS, MOST_PARTS = 12, 10
SAME = 0.001
"""Counts that differ by less need no explanation."""
Operation = tuple[str, str, Json]


def operations_of(results: Json) -> list[Operation]:
    """Namespace, operation and its cost over all cases, the largest first."""
    spaces = results["breakdowns"]["estimator"]["by_namespace"]
    rows = [
        (namespace.removeprefix("estimator."), name, spent)
        for namespace, space in spaces.items()
        for name, spent in space["operations"].items()
    ]
    return sorted(rows, key=lambda row: -row[2]["flops_used"])


def flop_blocks(results: Json, n_shares: int, label: str) -> list[Block]:
    """Bars, XLA's count and a table. Bars divide each figure by `n_shares`; the label names the unit."""
    rows, total = operations_of(results), results["breakdowns"]["estimator"]["flops_used"]
    if not total:
        return [Text("No operation of this run costs FLOPs.")]
    return [_bill(rows, total, n_shares, label), *_xla(results, total, n_shares, label), _operation_table(rows, total)]


def _bill(rows: Sequence[Operation], total: float, n: int, label: str) -> Bars:
    """One bar per namespace, the largest first. Its operations are its parts."""
    colours = colours_of((space for space, _, _ in rows), COLOURS)
    spaces = {space: [(name, spent["flops_used"]) for own, name, spent in rows if own == space] for space in colours}
    bars = [
        Bar(space, spent, _share(spent, total, n), colours[space], _parts(operations, total, n, colours[space]))
        for space, operations in spaces.items()
        if (spent := sum(flops for _, flops in operations))
    ]
    bars.sort(key=lambda bar: -bar.value)
    cut = f" The {MOST_BARS} largest of {len(bars)}." if len(bars) > MOST_BARS else ""
    return Bars(bars[:MOST_BARS], f"{label}, by namespace. Open a namespace to see its operations.{cut}", full=total)


def _parts(operations: Sequence[tuple[str, float]], total: float, n: int, colour: Colour) -> list[Bar]:
    costly = [(name, flops) for name, flops in operations if flops]
    rest = costly[MOST_PARTS:]
    others = [(f"{len(rest)} others", sum(flops for _, flops in rest))] if rest else []
    return [Bar(name, flops, _share(flops, total, n), colour) for name, flops in (*costly[:MOST_PARTS], *others)]


def _share(flops: float, total: float, n: int) -> str:
    return f"{flops / total:.2%} · {figure(flops / n)}"


def _xla(results: Json, total: float, n: int, label: str) -> list[Block]:
    """XLA's count of the same operations, and why it differs."""
    counted = results.get("flops_xla")
    if counted is None:
        return []
    unknown = results.get("xla_unknown") or []
    blind = f" XLA has no figure for {', '.join(unknown[:8])} and counts 0 there." if unknown else ""
    counts = f"{label}: F is {figure(total / n)}, XLA counts {figure(counted / n)} for the same operations."
    why = (
        " The two differ where XLA counts too little (look-ups, sorting, random bits, LAPACK) "
        "or too much (prefix sums, argmax). The score uses F."
    )
    return [Text(f"{counts}{why if abs(total - counted) > SAME * total else ''}{blind}")]


def _operation_table(rows: Sequence[Operation], total: float) -> Table:
    is_timed = any(spent["backend_time_s"] is not None for _, _, spent in rows)
    cells = [
        [namespace, name, spent["flops_used"], percent(spent["flops_used"] / total), spent["calls"]]
        + ([spent["backend_time_s"]] if is_timed else [])
        for namespace, name, spent in rows
    ]
    timed = [Column("seconds", "in the kernel, over all cases")] if is_timed else []
    columns: list[Column | str] = ["namespace", "operation", "FLOPs", "share", "calls", *timed]
    return Table(columns, cells, "All operations, over all cases. Click on a column's name to sort by it.")


def percent(share: float) -> Cell:
    """A share that sorts as a number."""
    return Cell(f"{share:.2%}", share)
