"""Many processes, many machines: the same sweep gives the same scores with any launcher. Slow, with real launchers."""

import csv
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.launchers import launchers
from tests.support.places import ROOT

__all__ = ["launchers"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning"),  # MLflow's
    pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes:DeprecationWarning"),  # MLflow's
]

Whest = Callable[..., Any]
BIN = Path(sys.executable).parent
EIGHT = ("-m", "debug=tiny", "truth=plain", "estimator=mean_prop,monte_carlo", "budget=1e4,1e5,1e6,1e7")
PATIENCE_S = 900
NAMESPACES = ("unshare", "-rnum", "--pid", "--fork", "--kill-child", "--mount-proc")


TUNED = """
import jax.numpy as jnp


class Estimator:
    def __init__(self, level: float):
        self.level = level

    def predict(self, mlp, budget):
        if self.level > 0.8:
            raise ValueError("too high")
        return jnp.full((mlp.depth, mlp.width), self.level)
"""


def two_nodes(
    folder: Path, outputs: Path, environment: dict[str, str], *words: str
) -> "subprocess.CompletedProcess[str]":
    """A command on a Ray cluster of two nodes. The second has a disk of its own where the first has its outputs."""
    script = str(ROOT / "tests" / "support" / "two_nodes.sh")
    command, piped = [*NAMESPACES, "sh", script, str(BIN), str(outputs), *words], {"capture_output": True, "text": True}
    return subprocess.run(command, cwd=folder, env=environment, timeout=PATIENCE_S, **piped)  # type: ignore[call-overload,no-any-return]


def scores(sweep: Path) -> list[tuple[str, ...]]:
    with (sweep / "sweep.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["status"] for row in rows] == ["finished"] * 8
    return [tuple(row[key] for key in ("job", "label", "flop_budget", "score", "score_se")) for row in rows]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, ...]]:
    """What the basic launcher finds."""
    place = tmp_path_factory.mktemp("basic")
    command = [sys.executable, "-m", "whest", *EIGHT, "tracking=none", f"outputs_dir={place}"]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S, cwd=place)
    return scores(next(place.glob("sweeps/*/*")))


@pytest.mark.parametrize(
    "launcher",
    ["cores", "processes"],
)
def test_launchers_on_this_machine_give_the_same_scores(
    whest_process: Whest, expected: list[tuple[str, ...]], launcher: str
) -> None:
    outcome = whest_process(*EIGHT, "tracking=mlflow", f"hydra/launcher={launcher}")
    assert outcome.exit_code == 0, outcome.err
    assert scores(outcome.sweep) == expected
    assert set(outcome.mlflow_runs().values()) == {"FINISHED"}


def test_two_ray_nodes_without_a_common_disk_give_the_same_scores(
    tmp_path: Path, outputs: Path, environment: dict[str, str], expected: list[tuple[str, ...]]
) -> None:
    ended = two_nodes(tmp_path, outputs, environment, *EIGHT)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    lines = {line.split()[0]: line.split()[1:] for line in ended.stdout.splitlines() if line.split()}
    assert sorted(set(lines["nodes"])) == ["node-a", "node-b"]
    assert len(lines["nodes"]) == 8
    assert lines["problems"] == []
    (sweep,) = outputs.glob("sweeps/*/*")
    assert scores(sweep) == expected
    here = list(sweep.glob("*/report.json"))
    assert len(here) == lines["nodes"].count("node-a"), "the others came by MLflow"


