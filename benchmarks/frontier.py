"""The results: every bundled estimator on every shipped suite, as a table and as a picture.

    python benchmarks/frontier.py                        # everything; writes docs/results.md and docs/frontier.png
    python benchmarks/frontier.py warmup phase1          # some rounds
    python benchmarks/frontier.py phase2 estimator=cov_prop estimator=third_cumulant
    python benchmarks/frontier.py keep                   # reuse the reports in outputs/frontier
    python benchmarks/frontier.py picture                # draw docs/frontier.png again, from docs/results.md

The score is final-layer MSE × max(0.1, C/B), mean over MLPs ± standard error. In *corrected*, the truth's own noise is
subtracted; rows of a round are sorted by it. The printed table is the README's: of each round the baselines and the
best, and in warmup `third_cumulant` too. The files in docs/ are written only if all estimators and rounds are run.
"""

import json
import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from whest.api import score
from whest.config.compose import compose, config_folder
from whest.document import Json
from whest.estimator.spec import estimator_spec
from whest.notation import plus_minus
from whest.page.palette import ACCENT, INK, MUTED

ROUNDS = ("warmup", "phase1", "phase2")
PICTURE, TABLE = Path("docs/frontier.png"), Path("docs/results.md")
WORTH_DRAWING, LINE = 1e-2, 0.056
"""The largest error that is drawn: zeros and random would compress the scale. The height of a label, as a share of the
picture's."""
LEGEND: tuple[tuple[dict[str, Any], str], ...] = (
    ({"color": ACCENT, "marker": "o", "markersize": 4}, "Pareto front: nothing is more accurate for no more FLOPs"),
    ({"color": ACCENT, "marker": "o", "markersize": 8, "linestyle": ""}, "best score"),
    ({"color": INK, "marker": "o", "markersize": 4, "linestyle": ""}, "not on the front"),
    ({"color": MUTED, "linewidth": 0.8}, "equal scores, MSE · max(0.1, C/B); each line has ten times the one below"),
    ({"color": MUTED, "linestyle": ":"}, "a tenth of the budget"),
)
BASELINES, ALSO_IN_README = ("monte_carlo", "cov_prop"), {"warmup": "third_cumulant"}
KEPT = Path("outputs/frontier")
HEADINGS = (
    "round", "estimator", "corrected score ± SE", "score ± SE", "final-layer MSE", "FLOPs", "C/B", "vs sampling",
    "s per MLP", "MLPs",
)  # fmt: skip
README_HEADINGS = tuple(heading for heading in HEADINGS if heading != "score ± SE")

DOCUMENT = """# Every bundled estimator on every shipped suite

Made by `make bench` (`python benchmarks/frontier.py`). The best of each round is last. The score is final-layer MSE ×
max(0.1, C/B): the mean over MLPs, with its standard error. In *corrected*, the truth's own noise is subtracted. *vs
sampling* is the ratio to the score of plain sampling with the same compute; below 1 is better. If an estimator cannot
pay for itself at a shape, it falls back to a cheaper one and has the figures of that one. Seconds are those of two
shared cores and depend on the machine.

![Error against FLOPs](frontier.png)

The picture has a panel per round. The blue stairs are the Pareto front: no estimator is more accurate for no more
FLOPs. Grey lines join equal scores; they bend at a tenth of the budget. Errors above 0.01 are not drawn.

{table}

References: {references}. In every round another estimator is more accurate for no more FLOPs. They stay because readers
begin with them, or because a better one is built from them. [frontier.md](frontier.md) says what each idea gave.
"""


@dataclass(frozen=True)
class Result:
    """One estimator on one suite."""

    round: str
    estimator: str
    report: Json
    """The content of report.json."""

    @property
    def suite(self) -> Json:
        found: Json = self.report["results"]
        return found

    def each(self, name: str) -> list[float]:
        return [mlp[name] for mlp in self.suite["per_mlp"]]

    @property
    def corrected(self) -> list[float]:
        """Each MLP's score without the truth's own noise."""
        parts = zip(
            self.each("final_layer_mse"), self.each("truth_floor_mse"), self.each("score_multiplier"), strict=True
        )
        return [(mse - floor) * multiplier for mse, floor, multiplier in parts]

    @property
    def corrected_mean(self) -> float:
        return statistics.fmean(self.corrected)

    @property
    def flops(self) -> float:
        return statistics.fmean(self.each("flops_used"))

    @property
    def mse(self) -> float:
        return self.suite["final_layer_mse_corrected"] or math.nan


def words(round_name: str, estimator: str) -> list[str]:
    """The best method of a round has the knobs of its experiment, `frontier_ROUND`."""
    plain, best = [f"round={round_name}", f"estimator={estimator}"], [f"experiment=frontier_{round_name}"]
    targets = {compose(*choice)["estimator"]["_target_"] for choice in (plain, best)}
    return best if len(targets) == 1 else plain


