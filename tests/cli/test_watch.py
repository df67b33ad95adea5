"""`job=watch`: versions of a file, what is told of each, and a worker that stays warm."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whest.cases.prediction import Failure
from whest.cli.watch import Rival, difference, told, versions

Whest = Callable[..., Any]
SAMPLER = """
import jax, jax.numpy as jnp

class Estimator:
    def predict(self, mlp, budget):
        h = jax.random.normal(mlp.key, (SAMPLES, mlp.width))
        means = []
        for w in mlp.weights:
            h = jax.nn.relu(h @ w)
            means.append(h.mean(axis=0))
        return jnp.stack(means)
"""


def test_a_version_is_told_by_its_content_and_not_by_its_time(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("a = 1")
    found = versions(path, 0.01)
    first = next(found)
    os.utime(path, (1, 1))  # touched, not changed

    def save() -> None:
        time.sleep(0.1)
        path.unlink()
        (tmp_path / "new").write_text("a = 2")
        (tmp_path / "new").rename(path)  # as an editor saves

    thread = threading.Thread(target=save)
    thread.start()
    second = next(found)
    thread.join()
    assert first != second
    assert len(second) == 64


def test_a_save_is_compared_on_the_mlps_that_both_have() -> None:
    scores = {(i, f"m{i}"): 1.0 + 0.01 * i for i in range(8)}
    worse = Rival("the last save", {case: 2 * value for case, value in scores.items() if case[0] < 6})
    words = difference(scores, worse, is_lower_better=True)
    assert words.startswith("0.5× of the last save; this save is 2.0")
    assert "6 of 6 MLPs" in words
    assert difference(scores, Rival("champion", {}), is_lower_better=True) == "champion: no MLP in common"


def test_a_failure_has_its_line_and_a_remedy() -> None:
    lines = told(Failure("PREDICT_ERROR", "NameError: v", where='File "mine.py", line 9, in predict: h @ v'))
    assert lines[0] == "  PREDICT_ERROR: NameError: v"
    assert "line 9" in lines[1]
    assert lines[2].startswith("  hint: see the line of your file")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("estimator=cov_prop",), "job=watch follows one traced file"),
        (("estimator=file", "estimator.path=none.py"), "none.py"),
        (("estimator=cov_prop", "watch.n_mlps=0"), "watch.n_mlps"),
    ],
)
def test_what_cannot_be_watched_is_refused(whest: Whest, words: tuple[str, ...], expected: str) -> None:
    refused = whest("job=watch", "debug=tiny", *words)
    assert refused.exit_code == 2, refused.out
    assert expected in refused.err


@pytest.mark.slow
def test_each_save_is_scored_and_an_error_waits_for_the_next(whest: Whest, tmp_path: Path) -> None:
    path = tmp_path / "work" / "mine.py"
    path.parent.mkdir()
    texts = [SAMPLER.replace("SAMPLES", "100"), "def broken(:\n", SAMPLER.replace("SAMPLES", "4_000")]
    path.write_text(texts[0])

    def save() -> None:
        for text in texts[1:]:
            time.sleep(20)
            path.write_text(text)

    thread = threading.Thread(target=save, daemon=True)
    thread.start()
    words = ("debug=tiny", "truth=plain", "seed=1", "watch.saves=3", "estimator=file", f"estimator.path={path}")
    outcome = whest("job=watch", *words)
    assert outcome.exit_code == 0, outcome.err
    assert "save 1: score" in outcome.out
    assert "SyntaxError" in outcome.out
    assert "line 1" in outcome.out
    assert "waiting for the next save" in outcome.out
    assert "× of the last save" in outcome.out
