"""`job=compare`: which runs are compared, which are refused, and which files are written."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whest.compare.entrants import Entrant

pytestmark = [
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning"),  # MLflow's
    pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes:DeprecationWarning"),  # MLflow's
]

Whest = Callable[..., Any]
TINY = ("debug=tiny", "truth=plain", "dataset.n_mlps=6")
COMPARE = (*TINY, "job=compare")


def comparison(outcome: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((outcome.folder / "comparison.json").read_text())
    return found


def test_estimators_are_run_now_and_compared_in_words_files_and_mlflow(whest: Whest, outputs: Path) -> None:
    from mlflow import MlflowClient

    outcome = whest(*COMPARE, "tracking=mlflow", "compare.runs=[cov_prop,mean_prop,zeros]")
    assert outcome.exit_code == 0, outcome.err
    found = comparison(outcome)
    reports = [json.loads(path.read_text()) for path in sorted(outcome.folder.glob("*/report.json"))]
    scores = [[row["adjusted_final_layer_score"] for row in report["results"]["per_mlp"]] for report in reports]
    assert [side["scores"] for side in found["sides"]] == scores
    assert [side["name"] for side in found["sides"]] == ["cov_prop", "mean_prop", "zeros"]
    against_mean, against_zeros = found["comparisons"]
    assert against_mean["ratio"] == pytest.approx(sum(scores[0]) / sum(scores[1]))
    assert against_zeros["confidence"] == pytest.approx(0.975), "two comparisons share the error"
    assert against_zeros["is_resolved"]
    assert against_zeros["sign_flip_p"] == 2 / 2**6
    assert against_zeros["rests_on_normality"], "six MLPs can't go below 0.03125, and two comparisons need 0.025"
    assert against_zeros["smallest_ratio"] > 1
    assert "sign-flip p" in outcome.out
    assert "sign-flip p" in (outcome.folder / "comparison.html").read_text()
    assert against_zeros["verdict"] in outcome.out
    for name, start in {"comparison.png": b"\x89PNG", "comparison.html": b"<!"}.items():
        assert (outcome.folder / name).read_bytes().lower().startswith(start.lower())
    page = (outcome.folder / "comparison.html").read_text()
    assert against_zeros["verdict"] in page
    assert "this rests on normality alone" in page
    for words in (
        "By layer",
        "Config and source",
        'href="1-cov_prop/report.html#mlps"',
        "cov_prop and zeros</summary>",
    ):
        assert words in page

    client = MlflowClient(f"sqlite:///{outputs / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("whest")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    (parent,) = (run for run in runs if run.data.tags.get("whest.kind") == "comparison")
    children = [run for run in runs if run is not parent]
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    assert sorted(run.data.tags["estimator"] for run in children) == ["cov_prop", "mean_prop", "zeros"]
    assert against_mean["verdict"] in parent.data.tags["verdict"]
    assert parent.info.run_name == "cov_prop against mean_prop against zeros"
    assert parent.data.tags["score"].count(" against ") == 2
    assert parent.data.tags["mlflow.note.content"].startswith(against_mean["verdict"])
    held = {item.path for item in client.list_artifacts(parent.info.run_id)}
    assert held == {"comparison.json", "comparison.png", "comparison.html"}

    ids = {run.data.tags["estimator"]: run.info.run_id for run in children}
    place = outputs / "again"
    mixed = f"compare.runs=[{ids['cov_prop']},{next(outcome.folder.glob('2-*'))}/report.json,zeros]"
    again = whest(*COMPARE, "tracking=mlflow", mixed, f"hydra.run.dir={place}")
    assert again.exit_code == 0, again.err
    repeated = json.loads((place / "comparison.json").read_text())
    assert repeated["comparisons"] == found["comparisons"], "recorded or run now, the figures are the same"
    assert [path.name for path in place.glob("*/report.json")] == ["report.json"], "only zeros was run"

    store = str(outputs / "mlflow.db")
    client.log_metric(ids["cov_prop"], "score", 1e-9)
    tampered = whest(*COMPARE, "tracking=mlflow", f"compare.runs=[{ids['cov_prop']},zeros]", f"hydra.run.dir={place}-2")
    assert tampered.exit_code == 2, store
    assert "metric score" in tampered.err
    assert not Path(f"{place}-2").exists(), "nothing half-written"


@pytest.mark.slow
def test_seeds_split_an_error_into_bias_and_noise(whest: Whest) -> None:
    words = ("budget=1e5", "compare.runs=[monte_carlo,zeros]", "compare.by=estimator")
    refused = whest(*COMPARE, *words, "compare.seeds=[0,1]")
    assert refused.exit_code == 2, "zeros has no seed"
    outcome = whest(*COMPARE, "budget=1e5", "compare.runs=[monte_carlo]", "compare.seeds=[0,1,2,3]")
    assert outcome.exit_code == 0, outcome.err
    found = comparison(outcome)
    assert [side["name"] for side in found["sides"]] == [f"monte_carlo seed={seed}" for seed in range(4)]
    assert not any(pair["is_resolved"] for pair in found["comparisons"])
    assert "not resolved" in outcome.out
    (split,) = found["bias_and_noise"]
    assert (split["estimator"], split["n_seeds"], split["n_mlps"]) == ("monte_carlo", 4, 6)
    assert abs(split["bias"]) < 6 * split["bias_se"], "sampling has no bias"
    assert split["noise_share"] > 0.5

    seeds = [str(path) for path in sorted(outcome.folder.glob("[0-9]-*"))]
    for path in seeds:
        assert (Path(path) / "predictions.npz").exists()
    (Path(seeds[0]) / "predictions.npz").unlink()
    place = outcome.folder.parent / "unsplit"
    words = (f"compare.runs=[{','.join(seeds)}]", f"hydra.run.dir={place}")
    unsplit = whest(*COMPARE, "budget=1e5", *words)
    assert unsplit.exit_code == 0, unsplit.err
    assert "to separate bias and noise, every report needs predictions.npz" in unsplit.out
    assert json.loads((place / "comparison.json").read_text())["bias_and_noise"] == []


def test_other_protocols_are_refused_before_any_work_and_said_to_differ(whest: Whest, tmp_path: Path) -> None:
    scored = whest(*TINY, "estimator=zeros", f"hydra.run.dir={tmp_path / 'run'}")
    assert scored.exit_code == 0, scored.err
    for words, expected in (
        (("budget=1e9",), "limits.budget (6.8e+10 and 1e+09)"),
        (("lam=7",), "limits.lam (1e+11 and 7)"),
        (("seed=5",), "dataset ("),
    ):
        refused = whest(*COMPARE, *words, f"compare.runs=[{tmp_path / 'run'},mean_prop]", "hydra.run.dir=cmp")
        assert refused.exit_code == 2, refused.out
        assert "can't be compared" in refused.err
        assert expected in refused.err
        assert not (tmp_path / "cmp").exists(), "nothing was run or written"

    changed = tmp_path / "changed"
    shutil.copytree(tmp_path / "run", changed)
    report = json.loads((changed / "report.json").read_text())
    report["run_meta"]["protocol"]["limits"]["lam"] = 0
    (changed / "report.json").write_text(json.dumps(report))
    refused = whest(*COMPARE, f"compare.runs=[{changed},zeros]")
    assert refused.exit_code == 2
    assert "protocol hash" in refused.err


def test_an_interrupted_run_is_compared_on_what_it_finished(whest: Whest, tmp_path: Path) -> None:
    for name in ("zeros", "mean_prop"):
        assert whest(*TINY, f"estimator={name}", f"hydra.run.dir={tmp_path / name}").exit_code == 0
    report = json.loads((tmp_path / "zeros" / "report.json").read_text())
    report["results"]["per_mlp"] = report["results"]["per_mlp"][:4]
    scores = [row["adjusted_final_layer_score"] for row in report["results"]["per_mlp"]]
    report["results"]["score"] = sum(scores) / 4
    (tmp_path / "zeros" / "report.json").write_text(json.dumps(report))
    outcome = whest(*COMPARE, f"compare.runs=[{tmp_path / 'mean_prop'},{tmp_path / 'zeros'}]")
    assert outcome.exit_code == 0, outcome.err
    assert "4 of 6 MLPs are in every run" in outcome.out
    assert len(comparison(outcome)["mlps"]) == 4


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "compare.runs=None must name at least two runs"),
        (("compare.runs=[zeros]",), "must name at least two runs"),
        (
            ("compare.runs=[zeros,nothing]",),
            "'nothing', which is no file or folder, no MLflow run id and no estimator",
        ),
        (("compare.runs=[zeros,mean_prop]", "estimator=zeros"), "estimator=zeros has no effect on job=compare"),
        (("compare.runs=['zeros seed',mean_prop]",), "'seed' is not a knob"),
        (("compare.runs=[zeros,mean_prop]", "compare.confidence=1.5"), "compare.confidence"),
        (("compare.runs=[zeros,mean_prop]", "compare.by=mood"), "compare.by"),
        (("compare.runs=[zeros,'mean_prop rank=3']",), "rank"),
        ((f"compare.runs=[zeros,{'0' * 32}]",), "add tracking=mlflow"),
        ((f"compare.runs=[zeros,{'0' * 32}]", "tracking=mlflow"), "no MLflow run"),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(whest: Whest, words: tuple[str, ...], expected: str) -> None:
    outcome = whest(*COMPARE, *words)
    assert outcome.exit_code in (1, 2), outcome.out
    assert expected in outcome.err
    assert not list(outcome.outputs.glob("runs/*/*"))


@pytest.mark.slow
def test_on_the_suite_two_seeds_are_not_resolved_and_two_methods_are(whest_process: Whest, outputs: Path) -> None:
    seeds = whest_process(
        "job=compare",
        "tracking=none",
        "dataset.version=1",
        "budget=6.8e8",
        "compare.runs=[monte_carlo]",
        "compare.seeds=[0,1]",
    )
    assert seeds.exit_code == 0, seeds.err
    assert (
        "not resolved: on 50 MLPs the difference of monte_carlo seed=0 and monte_carlo seed=1 is near its error"
        in seeds.out
    )
    place = outputs / "methods"
    methods = whest_process(
        *("job=compare", "tracking=none", "dataset.version=1"),
        "compare.runs=[cov_prop,mean_prop]",
        f"hydra.run.dir={place}",
    )
    assert methods.exit_code == 0, methods.err
    found = json.loads((place / "comparison.json").read_text())
    (pair,) = found["comparisons"]
    means = [side["mean"] for side in found["sides"]]
    assert pair["is_resolved"]
    assert pair["ratio"] == pytest.approx(means[0] / means[1])
    assert pair["ratio_interval"][0] < 3.83e-06 / 7.80e-05 < pair["ratio_interval"][1], "the figures of version 1"
    assert f"cov_prop is {1 / pair['ratio']:.1f}× better than mean_prop" in methods.out
    assert pair["wins"] == 50


def test_a_reports_own_protocol_hash_cannot_act_on_the_terminal() -> None:
    entrant = Entrant("x", "x", {"run_meta": {"protocol_hash": "\x1b[2Jabc\u202e"}}, None)
    assert entrant.protocol_hash == "[2Jabc"


def test_until_decided_draws_fresh_mlps_and_keeps_both_runs(whest: Whest) -> None:
    outcome = whest(
        "debug=tiny", "truth=plain", "job=compare", "compare.runs=[zeros,mean_prop]", "compare.until=0.9", "seed=3"
    )
    assert outcome.exit_code == 0, outcome.err
    (pair,) = comparison(outcome)["comparisons"]
    sequence = pair["sequence"]
    assert sequence["is_decided"]
    assert pair["is_resolved"]
    assert pair["t_interval"] is None, "the scores decided the number of MLPs"
    assert 12 <= sequence["n_mlps"] == pair["n_mlps"] < 40
    assert sequence["interval"][0] > 0, "zeros has the larger error"
    assert sequence["cost"]["n_truths_drawn"] == sequence["n_mlps"]
    assert f"mean_prop is {pair['ratio']:.3g}× better than zeros, decided after" in outcome.out
    assert "12 MLPs: mean_prop is" in outcome.out
    assert "truths drawn now" in outcome.out
    assert pair["verdict"].partition(": ")[2] in (outcome.folder / "comparison.html").read_text()
    reports = [json.loads(path.read_text()) for path in sorted(outcome.folder.glob("*/report.json"))]
    assert [len(report["results"]["per_mlp"]) for report in reports] == [sequence["n_mlps"]] * 2
    assert {report["run_config"]["dataset"]["n_mlps"] for report in reports} == {sequence["n_mlps"]}
    assert len({report["run_meta"]["protocol_hash"] for report in reports}) == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("dataset=suite",), "dataset=suite: compare.until draws fresh MLPs, leave it out"),
        (("dataset.n_mlps=6",), "dataset.n_mlps=6 has no effect with compare.until"),
        (("compare.seeds=[0,1]",), "compare.seeds=[0, 1] can't be used with compare.until"),
        (("compare.max_mlps=3",), "compare.max_mlps"),
        (("compare.until=2",), "compare.until"),
        (("experiment=prism", "data=generated"), "compare.until works for task=whitebox"),
    ],
)
def test_until_refuses_what_it_cannot_do(whest: Whest, words: tuple[str, ...], expected: str) -> None:
    names = "[ngram,byte_mlp]" if "experiment=prism" in words else "[zeros,mean_prop]"
    refused = whest("job=compare", "compare.until=0.95", f"compare.runs={names}", *words)
    assert refused.exit_code == 2, refused.out
    assert expected in refused.err
    three = whest("job=compare", "compare.until=0.95", "compare.runs=[zeros,mean_prop,cov_prop]")
    assert "compares two estimators that are run now" in three.err
