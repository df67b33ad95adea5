"""`job=doctor`: real damage is found and reported with a remedy."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.support.places import ROOT
from whest.checks.doctor.machine import check_devices, check_sandbox, judge_protections, judge_rate
from whest.checks.doctor.packages import check_options, check_packages, check_python, check_requirement
from whest.checks.doctor.programs import check_kept_programs, judge_round_trip
from whest.checks.doctor.storage import check_caches, check_disk, check_store, check_writable, judge_disk
from whest.checks.finding import Finding
from whest.cli.doctor import look_at
from whest.isolation.protections import NAMES
from whest.mlp import SeedProtocol, draw_mlp
from whest.tracking.runs import MlflowTracking, NoTracking
from whest.truth.cache import TruthCache
from whest.truth.reference import ReferenceTruth

pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning")
"""MLflow's own."""
Whest = Callable[..., Any]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> MlflowTracking:
    """A real store with two runs in it."""
    tracking = MlflowTracking(None, "whest", tmp_path_factory.mktemp("store"))
    client, experiment_id = tracking.connect()
    for _ in range(2):
        client.set_terminated(client.create_run(experiment_id).info.run_id)
    return tracking


def test_a_store_is_opened_and_its_runs_counted(store: MlflowTracking, tmp_path: Path) -> None:
    found = check_store(store)
    assert (found.status, found.remedy) == ("ok", "")
    assert "holds 2 runs" in found.detail
    absent = check_store(MlflowTracking(None, "whest", tmp_path))
    assert absent.status == "ok"
    assert "does not exist yet" in absent.detail
    assert list(tmp_path.iterdir()) == [], "looking makes no store"
    assert check_store(NoTracking(tmp_path)).status == "ok"


def _garbage(database: Path) -> None:
    database.write_bytes(b"this is no database" * 100)


def _truncated(database: Path) -> None:
    database.write_bytes(database.read_bytes()[:20_000])


def _without_tables(database: Path) -> None:
    database.unlink()
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("create table other (x)")


