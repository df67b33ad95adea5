"""The README's result table: every bundled estimator on every shipped suite.

python benchmarks/results.py            # prints Markdown; about two minutes on two cores
"""

from pathlib import Path
from tempfile import mkdtemp

from whest.api import compose, score
from whest.console import plus_minus
from whest.report import Report

ROUNDS = ("warmup", "phase1", "phase2")
ESTIMATORS = ("zeros", "random", "mean_prop", "cov_prop", "monte_carlo")


def run(round_name: str, estimator: str) -> Report:
    config = compose(f"round={round_name}", f"estimator={estimator}", "tracking=none")
    return score(config, Path(mkdtemp(prefix="whest-results-")))


def row(round_name: str, report: Report) -> str:
    suite = report.score
    flops = sum(case.prediction.cost.flops for case in report.cases) / len(report.cases)
    ratio = "–" if suite.ratio_to_sampling is None else f"{suite.ratio_to_sampling:.3g}"
    cells = [
        round_name,
        f"`{report.config['estimator']['name']}`",
        plus_minus(suite.score, suite.adjusted_final_layer_score_se),
        f"{suite.final_layer_mse:.3g}",
        f"{suite.final_layer_mse_corrected:.3g}",
        f"{flops:.3g}",
        f"{suite.mean_compute_utilization:.2%}",
        ratio,
        str(len(report.cases)),
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    print(
        "| round | estimator | score ± SE | final-layer MSE | less truth's noise | FLOPs | C/B | vs sampling | MLPs |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for round_name in ROUNDS:
        for estimator in ESTIMATORS:
            print(row(round_name, run(round_name, estimator)), flush=True)


if __name__ == "__main__":
    main()
