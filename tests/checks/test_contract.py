"""`job=validate`: each check finds the breach of the contract that it is named after, and gives a remedy."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.estimators import BUNDLED
from whest.checks.contract import ODD, all_positive, drawn, rank_one

Whest = Callable[..., Any]
HEADER = "import jax, jax.numpy as jnp\nimport numpy as np\n\nclass Estimator:\n"
ANSWER = """
        means = jnp.sqrt((mlp.weights**2).sum(axis=1) / (2 * np.pi))
"""


def predicting(body: str, before: str = "") -> str:
    return f"{HEADER}{before}    def predict(self, mlp, budget):{ANSWER}        {body}\n"


CORRELATION = "s = mlp.weights[0].T @ mlp.weights[0]; d = jnp.sqrt(jnp.diagonal(s)); c = s / d / d[:, None]; "
STATEFUL = "    calls = 0\n"
FAULTS: dict[str, tuple[str, str, set[str], str]] = {
    "raises": (predicting("raise ValueError('no')"), "traced", {"runs"}, "ValueError: no"),
    "one layer": (predicting("return means[-1]"), "traced", {"shape"}, "only one layer"),
    "nan": (predicting("return means / 0 * 0"), "traced", {"finite"}, "values that are NaN"),
    "over budget": (
        predicting("return means + jnp.ones((9000, 9000)).sum()"),
        "traced",
        {"budget"},
        "choose sizes by `budget`",
    ),
    "counts its calls": (
        predicting("self.calls += 1\n        return means + self.calls * 1e-3", STATEFUL),
        "eager",
        {"same input, same bits", "order doesn't matter"},
        "only from mlp.key",
    ),
    "its own randomness": (
        predicting("return means * (1 + 1e-3 * np.random.default_rng().random())"),
        "traced",
        {"repeats from scratch"},
        "not from NumPy",
    ),
    "even widths only": (
        predicting("return means.reshape(mlp.depth, mlp.width // 2, 2).reshape(mlp.depth, mlp.width)"),
        "traced",
        {"odd width, 7x3", "depth 1, 5x1", "all-positive weights", "rank-1 weights"},
        "PREDICT_ERROR at 7x3",
    ),
    "two layers at least": (
        predicting("return means + 0 * list(mlp.weights)[1].sum()"),
        "traced",
        {"depth 1, 5x1"},
        "IndexError",
    ),
    "log of a correlation": (
        predicting(f"{CORRELATION}return means + 0 * jnp.log(1 - jnp.where(np.eye(mlp.width), 0, c * c)).sum()"),
        "traced",
        {"rank-1 weights"},
        "NON_FINITE",
    ),
}


@pytest.fixture
def validate(whest: Whest, tmp_path: Path) -> Whest:
    def run(source: str, *words: str, mode: str = "traced") -> Any:
        (tmp_path / "mine.py").write_text(source)
        chosen = ("estimator=file", "estimator.path=mine.py", f"estimator.mode={mode}")
        rules = ("debug=tiny", "truth=plain", "budget=1e7", "lam=0")
        return whest("job=validate", *rules, *chosen, "output=found.json", *words)

    return run


def findings(folder: Path) -> dict[str, dict[str, str]]:
    document = json.loads((folder / "found.json").read_text())
    return {finding["name"]: finding for finding in document["findings"]}


@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, marks=pytest.mark.slow if fault == "counts its calls" else []) for fault in FAULTS],
)
def test_a_breach_is_found_by_its_check_with_a_remedy(validate: Whest, tmp_path: Path, fault: str) -> None:
    source, mode, expected, words = FAULTS[fault]
    outcome = validate(source, "isolation=none", mode=mode)
    assert outcome.exit_code == 1, outcome.out
    assert "Traceback" not in outcome.err
    found = findings(tmp_path)
    failed = {name for name, finding in found.items() if finding["status"] == "fail"}
    if fault in ("raises", "one layer", "nan", "over budget"):  # wrong everywhere, the small shapes included
        assert expected <= failed
        assert not failed & {"runs", "shape", "finite", "budget"} - expected
    else:
        assert failed == expected
    assert words in " ".join(outcome.out.split())
    assert all(finding["remedy"] for finding in found.values() if finding["status"] != "ok")


def test_an_error_is_told_once(validate: Whest) -> None:
    outcome = validate(predicting("raise ValueError('my own trouble')"), "isolation=none")
    told = " ".join(outcome.out.split())
    assert told.count("my own trouble") == 2, "the message, and the source line in it"
    assert told.count("the same PREDICT_ERROR at") == 5
    assert told.count("not known: there was no answer to check") == 4, "shape, finite, budget and time"
    tracer = " ".join(validate(predicting("return means if means.sum() > 0 else 0"), "isolation=none").out.split())
    assert tracer.count("lax.cond") == 1


@pytest.mark.parametrize("mode", ["traced", pytest.param("eager", marks=pytest.mark.slow)])
def test_an_estimator_that_keeps_the_contract_passes_in_both_modes(validate: Whest, tmp_path: Path, mode: str) -> None:
    outcome = validate(predicting("return means"), "isolation=none", mode=mode)
    assert outcome.exit_code == 0, outcome.out
    document = json.loads((tmp_path / "found.json").read_text())
    assert {finding["status"] for finding in document["findings"]} == {"ok"}
    assert (document["status"], document["mode"], document["in_worker"]) == ("ok", mode, False)


def test_a_bundled_one_passes_and_swapped_weights_are_worth_a_word(whest: Whest, validate: Whest) -> None:
    passed = whest("job=validate", "debug=tiny", "estimator=mean_prop")
    assert passed.exit_code == 0, passed.out
    assert json.loads((passed.folder / "validation.json").read_text())["status"] == "ok"
    swapped = validate(predicting("return means").replace("axis=1", "axis=2"), "isolation=none")
    assert swapped.exit_code == 0
    assert "h @ w, not w @ h" in swapped.out


def test_other_tasks_are_refused(whest: Whest) -> None:
    outcome = whest("job=validate", "task.name=exam")
    assert outcome.exit_code == 2
    assert "task=whitebox" in outcome.err


def test_awkward_weights_are_what_they_are_called() -> None:
    assert (all_positive(ODD).weights > 0).all()
    assert [np.linalg.matrix_rank(w) for w in rank_one(ODD).weights] == [1] * ODD[1]
    assert drawn(ODD, 1).weights.tobytes() == drawn(ODD, 1).weights.tobytes() != drawn(ODD, 2).weights.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["traced", "eager"])
def test_in_a_worker_as_a_score_would(validate: Whest, tmp_path: Path, mode: str) -> None:
    outcome = validate(predicting("return means"), "isolation=process", mode=mode)
    assert outcome.exit_code == 0, outcome.out
    assert json.loads((tmp_path / "found.json").read_text())["in_worker"] is True
    died = validate(predicting("import os\n        os._exit(3)"), "isolation=process", mode=mode)
    assert died.exit_code == 1
    assert "WORKER_DIED" in died.out


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["traced", "eager"])
@pytest.mark.parametrize("name", BUNDLED)
def test_every_bundled_estimator_keeps_the_contract(whest: Whest, name: str, mode: str) -> None:
    outcome = whest("job=validate", f"estimator={name}", "debug=tiny", "budget=1e8", "lam=0", f"estimator.mode={mode}")
    assert outcome.exit_code == 0, outcome.out
