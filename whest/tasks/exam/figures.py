"""Pictures of an exam run, drawn from its report.json."""

from typing import TYPE_CHECKING

from whest.document import Json
from whest.page.drawing import literal
from whest.page.palette import ACCENT, ALARM, INK, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_families(axes: "Axes", results: Json) -> None:
    """The share of right answers by family, the best on top."""
    families = results["families"]
    names = sorted(families, key=lambda name: families[name]["right"] / families[name]["asked"])
    shares = [100 * families[name]["right"] / families[name]["asked"] for name in names]
    bars = axes.barh([literal(name, 24) for name in names], shares, color=ACCENT, height=0.6)
    counts = [f"{families[name]['right']} of {families[name]['asked']}" for name in names]
    axes.bar_label(bars, counts, padding=4, color=INK)
    axes.grid(visible=False, axis="y")
    axes.set(xlabel="right answers (%)", xlim=(0, 118))


def draw_losses(axes: "Axes", results: Json) -> None:
    """Bits per byte of batches before their update. Dashed lines are candidates; the solid one was graded."""
    steps, bits = zip(*results["training"]["losses"], strict=True)
    axes.plot(steps, bits, color=ACCENT, marker=".", markersize=3, linewidth=1)
    for event in results["training"]["history"]:
        if event["event"] == "candidate":
            is_graded = event["number"] == results["promoted"]
            axes.axvline(
                event["steps"],
                color=ALARM if is_graded else MUTED,
                linewidth=1,
                linestyle="-" if is_graded else "--",
                label="graded candidate" if is_graded else None,
            )
    axes.set(xlabel="update", ylabel="bits per byte of training text")
    axes.set_ylim(bottom=0)
    if results["promoted"] is not None:
        axes.legend(frameon=False)