BAKE = ("job=bake", "debug=tiny", "truth=plain", "dataset.n_mlps=6")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The data of a bake by one process."""
    place = tmp_path_factory.mktemp("whole")
    command = [sys.executable, "-m", "whest", *BAKE, "output=whole", f"outputs_dir={place}"]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S, cwd=place)
    return data_of(place / "whole")


def data_of(folder: Path) -> bytes:
    (file,) = (folder / "data").iterdir()
    return file.read_bytes()


@pytest.mark.parametrize("launcher", ["cores", "processes"])
def test_one_command_bakes_in_slices_on_this_machine(
    whest_process: Whest, tmp_path: Path, whole: bytes, launcher: str
) -> None:
    outcome = whest_process(*BAKE, "bake.slices=3", "output=sliced", f"hydra/launcher={launcher}")
    assert outcome.exit_code == 0, outcome.err
    assert data_of(tmp_path / "sliced") == whole
    assert [name for name in outcome.files if "cache" not in name] == [], "the jobs' folders are gone"


def test_one_command_bakes_in_slices_on_two_ray_nodes_without_a_common_disk(
    tmp_path: Path, outputs: Path, environment: dict[str, str], whole: bytes
) -> None:
    ended = two_nodes(tmp_path, outputs, environment, *BAKE, "bake.slices=4", f"output={outputs / 'sliced'}")
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    assert "ip=127.0.0.2" in ended.stdout + ended.stderr, "the second node drew a slice"
    assert data_of(outputs / "sliced") == whole
    assert not list((outputs / "cache" / "truth").glob(".bake-*"))


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[str]:
    """A PostgreSQL of the test's own, on a socket in a folder: its address for SQLAlchemy."""
    found = shutil.which("initdb") or next(map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb")), None)
    if found is None:
        pytest.fail("PostgreSQL is not installed: make system-deps", pytrace=False)
    binaries, home = Path(found).resolve().parent, Path("/tmp") / f"whest-pg-{secrets.token_hex(4)}"
    home.mkdir(mode=0o700)
    as_owner: list[str] = []
    if os.geteuid() == 0:  # PostgreSQL refuses to be run by root
        shutil.chown(home, "postgres", "postgres")
        as_owner = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    try:
        make = [*as_owner, str(binaries / "initdb"), "-D", str(home / "data"), "-U", "whest", "--auth=trust"]
        subprocess.run(make, check=True, capture_output=True, cwd="/")
        options = f"-k {home} -c listen_addresses=''"
        control = [*as_owner, str(binaries / "pg_ctl"), "-D", str(home / "data"), "-w"]
        start = [*control, "-l", str(home / "log"), "-o", options, "start"]
        subprocess.run(start, check=True, capture_output=True, cwd="/")
        try:
            yield f"postgresql+psycopg://whest@/postgres?host={home}"
        finally:
            subprocess.run([*control, "-m", "fast", "stop"], check=True, capture_output=True, cwd="/")
    finally:
        shutil.rmtree(home)


@pytest.fixture
def mlflow_server(postgres: str, tmp_path: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    store = ("--backend-store-uri", postgres, "--artifacts-destination", str(tmp_path / "artifacts"))
    command = [str(BIN / "mlflow"), "server", *store, "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    environment = os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true"}
    with (tmp_path / "server.log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=tmp_path)
        try:
            _wait_for(f"http://127.0.0.1:{port}/health", server, tmp_path / "server.log")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(60)


def _wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 300
    while True:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except OSError:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.5)


def run_at_once(whest_process: Whest, uri: str, n_jobs: int, *words: str) -> tuple[Any, dict[str, Any], list[Any]]:
    """What the command said, and of its store every run by its id, and the reports that can be read back."""
    from mlflow import MlflowClient

    from whest.tracking.recorded import find_runs

    parallel = ("hydra/launcher=cores", f"hydra.launcher.n_jobs={n_jobs}", "tracking=mlflow", f"tracking.uri={uri}")
    outcome = whest_process(*EIGHT, *words, *parallel)
    assert outcome.exit_code == 0, outcome.err
    assert "did not store" not in outcome.out + outcome.err
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("whest")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    return outcome, {run.info.run_id: run for run in runs}, find_runs(client, [experiment.experiment_id])


def test_four_jobs_at_a_time_share_an_mlflow_server_on_postgresql(
    whest_process: Whest, mlflow_server: str, expected: list[tuple[str, ...]]
) -> None:
    outcome, runs, recorded = run_at_once(whest_process, mlflow_server, 4)
    assert scores(outcome.sweep) == expected
    assert [run.info.status for run in runs.values()] == ["FINISHED"] * 9
    assert [run.problem for run in recorded] == [None] * 8, "read back as they were written"
    ids = ",".join(run.run_id for run in recorded if run.report["run_config"]["flop_budget"] == 1e7)
    words = ("job=compare", f"compare.runs=[{ids}]", "tracking=mlflow", f"tracking.uri={mlflow_server}")
    compared = whest_process(*words)
    assert compared.exit_code == 0, compared.err
    assert "mean_prop" in compared.out


def test_sixteen_jobs_at_a_time_lose_nothing_on_postgresql(whest_process: Whest, mlflow_server: str) -> None:
    _, runs, recorded = run_at_once(whest_process, mlflow_server, 16, "seed=1,2")
    assert [run.info.status for run in runs.values()] == ["FINISHED"] * 17
    assert [run.problem for run in recorded] == [None] * 16
    for run in recorded:
        assert runs[run.run_id].data.metrics["score"] == run.report["results"]["score"], run.run_id


def test_optuna_tunes_a_knob_and_a_failing_trial_hides_no_other(whest_process: Whest, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TUNED)
    tune = ("-m", "debug=tiny", "truth=plain", "hydra/sweeper=tune", "estimator=file", "estimator.path=mine.py")
    knob = ("isolation=none", "+estimator.level=interval(0.0,1.0)", "hydra.sweeper.n_trials=8")
    outcome = whest_process(*tune, *knob)
    with (outcome.sweep / "sweep.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8, outcome.err
    levels = {float(row["overrides"].partition("level=")[2].split()[0]): row["status"] for row in rows}
    assert all((status == "failed") == (level > 0.8) for level, status in levels.items())
    assert "failed" in levels.values(), "else this shows nothing: choose another seed"
    assert [row["best"] for row in rows].count("best") == 1
