"""One program's FLOPs by each price list, as rows and as JSON."""

from whest.cost import Cost
from whest.document import Json
from whest.notation import figure

COUNTS = "F makes the score. The other lists are for comparison; docs/prices.md says how each can be gamed."


def count_rows(cost: Cost) -> list[tuple[str, str, str]]:
    """A list's name, its figure and a remark each."""
    blind = f"counts 0 for {', '.join(cost.xla_unknown)}" if cost.xla_unknown else "each operation lowered alone"
    rows = [("F", figure(cost.flops), "the list that makes the score")]
    if cost.flops_xla is not None:
        rows.append(("XLA", figure(cost.flops_xla), f"{_ratio(cost.flops_xla, cost.flops)}, {blind}"))
    if cost.flops_peer is not None:
        ratio = _ratio(cost.flops_peer, cost.flops)
        rows.append(("flopscope", figure(cost.flops_peer), f"{ratio}, the peer's prices for the same program"))
    elif cost.peer_unpriced:
        rows.append(("flopscope", "–", f"no price for {', '.join(cost.peer_unpriced)}"))
    return rows


def count_json(cost: Cost) -> Json:
    return {
        "flops_used": cost.flops,
        "flops_xla": cost.flops_xla,
        "xla_unknown": list(cost.xla_unknown),
        "flops_flopscope": cost.flops_peer,
        "flopscope_unpriced": list(cost.peer_unpriced),
    }


def _ratio(theirs: float, ours: float) -> str:
    return f"{theirs / ours:.3g} × F" if ours else "F is 0"
