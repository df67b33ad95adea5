"""`job=explain`: where an error comes from, in text, JSON and on a page."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Whest = Callable[..., Any]
TINY = ("job=explain", "debug=tiny", "truth=plain", "dataset.n_mlps=3", "seed=1")


def test_an_error_is_split_by_layer_neuron_network_and_seed(whest: Whest) -> None:
    words = ("estimator=monte_carlo", "budget=1e5", "explain.seeds=[0,1,2]")
    outcome = whest(*TINY, *words)
    assert outcome.exit_code == 0, outcome.err
    found = json.loads((outcome.folder / "explanation.json").read_text())
    assert len(found["by_layer"]) == 3
    assert sum(found["by_layer"]) == pytest.approx(1)
    assert sum(found["by_kind"].values()) == pytest.approx(1)
    assert found["final_layer_mse"] == pytest.approx(sum(mlp["mse"] for mlp in found["mlps"]) / 3)
    assert found["bias_and_noise"]["n_seeds"] == 3
    assert found["bias_and_noise"]["noise"] > 0
    assert found["champion"] is None
    for part in (
        "by origin",
        "by neuron",
        "floor of truth",
        "hardest MLPs",
        "3 seeds bias²",
        "plain sampling",
    ):
        assert part in outcome.out
    page = (outcome.folder / "explanation.html").read_text()
    assert "By layer of origin" in page
    assert "which averages out" in page
    assert not (outcome.folder / "report.json").exists()


def test_true_moments_are_put_into_an_estimator_that_takes_them(whest: Whest) -> None:
    outcome = whest(*TINY, "estimator=cov_prop", "truth.moment_samples=4096")
    assert outcome.exit_code == 0, outcome.err
    found = json.loads((outcome.folder / "explanation.json").read_text())
    left = found["with_true_moments"]
    assert left["n_moment_samples"] == 4096
    assert [row["layer"] for row in left["by_layer"]] == [1, 2]
    assert all(row["mse_left"] > 0 and row["share_se"] > 0 for row in left["by_layer"])
    assert left["by_layer"][0]["share"] == pytest.approx(
        left["by_layer"][0]["mse_left"] / found["final_layer_mse"], rel=1e-6
    )
    assert {one["outcome"] for one in found["by_compute"]} == {"same compute"}
    assert "left with truth  1: " in outcome.out
    assert "buys nothing: its compute does not follow the budget" in outcome.out
    page = (outcome.folder / "explanation.html").read_text()
    assert "With true moments" in page
    assert "What the next FLOP buys" in page


def test_the_next_flop_of_a_sampler_buys_samples(whest: Whest) -> None:
    """Twice the samples, at the multiplier's floor: about half the score. Above the budget there is none."""
    words = ("estimator=monte_carlo", "estimator.budget_fraction=0.02", "budget=5e6", "dataset.n_mlps=12")
    outcome = whest(*TINY, *words, "explain.compute=[0.5,2,60]")
    assert outcome.exit_code == 0, outcome.err
    found = json.loads((outcome.folder / "explanation.json").read_text())
    assert found["with_true_moments"] is None
    half, twice, beyond = found["by_compute"]
    assert half["compute"] == pytest.approx(0.5, rel=0.1)
    assert twice["compute"] == pytest.approx(2, rel=0.1)
    for one in (half, twice):
        low, high = one["ratio_interval"]
        assert low <= one["ratio"] <= high
        assert one["is_resolved"] == (not low <= 1 <= high)
        assert one["difference_se"] > 0
    assert twice["ratio"] < 1 < half["ratio"]
    assert beyond["outcome"] == "over a limit"
    assert beyond["score"] is None
    for part in ("0.5 × the compute", "2 × the compute", "over a limit, no score", "has no predict_from"):
        assert part in outcome.out


def test_a_strangers_code_never_gets_the_moments(whest: Whest, tmp_path: Path) -> None:
    """They are the answers: an estimator in a worker is explained by its means alone."""
    told = tmp_path / "told"
    mine = tmp_path / "mine.py"
    mine.write_text(
        "import jax.numpy as jnp\n"
        "class Estimator:\n"
        "    def predict(self, mlp, budget):\n"
        "        return jnp.zeros((mlp.depth, mlp.width))\n"
        "    def predict_from(self, weights, mean, covariance):\n"
        f"        open({str(told)!r}, 'w').write('x')\n"
        "        return jnp.zeros(weights.shape[:2])\n"
    )
    outcome = whest(*TINY, "isolation.require=[]", "isolation=process", "estimator=file", f"estimator.path={mine}")
    assert outcome.exit_code == 0, outcome.err
    assert "these moments are the answers" in outcome.out
    assert not told.exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("estimator=cov_prop", "explain.seeds=[1]"), "explain.seeds=[1]: bias and noise need two seeds"),
        (("estimator=cov_prop", "explain.seeds=[0,1]"), "seed"),
        (("explain.compute=[0]",), "explain.compute"),
        (("experiment=prism", "data=generated", "estimator=ngram"), "job=explain is for task=whitebox"),
    ],
)
def test_what_cannot_be_explained_is_refused(whest: Whest, words: tuple[str, ...], expected: str) -> None:
    refused = whest("job=explain", *words)
    assert refused.exit_code == 2, refused.out
    assert expected in refused.err
