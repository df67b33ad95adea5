"""`job=explain`: where an error comes from, in text, JSON and on a page."""

import json
from collections.abc import Callable
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


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("estimator=cov_prop", "explain.seeds=[1]"), "explain.seeds=[1]: bias and noise need two seeds"),
        (("estimator=cov_prop", "explain.seeds=[0,1]"), "seed"),
        (("experiment=prism", "data=generated", "estimator=ngram"), "job=explain is for task=whitebox"),
    ],
)
def test_what_cannot_be_explained_is_refused(whest: Whest, words: tuple[str, ...], expected: str) -> None:
    refused = whest("job=explain", *words)
    assert refused.exit_code == 2, refused.out
    assert expected in refused.err
