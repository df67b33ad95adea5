"""The order of a run: first the score on the terminal, then files, pictures, the page and MLflow."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whest
from tests.support.places import ROOT
from whest.dataset.row import KeptWeights
from whest.display.progress import LineProgress, Work
from whest.errors import JobFailedError
from whest.experiment import build, run, unbroken
from whest.mlp import SeedProtocol, draw_weights
from whest.sweeps.pace import Pace

WORDS = ("debug=tiny", "dataset.n_mlps=1", "estimator=zeros", "truth.n_samples=200", "tracking=none")


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def test_the_score_is_shown_before_anything_is_saved(tmp_path: Path) -> None:
    config = whest.compose(*WORDS, "figures=true", f"outputs_dir={tmp_path}")
    folder = tmp_path / "run"
    seen: list[set[str]] = []
    report = run(build(config, folder), folder, show=lambda report: seen.append(files_in(folder)))
    assert seen == [{"config.yaml"}]
    assert {"report.json", "report.html", "layer_error.png", "predictions.npz"} <= files_in(folder)
    assert report.score.score is not None


def test_by_default_a_run_has_a_page_and_no_figures() -> None:
    config = whest.compose()
    assert (config["figures"], config["page"]) == (False, True)


def test_page_false_and_figures_false_leave_them_out(tmp_path: Path) -> None:
    whest.run(*WORDS, "page=false", f"outputs_dir={tmp_path}", folder=tmp_path / "run")
    kept = files_in(tmp_path / "run") - {"changes.diff"}  # only a changed checkout has that
    assert kept == {"config.yaml", "report.json", "predictions.npz", "provenance.json", "zeros.py"}


def test_provenance_false_keeps_no_source(tmp_path: Path) -> None:
    whest.run(*WORDS, "page=false", "provenance=false", f"outputs_dir={tmp_path}", folder=tmp_path / "run")
    assert files_in(tmp_path / "run") == {"config.yaml", "report.json", "predictions.npz"}


def test_a_terminal_that_is_gone_loses_no_report(tmp_path: Path) -> None:
    config = whest.compose(*WORDS, "page=false", f"outputs_dir={tmp_path}")

    def show(report: Any) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run(build(config, tmp_path / "run"), tmp_path / "run", show=show)
    assert json.loads((tmp_path / "run" / "report.json").read_text())["results"]["score"] is not None


def test_ctrl_c_waits_until_the_report_is_saved() -> None:
    done = []

    def save() -> None:
        with unbroken():
            signal.raise_signal(signal.SIGINT)
            done.append("saved")

    with pytest.raises(KeyboardInterrupt):
        save()
    assert done == ["saved"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_slow_libraries_come_after_the_score(tmp_path: Path) -> None:
    """In a process of its own: this one has imported them already."""
    code = (
        "import sys, whest\nfrom pathlib import Path\nfrom whest.experiment import build, run\n"
        f"folder = Path({str(tmp_path)!r})\n"
        f"words = {[*WORDS[:-1], 'tracking=mlflow', 'page=false', f'outputs_dir={tmp_path}']!r}\n"
        "slow = lambda: sorted({'matplotlib', 'pandas', 'mlflow', 'jinja2'} & set(sys.modules))\n"
        "run(build(whest.compose(*words), folder / 'run'), folder / 'run', show=lambda report: print(slow()))\n"
        "print('mlflow' in sys.modules)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert ended.stdout.split("\n")[:2] == ["[]", "True"]


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_syntax_error_costs_no_sampling(tmp_path: Path, isolation: str) -> None:
    (tmp_path / "mine.py").write_text("class Estimator:\n    def predict(self, mlp, budget)\n        return None\n")
    words = ("estimator=file", f"estimator.path={tmp_path / 'mine.py'}", f"isolation={isolation}")
    with pytest.raises(JobFailedError, match=r"(?s)no truth was drawn.*SyntaxError.*mine\.py, line 2"):
        whest.run(*WORDS[:2], *WORDS[3:], *words, f"outputs_dir={tmp_path / 'outputs'}", folder=tmp_path / "run")
    assert not (tmp_path / "outputs" / "cache" / "truth").exists()


def test_a_line_of_progress_says_what_is_done_and_when_it_ends() -> None:
    assert Work("cov_prop on fresh", total=50, done=10, started=0.0).words(20.0) == (
        "cov_prop on fresh: 10 of 50 after 20 s, about 80 s left"
    )
    progress = LineProgress()
    with progress.stage("compiling cov_prop"):
        assert progress.line() == "compiling cov_prop: after 0 s"
    assert progress.line() == ""


def test_a_sweeps_time_left_follows_from_its_finished_jobs() -> None:
    assert Pace(n_jobs=12, n_done=3, started=0.0).time_left_s(6.0) == 18.0
    assert Pace(n_jobs=None, n_done=3, started=0.0).time_left_s(6.0) is None
    assert Pace(n_jobs=12, n_done=12, started=0.0).time_left_s(6.0) is None


def test_kept_weights_are_the_same_and_take_no_more_than_their_room() -> None:
    streams = [SeedProtocol().streams(seed).weights for seed in (1, 2)]
    kept = KeptWeights()
    kept.keep(8 * 8 * 2 * 4)
    first, second = (kept.draw(stream, 8, 2) for stream in streams)
    assert kept.draw(streams[0], 8, 2) is first
    assert kept.draw(streams[1], 8, 2) is not second
    assert np.array_equal(first, draw_weights(streams[0], 8, 2))
    assert np.array_equal(second, draw_weights(streams[1], 8, 2))
    assert not first.flags.writeable
