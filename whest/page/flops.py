"""The FLOPs on a page: by namespace, by operation, and all operations in a table."""

from collections.abc import Mapping, Sequence

from whest.document import Json
from whest.page.blocks import Block, Cell, Column, Picture, Table, Text
from whest.page.charts import literal, new_figure
from whest.page.drawing import draw_shares
from whest.page.palette import SERIES

SHOWN_BARS = 7


def operations_of(results: Json) -> list[tuple[str, str, Json]]:
    """Namespace, operation and its cost over all cases, the largest first."""
    spaces = results["breakdowns"]["estimator"]["by_namespace"]
    rows = [
        (namespace.removeprefix("estimator."), name, spent)
        for namespace, space in spaces.items()
        for name, spent in space["operations"].items()
    ]
    return sorted(rows, key=lambda row: -row[2]["flops_used"])


def flop_blocks(results: Json, n_shares: int, label: str) -> list[Block]:
    """Two charts and a table. Charts divide each figure by `n_shares`; the label names the unit, "FLOPs per MLP"."""
    rows, total = operations_of(results), results["breakdowns"]["estimator"]["flops_used"]
    if not total:
        return [Text("No operation of this run costs FLOPs.")]
    spaces: dict[str, float] = {}
    for namespace, _, spent in rows:
        spaces[namespace] = spaces.get(namespace, 0) + spent["flops_used"]
    colours = {namespace: SERIES[i % len(SERIES)] for i, namespace in enumerate(spaces)}
    by_space = [(name, name, flops) for name, flops in sorted(spaces.items(), key=lambda item: -item[1])]
    by_operation = [(f"{name}  ({space})", space, spent["flops_used"]) for space, name, spent in rows]
    return [
        _share_picture("namespace", by_space, total / n_shares, n_shares, colours, label),
        _share_picture("operation", by_operation, total / n_shares, n_shares, colours, label),
        _operation_table(rows, total),
    ]


def _share_picture(
    by: str, rows: Sequence[tuple[str, str, float]], total: float, n: int, colours: Mapping[str, str], label: str
) -> Picture:
    """A chart of bars. Each row has a name, a namespace and its FLOPs over all cases."""
    costly = [(name, space, spent / n) for name, space, spent in rows if spent]
    dear = costly[:SHOWN_BARS]
    chart, axes = new_figure()
    flops = [(literal(name, 34), spent) for name, _, spent in dear]
    draw_shares(axes, flops, total, [colours[space] for _, space, _ in dear], label)
    listed = ", ".join(f"{name} {spent / total:.1%}" for name, _, spent in dear[:3])
    those = f", the {len(dear)} largest of {len(costly)}" if len(dear) < len(costly) else ""
    colour = "; one colour per namespace" if by == "operation" else ""
    return Picture(chart, f"{label} by {by}: {listed}.", f"By {by}{those}{colour}.")


def _operation_table(rows: Sequence[tuple[str, str, Json]], total: float) -> Table:
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
