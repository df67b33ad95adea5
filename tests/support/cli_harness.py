"""The command line under test: `whest(…)` in this process, `whest_process(…)` in a new process.

It is a pytest plugin, loaded by tests/conftest.py.
"""

import json
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import absl.logging
import pytest

from tests.support.places import ROOT

# optax imports absl. When Hydra configures logging again, absl's log handler closes its stream, unless it is the
# process's own stream. Here it would be a stream of pytest.
absl.logging.get_absl_handler().python_handler.stream = sys.__stderr__

PATIENCE_S = 300
"""Time limit of a child process. No test depends on it."""
JAX_SETTINGS = (
    "jax_compilation_cache_dir",
    "jax_default_matmul_precision",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
    "jax_platforms",
)


@dataclass(frozen=True)
class Outcome:
    """The end of a command, and its files in the outputs folder."""

    exit_code: int
    out: str
    err: str
    outputs: Path
    run_dir: Path | None = None
    """Where `hydra.run.dir` put the run."""

    @property
    def folder(self) -> Path:
        """The run's folder: the one asked for, or the one there is."""
        if self.run_dir is not None:
            return self.run_dir
        (folder,) = self.outputs.glob("runs/*/*")
        return folder

    @property
    def sweep(self) -> Path:
        """The folder of the one sweep there is."""
        (folder,) = self.outputs.glob("sweeps/*/*")
        return folder

    @property
    def report(self) -> dict[str, Any]:
        """The report, read as strict JSON: NaN and Infinity are refused."""
        report: dict[str, Any] = json.loads((self.folder / "report.json").read_text(), parse_constant=_refuse_constant)
        return report

    @property
    def files(self) -> list[str]:
        """Every file left behind, but for compiled programs."""
        left = (path.relative_to(self.outputs) for path in self.outputs.rglob("*") if not path.is_dir())
        return sorted(str(path) for path in left if path.parts[:2] != ("cache", "xla"))

    def mlflow_runs(self) -> dict[str, str]:
        """Status by run name, read from the store without MLflow's help."""
        with closing(sqlite3.connect(self.outputs / "mlflow.db")) as store:
            return dict(store.execute("select name, status from runs"))

    def mlflow_tags(self) -> dict[str, str]:
        """The tags of all runs together."""
        with closing(sqlite3.connect(self.outputs / "mlflow.db")) as store:
            return dict(store.execute("select key, value from tags"))


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _arguments(outputs: Path, arguments: tuple[str, ...]) -> list[str]:
    """Flags come first: argparse takes the overrides in one go."""
    given = any(argument.startswith("outputs_dir=") for argument in arguments)
    return list(arguments) if given else [*arguments, f"outputs_dir={outputs}"]


def _run_dir(arguments: tuple[str, ...]) -> Path | None:
    given = [argument.partition("=")[2] for argument in arguments if argument.startswith("hydra.run.dir=")]
    return Path(given[0]) if given else None


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    return tmp_path / "outputs"


@pytest.fixture
def environment() -> dict[str, str]:
    """A child's environment: this checkout is importable from any folder, and settings of the terminal are removed."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "PYTHONWARNINGS")}
    return inherited | {"PYTHONPATH": str(ROOT)}


@pytest.fixture
def whest(
    tmp_path: Path, outputs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Outcome]]:
    """`python -m whest …` in this process, from tmp_path. Changes of the process are undone."""
    import jax
    from hydra.core.global_hydra import GlobalHydra
    from jax.experimental.compilation_cache import compilation_cache

    from whest.__main__ import main

    settings = {name: getattr(jax.config, name) for name in JAX_SETTINGS}
    modules = set(sys.modules)
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    handled = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def run(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["whest", *_arguments(outputs, arguments)])
        GlobalHydra.instance().clear()
        capsys.readouterr()
        try:
            main()
        except SystemExit as ended:
            exit_code = ended.code if isinstance(ended.code, int) else 1
        else:
            exit_code = 0
        captured = capsys.readouterr()
        return Outcome(exit_code, captured.out, captured.err, outputs, _run_dir(arguments))

    yield run
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    for number, handler in handled.items():
        signal.signal(number, handler)
    GlobalHydra.instance().clear()
    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def whest_process(tmp_path: Path, outputs: Path, environment: dict[str, str]) -> Callable[..., Outcome]:
    """`python -m whest …` in a new process, from tmp_path."""

    def run(*arguments: str, **variables: str) -> Outcome:
        ended = subprocess.run(
            [sys.executable, "-m", "whest", *_arguments(outputs, arguments)],
            cwd=tmp_path,
            env=environment | variables,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        return Outcome(ended.returncode, ended.stdout, ended.stderr, outputs)

    return run


@pytest.fixture
def interrupt(tmp_path: Path, outputs: Path, environment: dict[str, str]) -> Callable[..., Outcome]:
    """A run that is sent Ctrl-C as soon as `n_truths` MLPs have their truth: the first of them is finished by then."""

    def run(*arguments: str, n_truths: int) -> Outcome:
        with subprocess.Popen(
            [sys.executable, "-m", "whest", *_arguments(outputs, arguments)],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                deadline = time.monotonic() + PATIENCE_S
                while len(list(outputs.glob("cache/truth/*.npz"))) < n_truths:
                    assert process.poll() is None, f"it ended on its own: {process.communicate()}"
                    assert time.monotonic() < deadline, "no truth was drawn"
                    time.sleep(0.02)
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=PATIENCE_S)
            finally:
                process.kill()
        return Outcome(process.returncode, out, err, outputs)

    return run
