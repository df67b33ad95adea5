"""The prequential task: charges, refusals, and the values that the harness does not show to learners."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra.utils import get_class

from estimators.ngram import NGram
from tests.support.contracts.learner import LearnerContract
from tests.support.estimators import NODES
from tests.support.prequential import GENERATED, SHORT, scored, task_of, text_of
from tests.support.prism_rule import RULE
from whest.boards.entries import read_entry, sidelined
from whest.boards.policies import PrismPolicy
from whest.config.compose import compose
from whest.errors import ConfigError
from whest.estimator.spec import EstimatorSpec, estimator_spec
from whest.experiment import Experiment, build, gather, run
from whest.learner.contract import LearnerContext, affordable_steps, create_learner, step_cost
from whest.learner.programs import LearnerError
from whest.limits import Limits
from whest.progress import SilentProgress
from whest.scoring.prism import recompute, recompute_manifest
from whest.tasks.prequential.manifest import MANIFEST_FILE
from whest.tasks.prequential.stream import N_BLOCKS, spans
from whest.tasks.prequential.task import Prequential
from whest.tracking.recorded import RecordedRun
from whest.tracking.runs import NoTracking
from whest.tracking.verify import manifest_problem


def report_in(folder: Path, task: Prequential) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    notes = {"round": "bytes", "seed": 1337, "participant": task.estimator.name}
    return run(Experiment(task, RULE, NoTracking(folder), notes, "test", {}, figures=True, page=True), folder)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """One run that many tests look at."""
    folder = tmp_path_factory.mktemp("pairs")
    return report_in(folder, task_of("Bigram")), folder


# What is charged


@pytest.mark.parametrize(("row_length", "rows"), [(2, 3), (7, 1), (64, 2), (1000, 1), (2048, 1)])
def test_a_uniform_model_costs_eight_bits_at_any_row_length(row_length: int, rows: int) -> None:
    score = scored(task_of("Uniform", SHORT, row_length=row_length, rows_per_step=rows))
    assert score.bpb == pytest.approx(8.0, abs=1e-5)
    assert score.covered_bytes == 2048 // (row_length * rows) * row_length * rows
    assert score.step0_loss == pytest.approx(math.log(256), abs=1e-6)


def test_loss_is_taken_before_the_update(pairs: tuple[Any, Path]) -> None:
    """Compare with counts of pairs computed separately, batch by batch."""
    losses, table = [], np.ones((257, 256))
    for batch in GENERATED.train.reshape(-1, 2, 64):
        before = np.concatenate([np.full((2, 1), 256), batch[:, :-1]], axis=1)
        shares = table[before, batch] / table.sum(axis=1)[before]
        losses.append(-np.log(shares).mean())
        np.add.at(table, (before, batch), 20.0)
    np.testing.assert_allclose(pairs[0].online_loss, losses, rtol=1e-4)
    assert pairs[0].score.score == pytest.approx(
        RULE.formula(np.mean(losses) / math.log(2), *held_out(pairs[0])), rel=1e-5
    )


def held_out(report: Any) -> tuple[float, float]:
    return report.score.heldout_delta, report.score.gap


def test_same_score_twice(pairs: tuple[Any, Path]) -> None:
    assert scored(task_of("Bigram")) == pairs[0].score


def test_budget_pays_for_updates_alone() -> None:
    task = task_of("Bigram")
    flops = step_cost(create_learner(task.estimator, task.context), task.context).flops
    short = replace(task, limits=Limits(10.5 * flops, 0.0, None, None))
    score = scored(short)
    assert score.n_batches == 10
    assert score.flops_used == 10 * flops
    assert scored(task).covered_bytes == 8192


def test_a_budget_below_one_step_is_a_failed_run_on_record() -> None:
    score = scored(task_of("Bigram", budget=10))
    assert (score.score, score.covered_bytes) == (None, 0)
    assert score.failure is not None
    assert score.failure.startswith("budget=10 is below one step: one update costs")


def test_a_batch_that_is_not_finite_is_charged() -> None:
    train = bytearray(b"ab" * 1024)
    train[255] = ord("!")  # the last byte of the second of sixteen batches: the third one breaks
    score = scored(task_of("BreaksOnce", text_of(bytes(train))))
    assert score.n_charged_batches == 1
    assert score.failure is None
    losses = list(report_losses(task_of("BreaksOnce", text_of(bytes(train)))))
    assert losses[2] is None
    assert score.bpb == pytest.approx(
        (16 + sum(loss / math.log(2) for loss in losses if loss is not None)) / len(losses)
    )


def report_losses(task: Prequential) -> list[float | None]:
    from whest.tasks.prequential.stream import online_run

    cases, _ = gather(task.cases(SilentProgress()))
    return list(online_run(cases).online_loss)


# What doesn't pay


def test_smuggled_weights_are_zeroed() -> None:
    score = scored(task_of("Smuggler", text_of(b"a" * 4096)))
    assert score.step0_anomaly
    assert score.score == 0.0


def test_large_logits_are_worth_no_more_than_small_ones() -> None:
    assert scored(task_of("Rounds")).bpb == pytest.approx(8.0, abs=1e-5)


def test_no_charge_is_below_zero() -> None:
    """A learner that is sure and right costs nothing, and not less."""
    losses = report_losses(task_of("Certain", text_of(b"a" * 4096)))
    assert losses[0] == pytest.approx(math.log(256))
    assert set(losses[1:]) == {0.0}


def test_a_memoriser_is_halved() -> None:
    draw = np.random.default_rng(0)
    page, other = draw.permutation(256).astype(np.uint8).tobytes(), draw.integers(0, 256, 2048).astype(np.uint8)
    score = scored(task_of("Bigram", text_of(page * 32, other.tobytes())))
    assert score.gap is not None
    assert score.gap > 1
    assert score.memorised
    assert score.bpb is not None
    assert score.score == pytest.approx(0.5 / (1 + score.bpb), rel=1e-2)


@pytest.mark.parametrize(
    ("learner", "words"),
    [
        ("LooksAhead", "looks ahead"),
        ("LooksAside", "looks at other rows"),
        ("Luggage", "bytes of constants"),
        ("GrowsState", "update turned array 0"),
        ("Drowns", "looks ahead"),
        ("Hides", "looks ahead: at step"),
        ("ReadsTheNextRow", "looks ahead: at step"),
        ("ReadsHalfThePlaces", "looks ahead: at step"),
        ("WorksForNothing", "logits, which are free"),
        ("Wired", "bytes under gzip"),
        pytest.param("Writes", "bytes of constants", marks=pytest.mark.slow),
    ],
)
def test_cheats_are_refused(learner: str, words: str) -> None:
    with pytest.raises(LearnerError, match=words):
        scored(task_of(learner))


def test_degenerate_runs_are_failed_and_absent_from_the_board(tmp_path: Path, pairs: tuple[Any, Path]) -> None:
    failed = report_in(tmp_path, task_of("Overconfident"))
    assert failed.score.score is None
    assert failed.has_errors
    entries = [read_entry(recorded(report)) for report in (pairs[0], failed)]
    assert sidelined(entries[1], None) == ("unfinished", failed.score.failure)
    (row,) = PrismPolicy(protocol=None, deadline=None, supersedes=[], grid=1e-9).rank(
        [entry for entry in entries if sidelined(entry, None) is None]
    )
    assert (row.rank, row.weight) == (1, 1.0)


def recorded(report: Any) -> RecordedRun:
    return RecordedRun("r", "r", report.config["participant"], report.to_json(), {}, None)


def test_ctrl_c_keeps_what_there_is_unscored(tmp_path: Path) -> None:
    class Impatient(SilentProgress):
        def each(self, items: Any, label: str) -> Any:
            yield from list(items)[:3]
            raise KeyboardInterrupt

    task = task_of("Bigram")
    cases, status = gather(task.cases(Impatient()))
    assert status == "interrupted"
    score = task.score(RULE, cases)
    assert len(cases) == 3
    assert score.covered_bytes == 3 * 8192 // N_BLOCKS
    assert score.score is None


# What is left behind


def test_score_is_recomputed_from_report_and_manifest(pairs: tuple[Any, Path]) -> None:
    report, folder = pairs
    document = json.loads((folder / "report.json").read_text())
    manifest = json.loads((folder / MANIFEST_FILE).read_text())
    assert recompute(document["run_config"], document["results"]) == report.score.score
    assert recompute_manifest(manifest) == report.score.score == manifest["score"]["final_score"]
    manifest["metrics"]["online_loss"][3] -= 0.1
    changed = recompute_manifest(manifest)
    assert changed is not None
    assert changed > report.score.score
    assert set(manifest) >= {"run", "compute", "data", "metrics", "score", "anti_cheat", "artifacts"}


def forged(manifest: Any, *path: Any, value: Any) -> bytes:
    changed = json.loads(json.dumps(manifest))
    node = changed
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return json.dumps(changed).encode()


def test_a_forged_or_missing_manifest_is_a_problem(pairs: tuple[Any, Path]) -> None:
    folder = pairs[1]
    document, content = json.loads((folder / "report.json").read_text()), (folder / MANIFEST_FILE).read_bytes()
    manifest = json.loads(content)
    assert manifest_problem(document, content) is None
    cases = {
        "differs from its report: score, losses": forged(manifest, "metrics", "online_loss", 3, value=0.1),
        "differs from its report: stated score": forged(manifest, "score", "final_score", value=0.9),
        "differs from its report: participant": forged(manifest, "run", "participant", value="somebody"),
        "differs from its report: protocol": forged(manifest, "run", "protocol_hash", value="0" * 16),
        "differs from its report: FLOPs": forged(manifest, "compute", "flops_used", value=1),
        "is no manifest": b"[]",
        "is missing": None,
    }
    for words, changed in cases.items():
        assert words in str(manifest_problem(document, changed)), words
    assert "rule" in str(manifest_problem(document, forged(manifest, "score", "rule", "tie_cap", value=0.5)))


def test_blocks_are_the_same_stretches_for_every_learner(pairs: tuple[Any, Path]) -> None:
    names = [case.name for case in pairs[0].cases]
    cases, _ = gather(task_of("Uniform", rows_per_step=3).cases(SilentProgress()))
    assert len(names) == N_BLOCKS
    assert [case.name for case in cases][:-1] == names[: len(cases) - 1]
    assert sum(case.n_bytes for case in pairs[0].cases) == 8192


def test_spans_cover_every_row_once() -> None:
    for n_rows, n_steps, rows_per_step in [(64, 64, 1), (100, 33, 3), (10, 2, 5), (2048, 977, 2), (3, 1, 1)]:
        found = spans(n_rows, n_steps, rows_per_step)
        assert [row for span in found for row in range(span.first_row, span.end_row)] == list(
            range(n_steps * rows_per_step)
        )
        assert found[0].first_step == 0
        assert found[-1].end_step == n_steps


def test_page_and_console_say_it(pairs: tuple[Any, Path]) -> None:
    report, folder = pairs
    page = (folder / "report.html").read_text()
    assert "Predictions" in page
    assert "bits per byte" in page
    assert (folder / "figures" / "online_loss.png").exists()
    assert any("bits per byte" in row[0] for row in report.view.rows(report))
    assert report.view.complaints(report) == []


# Learners that are shipped


SMALL = {
    "byte_mlp": {"hidden": 16},
    "byte_attention": {"width": 16},
    "byte_ssm": {"width": 16, "hidden": 16},
    "byte_contexts": {
        "table_bits": 8,
        "match_bits": 8,
        "hidden": 4,
        "matches": [12],
        "orders": [1, 2],
        "word_orders": [1],
    },
}


def spec_of(name: str) -> EstimatorSpec:
    return estimator_spec(NODES[name] | SMALL[name])


class TestContract(LearnerContract):
    subjects = {name: spec_of(name) for name in SMALL}
    slow = ("byte_attention", "byte_ssm", "byte_contexts")


def test_every_traced_learner_is_a_subject() -> None:
    targets = {name: get_class(node["_target_"]) for name, node in NODES.items() if "_target_" in node}
    assert set(SMALL) == {name for name, target in targets.items() if hasattr(target, "update")}


def test_affordable_steps_end_with_the_stream_or_the_budget() -> None:
    learner = create_learner(task_of("Bigram").estimator, LearnerContext(10**9, 64, 8192, 0))
    assert affordable_steps(learner, LearnerContext(10**9, 64, 8192, 0)) == 64
    flops = step_cost(learner, LearnerContext(1, 64, 8192, 0)).flops
    assert affordable_steps(learner, LearnerContext(5 * flops, 64, 8192, 0)) == 5


def test_ngram_is_listed_and_not_ranked(tmp_path: Path) -> None:
    spec = EstimatorSpec("ngram", "traced", "estimators.ngram.NGram", None, {"order": 3, "weight": 2.0})
    report = report_in(tmp_path, replace(task_of("Bigram"), estimator=spec))
    assert report.score.bpb is not None
    assert report.score.bpb < 4
    found = sidelined(read_entry(recorded(report)), None)
    assert found is not None
    assert found[0] == "reference"


def test_ngram_codes_each_byte_before_it_counts_it() -> None:
    learner = NGram(order=1, weight=1.0)
    learner.begin()
    batch = np.frombuffer(b"abab", np.uint8)[None]
    shares = np.exp(learner.log_probabilities(batch))[0]
    assert shares.sum(axis=1) == pytest.approx(1)
    assert shares[0, ord("a")] == pytest.approx(1 / 256)
    once = (1 + (1 + 1 / 256) / 4) / 2  # b seen once after a, among three bytes so far
    assert shares[3, ord("b")] == pytest.approx(once)
    np.testing.assert_array_equal(np.exp(learner.log_probabilities(batch))[0], shares)


# Errors that say what to do


def test_illegal_pairs_and_misfits_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="use one of task=whitebox with"):
        build(compose("experiment=prism", "scoring=whest"), tmp_path)
    with pytest.raises(ConfigError, match=r"estimator=cov_prop is no byte learner: it has no init\(\)"):
        build(compose("experiment=prism", "estimator=cov_prop", "data=generated"), tmp_path)
    with pytest.raises(ConfigError, match="estimator=byte_mlp is a byte learner"):
        build(compose("estimator=byte_mlp"), tmp_path)