@pytest.mark.parametrize("spoil", [_garbage, _truncated, _without_tables])
def test_a_corrupt_store_is_broken_and_stays_as_it_is(
    store: MlflowTracking, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    database = tmp_path / "mlflow.db"
    shutil.copy(store.outputs / "mlflow.db", database)
    spoil(database)
    before = database.read_bytes()
    found = check_store(MlflowTracking(None, "whest", tmp_path))
    assert found.status == "fail"
    assert str(database) in found.remedy
    assert database.read_bytes() == before


def test_a_folder_that_cannot_be_written_is_broken(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file" / "outputs", Path("/proc/whest/outputs")):
        found = check_writable(folder, "outputs")
        assert found.status == "fail"
        assert str(folder) in found.detail
        assert "outputs_dir" in found.remedy


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_broken(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert check_writable(tmp_path, "outputs").status == "fail"


def test_looking_leaves_nothing_behind(tmp_path: Path) -> None:
    assert check_writable(tmp_path / "a" / "b", "outputs").status == "ok"
    assert {finding.status for finding in check_caches(tmp_path / "a")} == {"ok"}
    assert list(tmp_path.iterdir()) == []


def test_a_bogus_cache_is_named(tmp_path: Path) -> None:
    truth = tmp_path / "cache" / "truth"
    truth.mkdir(parents=True)
    (truth / "abc.npz").write_bytes(b"not an archive")
    (tmp_path / "cache" / "xla").write_text("a file where a folder should be")
    sampled, compiled = check_caches(tmp_path)
    assert (sampled.status, compiled.status) == ("warn", "fail")
    assert "abc.npz" in sampled.detail
    assert "job=clean" in sampled.remedy


def test_a_truth_that_a_run_cached_is_sound_and_one_with_another_byte_is_not(tmp_path: Path) -> None:
    sampler, mlp = ReferenceTruth(64), draw_mlp(SeedProtocol().streams(4), 3, 2, "test")
    TruthCache(tmp_path / "cache" / "truth").draw(sampler, mlp)
    (entry,) = (tmp_path / "cache" / "truth").glob("*.npz")
    assert check_caches(tmp_path)[0].status == "ok"
    content = bytearray(entry.read_bytes())
    content[len(content) // 2] ^= 1
    entry.write_bytes(content)
    sampled = check_caches(tmp_path)[0]
    assert sampled.status == "warn"
    assert f"1 of them damaged ({entry.name})" in sampled.detail


def test_a_full_disk_is_broken_and_little_room_worth_a_word(tmp_path: Path) -> None:
    assert [judge_disk(free, tmp_path).status for free in (0, 1e9, 1e11)] == ["fail", "warn", "ok"]
    assert "GB free" in check_disk(tmp_path / "not" / "there").detail


def test_a_package_that_is_absent_or_too_old_is_broken() -> None:
    absent = check_requirement(Requirement("whest-no-such-package>=1"))
    old = check_requirement(Requirement("jax>=99"))
    assert (absent.status, old.status, check_requirement(Requirement("jax>=0.1")).status) == ("fail", "fail", "ok")
    assert "jax>=99 is needed" in old.detail
    assert "make setup" in old.remedy
    assert {finding.status for finding in [check_python(), *check_packages()]} == {"ok"}


def test_a_device_that_is_not_there_is_broken() -> None:
    assert check_devices("cpu").status == "ok"
    found = check_devices("rocm")
    assert found.status == "fail"
    assert "device=cpu" in found.remedy


def test_speed_is_judged_by_the_cores_there_are() -> None:
    assert judge_rate("float32", 50, 30, cores=2).status == "ok"
    slow = judge_rate("float32", 50, 30, cores=16)
    assert slow.status == "warn"
    assert "16 cores" in slow.detail


def test_what_the_kernel_does_not_grant_is_listed_with_the_remedy() -> None:
    found = {finding.name: finding for finding in judge_protections({"network": "seccomp", "files": "landlock"})}
    assert list(found) == [f"walls: {name}" for name in NAMES]
    assert found["walls: network"].status == "ok"
    assert "seccomp: tried" in found["walls: network"].detail
    assert "user namespaces" in found["walls: files"].detail  # a second wall can be had
    assert found["walls: memory"].status == "warn"
    assert "memory_limit_mb" in found["walls: memory"].remedy


def test_bwrap_is_named_where_it_could_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "install bubblewrap" in _files("landlock")
    (tmp_path / "bwrap").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    assert "bwrap is installed and was tried" in _files("landlock")
    assert _files("bwrap+landlock").startswith("bwrap+landlock: tried, and a worker is kept from")
    assert "user namespaces" not in _files("bwrap+landlock")


def _files(held: str) -> str:
    return judge_protections({"files": held}, "linux")[0].detail


def test_macos_is_told_to_use_linux_or_to_waive_the_walls() -> None:
    found = judge_protections({"memory": "polled"}, "darwin")
    assert [finding.status for finding in found] == ["warn", "warn", "warn", "ok", "warn"]
    assert all("Linux" in it.remedy and "isolation.require=[]" in it.remedy for it in found if it.status == "warn")


def test_each_protection_is_tried_in_a_worker() -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("the walls are Linux's")
    found = check_sandbox()
    assert [finding.status for finding in found] == ["ok"] * len(NAMES), found


def test_options_say_what_they_are_for(tmp_path: Path) -> None:
    found = {finding.name: finding for finding in check_options(tmp_path)}
    assert "make peer" in found["WhestBench"].detail
    assert {"ray", "Chromium"} <= set(found)
    assert {finding.status for finding in found.values()} == {"ok"}


def test_a_check_that_breaks_down_is_a_finding_and_the_others_go_on() -> None:
    first, second = look_at([("odd", lambda: 1 // 0), ("even", lambda: Finding("even", "ok", ""))])  # type: ignore[list-item, return-value]
    assert (first.name, first.status, second.status) == ("odd", "fail", "ok")
    assert "ZeroDivisionError" in first.detail


def test_the_job_fails_where_something_is_broken(whest: Whest, outputs: Path, tmp_path: Path) -> None:
    outputs.mkdir()
    _garbage(outputs / "mlflow.db")
    outcome = whest("job=doctor", "output=found.json")
    assert outcome.exit_code == 1
    document = json.loads((tmp_path / "found.json").read_text())
    assert [f["name"] for f in document["findings"] if f["status"] == "fail"] == ["MLflow store"]
    assert "fail" in outcome.out
    assert "→ move" in outcome.out
    (outputs / "mlflow.db").unlink()
    mended = whest("job=doctor")
    assert mended.exit_code == 0, mended.out
    assert "matmul float64" in mended.out


@pytest.mark.slow
def test_a_really_full_disk_is_seen(tmp_path: Path) -> None:
    """A file system of 16 kB that is full."""
    place = tmp_path / "full"
    place.mkdir()
    script = (
        "from pathlib import Path; from whest.checks.doctor.storage import check_disk, check_writable;"
        f"p = Path({str(place)!r}); print(check_writable(p, 'outputs').status, check_disk(p).status)"
    )
    fill = f"mount -t tmpfs -o size=16k tmpfs {place} && (cat /dev/zero > {place}/filler 2>/dev/null; true)"
    shell = f'{fill} && {sys.executable} -c "$0"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", shell, script]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if "unshare" in ended.stderr or "mount" in ended.stderr:
        pytest.skip(f"no namespaces here: {ended.stderr.splitlines()[0]}")
    assert ended.stdout.split() == ["fail", "fail"], ended.stderr


def test_a_compiled_program_is_kept_and_read_back_by_another_process() -> None:
    found = check_kept_programs()
    assert (found.status, found.remedy) == ("ok", ""), found


@pytest.mark.parametrize(
    ("writer", "reader", "status", "words"),
    [
        ((0, "[1.5, false]"), (-11, ""), "fail", "could not read back"),
        ((1, ""), (1, ""), "fail", "could not compile and keep"),
        ((0, "[1.5, false]"), (0, "[1.25, true]"), "fail", "1.25, and 1.5"),
        ((0, "[1.5, false]"), (0, "[1.5, false]"), "warn", "compiled it anew"),
    ],
)
def test_a_program_that_does_not_come_back_is_found(
    writer: tuple[int, str], reader: tuple[int, str], status: str, words: str
) -> None:
    found = judge_round_trip(*(subprocess.CompletedProcess([], code, out, "") for code, out in (writer, reader)))
    assert found.status == status
    assert words in found.detail
    assert found.remedy