def run(round_name: str, estimator: str, keep: bool) -> Result:
    folder = KEPT / round_name / estimator
    if not (keep and (folder / "report.json").exists()):
        folder.mkdir(parents=True, exist_ok=True)
        score(compose(*words(round_name, estimator), "tracking=none"), folder)
    return Result(round_name, estimator, json.loads((folder / "report.json").read_text()))


def row(result: Result, headings: Sequence[str]) -> str:
    suite, n = result.suite, len(result.corrected)
    ratio = suite["ratio_to_sampling"]
    cells = [
        result.round,
        f"`{result.estimator}`",
        plus_minus(result.corrected_mean, statistics.stdev(result.corrected) / math.sqrt(n)),
        plus_minus(suite["score"], suite["adjusted_final_layer_score_se"]),
        f"{suite['final_layer_mse']:.3g}",
        f"{result.flops:.3g}",
        f"{suite['mean_compute_utilization']:.2%}",
        "–" if ratio is None else f"{ratio:.3g}",
        f"{statistics.fmean(result.each('wall_time_s')):.3g}",
        str(n),
    ]
    by_heading = dict(zip(HEADINGS, cells, strict=True))
    return f"| {' | '.join(by_heading[heading] for heading in headings)} |"


def table(results: Sequence[Result], headings: Sequence[str] = HEADINGS) -> str:
    rows = [row(result, headings) for result in results]
    return "\n".join([f"| {' | '.join(headings)} |\n|{'---|' * len(headings)}", *rows])


def in_readme(ranked: Sequence[Result]) -> list[Result]:
    """The rows of one round that the README shows; the best is last in `ranked`."""
    shown = {*BASELINES, ALSO_IN_README.get(ranked[0].round), ranked[-1].estimator}
    return [result for result in ranked if result.estimator in shown]


def references(results: Sequence[Result]) -> list[str]:
    """The estimators for which, in every round, another one is more accurate for no more FLOPs."""
    beaten = {result.estimator: 0 for result in results}
    for one in results:
        others = (other for other in results if other.round == one.round and other.flops <= one.flops)
        beaten[one.estimator] += any(other.mse < one.mse for other in others)
    return [name for name, rounds in beaten.items() if rounds == len(ROUNDS)]


class Point(NamedTuple):
    """One estimator in the picture."""

    round: str
    estimator: str
    flops: float
    mse: float
    """Without the truth's noise, as the score."""
    score: float


def point(result: Result) -> Point:
    return Point(result.round, result.estimator, result.flops, result.mse, result.corrected_mean)


def points_of(document: str) -> list[Point]:
    """The points of the table in docs/results.md."""
    found = []
    for line in document.splitlines():
        cells = dict(zip(HEADINGS, line.strip("| ").split(" | "), strict=False))
        if cells["round"] in ROUNDS:
            score, share = float(cells[HEADINGS[2]].split()[0]), float(cells["C/B"].rstrip("%")) / 100
            mse = score / max(0.1, share)
            found.append(Point(cells["round"], cells["estimator"].strip("`"), float(cells["FLOPs"]), mse, score))
    return found


def front(points: Sequence[Point]) -> list[Point]:
    """The points that no other one beats in error and FLOPs, by rising FLOPs and falling error."""
    kept: list[Point] = []
    for one in sorted(points, key=lambda p: (p.flops, p.mse)):
        if not kept or one.mse < kept[-1].mse:
            kept.append(one)
    return kept


def draw(points: Sequence[Point], path: Path) -> None:
    """Error against FLOPs, one panel per round."""
    rounds = list(dict.fromkeys(point.round for point in points))
    figure = Figure(figsize=(5.2 * len(rounds), 5.0), layout="constrained")
    for place, round_name in enumerate(rounds, start=1):
        axes = figure.add_subplot(1, len(rounds), place)
        budget = float(compose(f"round={round_name}")["budget"])
        draw_round(axes, [point for point in points if point.round == round_name], budget)
    lines = [Line2D([], [], **style) for style, _ in LEGEND]
    figure.legend(lines, [words for _, words in LEGEND], loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)


