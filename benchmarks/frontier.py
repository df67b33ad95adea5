"""The results: every bundled estimator on every shipped suite, as a table and as a picture.

    python benchmarks/frontier.py                        # everything; writes docs/results.md and docs/frontier.png
    python benchmarks/frontier.py warmup phase1          # some rounds
    python benchmarks/frontier.py phase2 estimator=cov_prop estimator=third_cumulant
    python benchmarks/frontier.py keep                   # reuse the reports in outputs/frontier

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

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whest.api import score
from whest.config.compose import compose, config_folder
from whest.document import Json
from whest.estimator.spec import estimator_spec
from whest.notation import plus_minus
from whest.page.palette import ACCENT, GRID, INK, MUTED

ROUNDS = ("warmup", "phase1", "phase2")
PICTURE, TABLE = Path("docs/frontier.png"), Path("docs/results.md")
WORTH_DRAWING, LINE = 1e-2, 0.055
"""The largest error that is drawn: zeros and random would compress the scale. The height of a label, as a share of the
picture's."""
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


def draw(results: Sequence[Result], path: Path) -> None:
    """Error against FLOPs, one panel per round. Lines of equal score bend at a tenth of the budget."""
    rounds = list(dict.fromkeys(result.round for result in results))
    figure = Figure(figsize=(5.6 * len(rounds), 4.8), layout="constrained")
    for place, round_name in enumerate(rounds, start=1):
        axes = figure.add_subplot(1, len(rounds), place)
        draw_round(axes, [result for result in results if result.round == round_name])
    figure.savefig(path, dpi=110)


def draw_round(axes: Axes, results: Sequence[Result]) -> None:
    shown = sorted((r for r in results if 0 < r.mse < WORTH_DRAWING and r.flops > 0), key=lambda r: r.mse)
    budget = float(results[0].report["run_config"]["flop_budget"])
    first = min(shown, key=lambda result: result.corrected_mean)
    best = first.corrected_mean
    flops = [1e-5 * budget, 0.1 * budget, budget]
    for power in range(0, 7):
        level = best * 10**power
        axes.plot(flops, [level / max(0.1, f / budget) for f in flops], color=MUTED, linewidth=0.6, zorder=0)
    low, high = 0.3 * min(result.mse for result in shown), 3 * max(result.mse for result in shown)
    heights = [math.log(result.mse / low) / math.log(high / low) for result in shown]
    for result, height in zip(shown, spread(heights), strict=True):
        is_best = result is first
        axes.scatter(result.flops, result.mse, color=ACCENT if is_best else INK, s=36 if is_best else 18)
        axes.annotate(
            result.estimator,
            (result.flops, result.mse),
            xytext=(1.04, height),
            textcoords="axes fraction",
            fontsize=8,
            va="center",
            color=ACCENT if is_best else INK,
            arrowprops={"arrowstyle": "-", "color": GRID, "linewidth": 0.7},
        )
    axes.axvline(0.1 * budget, color=MUTED, linestyle=":", linewidth=1)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="FLOPs (dotted: a tenth of the budget)",
        ylabel="final-layer MSE, truth's noise subtracted",
        ylim=(low, high),
        title=f"{first.round}: best {best:.2e} with {first.estimator}",
    )
    axes.spines[["top", "right"]].set_visible(False)


def answers_mlps(name: str) -> bool:
    """Whether it predicts the means of MLPs; learners of bytes do not."""
    return hasattr(estimator_spec(compose(f"estimator={name}")["estimator"]).create(), "predict")


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
    draw(results, PICTURE)
    whole = table([result for ranked in by_score for result in ranked])
    TABLE.write_text(DOCUMENT.format(table=whole, references=", ".join(f"`{name}`" for name in references(results))))
    print(f"\n{PICTURE}, {TABLE}", file=sys.stderr)


if __name__ == "__main__":
    main()
