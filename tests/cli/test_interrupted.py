"""Ctrl-C in the first second: at every stage of the start, 130 and one sentence."""

import subprocess
import sys
from pathlib import Path

import pytest

INTERRUPTER = """
import os, signal, sys


class Interrupter:
    \"\"\"Ctrl-C at the moment when a module is first asked for.\"\"\"

    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), getattr(signal, os.environ["INTERRUPT_BY"]))


sys.meta_path.insert(0, Interrupter())
"""


@pytest.mark.parametrize(
    ("module", "by"),
    [
        ("whest.cli.command", "SIGINT"),
        ("hydra", "SIGTERM"),
        ("omegaconf", "SIGINT"),
        ("whest.cli.score", "SIGINT"),
        ("jax", "SIGINT"),
        ("jax._src.config", "SIGINT"),
    ],
)
def test_ctrl_c_at_the_start_is_one_sentence(module: str, by: str, tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(INTERRUPTER)
    paths = f"{tmp_path / 'hook'}:{environment['PYTHONPATH']}"
    ended = subprocess.run(
        [sys.executable, "-m", "whest", "debug=tiny", "outputs_dir=outputs"],
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": paths, "INTERRUPT_AT": module, "INTERRUPT_BY": by},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 130, ended.stderr
    assert ended.stdout == ""
    (sentence,) = ended.stderr.splitlines()
    assert sentence.startswith("whest: interrupted")
    assert [path for path in (tmp_path / "outputs").rglob("*") if path.is_file()] == []


LOSES_IT = INTERRUPTER.replace(
    '            os.kill(os.getpid(), getattr(signal, os.environ["INTERRUPT_BY"]))\n',
    '            try:\n                os.kill(os.getpid(), getattr(signal, os.environ["INTERRUPT_BY"]))\n'
    "                os.getpid()\n            except KeyboardInterrupt:\n                pass\n",
)


def test_a_sweep_stops_before_its_next_job_if_a_ctrl_c_was_lost(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(LOSES_IT)
    paths = f"{tmp_path / 'hook'}:{environment['PYTHONPATH']}"
    told = environment | {"PYTHONPATH": paths, "INTERRUPT_AT": "whest.experiment", "INTERRUPT_BY": "SIGINT"}
    words = ["-m", "debug=tiny", "tracking=none", "page=false", "budget=1e4,1e5", "estimator=zeros"]
    command = [sys.executable, "-m", "whest", *words, f"outputs_dir={tmp_path / 'outputs'}"]
    ended = subprocess.run(command, cwd=tmp_path, env=told, capture_output=True, text=True)
    assert ended.returncode == 130, ended.stdout + ended.stderr
    assert len(list((tmp_path / "outputs").glob("sweeps/*/*/*/report.json"))) == 1
