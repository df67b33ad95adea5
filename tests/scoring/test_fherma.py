"""FHERMA's rule: its published vectors, its laws, and a whole run under it, from the command line to the board."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from tests.support.places import CONF
from whest.cases.prediction import Failure, Prediction
from whest.cases.whitebox import WhiteboxCase
from whest.config.build import build_target
from whest.cost import Charge, Cost, Timing
from whest.errors import ConfigError
from whest.limits import Limits
from whest.scoring.fherma import FhermaRule, FhermaScore, Tally, summarise
from whest.tracking.recorded import find_runs, read_report
from whest.truth.truth import Truth

pytestmark = [
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning"),  # MLflow's
    pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes:DeprecationWarning"),  # MLflow's
]

Whest = Callable[..., Any]
CHOICE = CONF / "scoring" / "fherma.yaml"
steady = settings(deadline=None, derandomize=True)
LIMITS = Limits(1000.0, 0.0, 60.0, None)


def shipped(**more: Any) -> FhermaRule:
    node = OmegaConf.to_container(OmegaConf.load(CHOICE))
    assert isinstance(node, dict)
    values = {str(key): value for key, value in node.items() if key != "_target_"}
    rule: FhermaRule = build_target(FhermaRule, values | more, "scoring")
    return rule


RULE = shipped()


def make_case(errors: list[float] | None, wall: float = 0.0, flops: int = 1, failure: Failure | None = None) -> Any:
    """An MLP of one layer whose prediction misses by these errors."""
    truth = Truth(np.ones((1, 4), np.float32), np.zeros((1, 4), np.float32), 1.0, 100)
    means = None if errors is None else (1 + np.array([errors])).astype(np.float32)
    cost = Cost((Charge("", "dot_general", flops, 1),))
    return WhiteboxCase(0, "x", truth, Prediction(means, cost, Timing(backend_time_s=wall), failure), None)


def score(*cases: Any, rule: FhermaRule = RULE) -> FhermaScore:
    return rule.score(cases, LIMITS, 10.0)


RIGHT, HALF = [0.0, 0.009, -0.009, 0.0], [0.0, 0.5, -0.5, 0.005]
FAILED = make_case(None, failure=Failure("PREDICT_ERROR", "no"))

# --- vectors ---


@pytest.mark.parametrize(
    ("accuracy", "failure_rate", "time_s", "expected"),
    [
        (95, 0, 10, 942.806314),
        (95, 0, 1000, 929.273736),
        (95, 0.1, 10, 687.305803),
        (100, 0.25, 0, 421.875),
        (95, 1, 10, 0),
        (0, 0, 10, -7.193686),
        (100, 0, 0, 1000),
    ],
)
def test_published_vectors(accuracy: float, failure_rate: float, time_s: float, expected: float) -> None:
    assert RULE.formula(accuracy, failure_rate, time_s) == pytest.approx(expected, abs=5e-7)


def test_accuracy_counts_final_layer_neurons_of_the_cases_that_answered() -> None:
    suite = score(make_case(RIGHT), make_case(HALF), FAILED, make_case(RIGHT, wall=61.0))
    assert suite.accuracy == 75
    assert suite.failure_rate == 0.5
    assert [case.accuracy for case in suite.cases] == [100, 50, None, None]
    assert suite.n_failed_mlps == 2
    assert suite.score == pytest.approx(RULE.formula(75, 0.5, 61 / 4))
    assert suite.direction == "higher"


def test_the_tolerance_is_not_within_itself() -> None:
    rule = shipped(tolerance=0.5)
    assert score(make_case([0.5, -0.5, 0.25, 0.0]), rule=rule).accuracy == 50


def test_a_program_refused_for_its_price_fails_and_takes_no_time() -> None:
    refused = make_case(None, flops=2000)
    assert refused.prediction.refused
    suite = score(make_case(RIGHT, wall=4.0), refused)
    assert (suite.failure_rate, suite.mean_wall_time_s) == (0.5, 4.0)
    assert score(refused).score == 0


def test_nothing_finished_is_no_score_and_one_case_has_no_error() -> None:
    assert score().score is None
    assert score(make_case(RIGHT)).score_se is None


def test_the_error_is_the_means_own_where_the_score_is_a_mean() -> None:
    """Without terms for time and failures the score is a mean, and the jackknife gives its standard error."""
    suite = score(*(make_case(errors) for errors in (RIGHT, HALF, HALF, RIGHT, RIGHT)), rule=shipped(time_weight=0))
    points = [1000, 500, 500, 1000, 1000]
    assert suite.score == pytest.approx(np.mean(points))
    assert suite.score_se == pytest.approx(np.std(points, ddof=1) / math.sqrt(5))


# --- laws ---

percents, shares, seconds = st.floats(0, 100), st.floats(0, 1), st.floats(0, 1e6)


@steady
@given(percents, shares, seconds)
def test_the_score_is_bounded(accuracy: float, failure_rate: float, time_s: float) -> None:
    found = RULE.formula(accuracy, failure_rate, time_s)
    assert -RULE.time_deduction(time_s) <= found <= 10 * accuracy <= 1000
    assert RULE.formula(accuracy, 1, time_s) == 0


@steady
@given(percents, percents, shares, seconds)
def test_more_accuracy_never_lowers_it(low: float, high: float, failure_rate: float, time_s: float) -> None:
    low, high = sorted((low, high))
    assert RULE.formula(low, failure_rate, time_s) <= RULE.formula(high, failure_rate, time_s)


@steady
@given(percents, shares, seconds, seconds)
def test_more_time_never_raises_it(accuracy: float, failure_rate: float, short: float, long: float) -> None:
    short, long = sorted((short, long))
    assert RULE.formula(accuracy, failure_rate, long) <= RULE.formula(accuracy, failure_rate, short)


@steady
@given(percents, shares, shares, seconds)
def test_more_failures_bring_it_nearer_to_nothing(accuracy: float, few: float, many: float, time_s: float) -> None:
    few, many = sorted((few, many))
    assert abs(RULE.formula(accuracy, many, time_s)) <= abs(RULE.formula(accuracy, few, time_s))


tallies = st.builds(Tally, accuracy=st.none() | percents, attempted=st.booleans(), wall_time_s=seconds)


@steady
@given(st.lists(tallies, min_size=1, max_size=8), st.randoms())
def test_the_order_of_cases_has_no_part_in_it(cases: list[Tally], random: Any) -> None:
    mixed = random.sample(cases, len(cases))
    assert RULE.score_tallies(mixed) == pytest.approx(RULE.score_tallies(cases), rel=1e-9, abs=1e-9)
    accuracy, failure_rate, time_s = summarise(cases)
    assert 0 <= accuracy <= 100
    assert 0 <= failure_rate <= 1
    assert time_s >= 0


# --- constants ---


@pytest.mark.parametrize(
    ("key", "value"),
    [("accuracy_scale", 0), ("failure_power", 0), ("time_weight", -1), ("time_scale", -1), ("tolerance", 0)],
)
def test_a_constant_out_of_range_is_refused(key: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"scoring.{key} must be greater than"):
        shipped(**{key: value})


def test_every_constant_has_a_part() -> None:
    base = RULE.formula(80, 0.2, 5)
    for key in ("accuracy_scale", "failure_power", "time_weight", "time_scale"):
        assert shipped(**{key: 7}).formula(80, 0.2, 5) != base


# --- a whole run ---


def test_a_run_is_reported_tracked_and_ranked(whest: Whest, outputs: Path) -> None:
    from mlflow import MlflowClient

    words = ("experiment=fherma", "debug=tiny", "truth=plain", "truth.n_samples=2000", "tracking=mlflow")
    outcome = whest(*words, "estimator=mean_prop", "participant=ada", "scoring.tolerance=0.2", "show_mlps=true")
    assert outcome.exit_code == 0, outcome.err
    for said in ("higher is better", "accuracy", "of final-layer neurons", "mean wall time"):
        assert said in outcome.out
    results = outcome.report["results"]
    assert results["score"] == pytest.approx(10 * results["accuracy"] - 3 * math.log1p(results["mean_wall_time_s"]))
    assert 0 < results["accuracy"] <= 100
    assert results["final_layer_mse"] > 0
    assert "adjusted_final_layer_score" not in results
    assert outcome.report["run_config"]["scoring"]["tolerance"] == 0.2
    assert read_report(outcome.folder).problem is None
    assert (outcome.folder / "report.html").exists()

    zeros = whest(*words, "estimator=zeros", "participant=bob", "scoring.tolerance=0.2", f"hydra.run.dir={outputs}/b")
    assert zeros.exit_code == 0, zeros.err
    client = MlflowClient(f"sqlite:///{outputs / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("whest")
    assert experiment is not None
    runs = {run.participant: run for run in find_runs(client, [experiment.experiment_id])}
    assert {name: run.problem for name, run in runs.items()} == {"ada": None, "bob": None}
    assert client.get_run(runs["ada"].run_id).data.metrics["accuracy"] == results["accuracy"]
    solution = "judge.solution=https://example.org/how"
    judged = whest("job=judge", f"judge.run={runs['ada'].run_id}", "judge.verdict=reviewed", solution)
    assert judged.exit_code == 0, judged.err

    board = whest("job=leaderboard", "leaderboard=fherma")
    assert board.exit_code == 0, board.err
    rows = json.loads((outputs / "leaderboards" / "fherma" / "board.json").read_text())["rows"]
    assert [(row["rank"], row["participant"], row["status"]) for row in rows] == [
        (1, "ada", "reviewed"),
        (2, "bob", "preliminary"),
    ]
    assert rows[0]["note"] == "solution: https://example.org/how"