def draw_round(axes: Axes, points: Sequence[Point], budget: float) -> None:
    shown = sorted((p for p in points if 0 < p.mse < WORTH_DRAWING and p.flops > 0), key=lambda p: p.mse)
    low, high = 0.25 * shown[0].mse, 3 * shown[-1].mse
    left, right = 0.02 * min(p.flops for p in shown), 1.5 * budget
    best, best_ones = min(shown, key=lambda p: p.score), front(shown)
    draw_scores(axes, best.score, budget, (left, right))
    steps = [*best_ones, best_ones[-1]._replace(flops=right)]
    x, y = [p.flops for p in steps], [p.mse for p in steps]
    axes.step([x[0], *x], [high, *y], where="post", color=ACCENT, linewidth=1.4, zorder=2)
    axes.scatter([p.flops for p in shown], [p.mse for p in shown], color=INK, s=16, zorder=3)
    axes.scatter(x[:-1], y[:-1], color=ACCENT, s=22, zorder=4)
    axes.scatter(best.flops, best.mse, color=ACCENT, s=75, zorder=4)
    axes.axvline(0.1 * budget, color=MUTED, linestyle=":", linewidth=1)
    others = [p for p in shown if p not in best_ones]

    def height(one: Point) -> float:
        return math.log(one.mse / low) / math.log(high / low)

    def name(one: Point, place: tuple[float, float], is_on_front: bool) -> None:
        axes.annotate(
            one.estimator,
            (one.flops, one.mse),
            xytext=place,
            textcoords="axes fraction",
            fontsize=9,
            fontweight="bold" if one is best else None,
            ha="right" if is_on_front else "left",
            va="center",
            color=ACCENT if is_on_front else INK,
            arrowprops={"arrowstyle": "-", "color": ACCENT if is_on_front else MUTED, "linewidth": 0.5, "shrinkB": 3},
        )

    for one, y_label in zip(others, spread([height(p) for p in others]), strict=True):
        name(one, (1.03, y_label), is_on_front=False)
    for one, y_label in zip(best_ones, lowered([height(p) - 0.02 for p in best_ones]), strict=True):
        across = math.log(one.flops / left) / math.log(right / left)
        name(one, (across - 0.035, y_label), is_on_front=True)
    axes.set(
        xscale="log",
        yscale="log",
        xlim=(left, right),
        ylim=(low, high),
        xlabel="FLOPs",
        ylabel="final-layer MSE, truth's noise subtracted",
        title=f"{best.round}: best score {best.score:.2e} with {best.estimator}",
    )
    axes.spines[["top", "right"]].set_visible(False)


def draw_scores(axes: Axes, best: float, budget: float, ends: tuple[float, float]) -> None:
    """Lines of equal score: level up to a tenth of the budget, then falling as the multiplier C/B grows."""
    left, right = ends
    flops = [left, 0.1 * budget, right]
    for power in range(0, 8):
        level = best * 10**power
        errors = [level / max(0.1, f / budget) for f in flops]
        axes.plot(flops, errors, color=MUTED, linewidth=1 if power == 0 else 0.5, zorder=0)
        axes.annotate(
            f"{level:.1e}", (left, errors[0]), xytext=(2, 2), textcoords="offset points", fontsize=7, color=MUTED,
            annotation_clip=True,
        )  # fmt: skip


def answers_mlps(name: str) -> bool:
    """Whether it predicts the means of MLPs; learners of bytes do not."""
    return hasattr(estimator_spec(compose(f"estimator={name}")["estimator"]).create(), "predict")


def lowered(heights: Sequence[float]) -> list[float]:
    """Falling heights, each at most its own and a line of text below the one before."""
    placed: list[float] = []
    for height in heights:
        placed.append(min(height, placed[-1] - LINE) if placed else height)
    return placed


def spread(heights: Sequence[float]) -> list[float]:
    """Heights of the labels: rising, at least one line of text apart, and as near to their points as possible."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + LINE) if placed else height)
    for i in reversed(range(len(placed))):
        highest = 1.0 if i == len(placed) - 1 else placed[i + 1] - LINE
        placed[i] = min(placed[i], highest)
    return placed


def main() -> None:
    if "picture" in sys.argv:
        draw(points_of(TABLE.read_text()), PICTURE)
        return
    named = [path for path in sorted((config_folder() / "estimator").glob("*.yaml")) if "_target_" in path.read_text()]
    bundled = [path.stem for path in named if answers_mlps(path.stem)]
    asked = [word.partition("=")[2] for word in sys.argv[1:] if word.startswith("estimator=")]
    rounds = [word for word in sys.argv[1:] if word in ROUNDS] or ROUNDS
    results = []
    for round_name in rounds:
        for estimator in asked or bundled:
            print(f"{round_name} {estimator}", file=sys.stderr, flush=True)
            results.append(run(round_name, estimator, "keep" in sys.argv))
    by_score = [sorted((r for r in results if r.round == name), key=lambda r: -r.corrected_mean) for name in rounds]
    if asked or len(rounds) < len(ROUNDS):
        print(table([result for ranked in by_score for result in ranked]))
        return
    print(table([result for ranked in by_score for result in in_readme(ranked)], README_HEADINGS))
    draw([point(result) for result in results], PICTURE)
    whole = table([result for ranked in by_score for result in ranked])
    TABLE.write_text(DOCUMENT.format(table=whole, references=", ".join(f"`{name}`" for name in references(results))))
    print(f"\n{PICTURE}, {TABLE}", file=sys.stderr)


if __name__ == "__main__":
    main()
