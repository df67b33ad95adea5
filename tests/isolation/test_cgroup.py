"""A worker's control group: found where there is one, tried before it is named, and gone with its worker.

Version 1 is run for real where this process may make a group. Version 2 is tested as folders: here the kernel has it
without a memory controller.
"""

import os
import signal
from pathlib import Path

import pytest

from tests.support.escape_run import ProbeWorld
from whest.isolation import cgroup, process
from whest.isolation.cgroup import MemoryGroup, Parent, group_around, parents, remove_abandoned, usable_parent
from whest.isolation.messages import WorkerFailedError
from whest.isolation.process import Worker
from whest.limits import WorkerLimits

HERE = parents(cgroup._read(Path("/proc/self/cgroup")), cgroup._read(Path("/proc/self/mountinfo")))
MAY_MAKE = any(os.access(parent.folder, os.W_OK) for parent in HERE)
real = pytest.mark.skipif(not MAY_MAKE, reason="this user may make no group: the tests of polling apply")
LIMIT_MB = 150.0


def unified(folder: Path, controllers: str, limit: str = "max") -> tuple[str, str]:
    """A subtree as systemd gives one to a user, and what /proc would say of it."""
    slice_, scope = folder / "app.slice", folder / "app.slice" / "terminal.scope"
    scope.mkdir(parents=True)
    (slice_ / "cgroup.subtree_control").write_text(controllers)
    (scope / "cgroup.subtree_control").write_text("")
    (scope / "memory.max").write_text(f"{limit}\n")
    return "0::/app.slice/terminal.scope\n", f"30 23 0:26 / {folder} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


def test_a_unified_group_stands_beside_our_own(tmp_path: Path) -> None:
    assert parents(*unified(tmp_path, "cpu memory pids\n")) == [Parent(tmp_path / "app.slice", 2)]


def test_no_group_without_the_controller_or_beside_a_limit(tmp_path: Path) -> None:
    """Beside a group that has a limit of its own, a worker would be free of it."""
    assert parents(*unified(tmp_path / "a", "cpu pids\n")) == []
    assert parents(*unified(tmp_path / "b", "memory\n", limit="1000000000")) == []


def test_both_versions_side_by_side(tmp_path: Path) -> None:
    mounts = (
        f"35 31 0:32 / {tmp_path}/memory rw - cgroup cgroup rw,memory\n"
        f"36 31 0:33 / {tmp_path}/cpu rw - cgroup cgroup rw,cpu\n"
        f"41 31 0:38 / {tmp_path}/unified rw - cgroup2 cgroup2 rw\n"
    )
    assert parents("4:memory:/user/1\n1:cpu:/\n0::/\n", mounts) == [Parent(tmp_path / "memory/user/1", 1)]
    inside = f"35 31 0:32 /docker/abc {tmp_path}/memory rw - cgroup cgroup rw,memory\n"
    assert parents("4:memory:/docker/abc\n", inside) == [Parent(tmp_path / "memory", 1)]
    assert parents("4:memory:/elsewhere\n", inside) == []
    assert parents("", "") == []


def test_a_unified_group_has_a_limit_no_swap_and_ends_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "REMOVAL_S", 0.0)
    kernel = ("memory.max", "memory.swap.max", "memory.oom.group", "memory.events", "cgroup.procs")
    made = tmp_path / f"whest-{os.getpid()}-x"
    made.mkdir()
    for name in kernel:
        (made / name).write_text("")
    monkeypatch.setattr(cgroup.tempfile, "mkdtemp", lambda **_: str(made))
    group = MemoryGroup(Parent(tmp_path, 2), 12345)
    assert [(made / name).read_text() for name in kernel[:3]] == ["12345", "0", "1"]
    group.take(777)
    assert (made / "cgroup.procs").read_text() == "777"
    assert not group.has_killed()
    (made / "memory.events").write_text("low 0\nmax 8\noom 1\noom_kill 1\noom_group_kill 1\n")
    assert group.has_killed()
    (made / "cgroup.procs").write_text("0\n0\n")  # processes that we can't see; a signal to 0 would end the tests
    group.remove()


def test_what_cant_be_made_leaves_polling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "usable_parent", lambda: Parent(tmp_path / "gone", 2))
    assert group_around(os.getpid(), 1000.0) is None
    monkeypatch.setattr(cgroup, "usable_parent", lambda: Parent(tmp_path, 1))
    assert group_around(os.getpid(), None) is None
    (tmp_path / "whest-999999999-left").mkdir()
    (tmp_path / f"whest-{os.getpid()}-mine").mkdir()
    remove_abandoned(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f"whest-{os.getpid()}-mine"]


@real
def test_the_kernel_ends_a_worker_above_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks at its memory here, so that the group alone can end it."""
    monkeypatch.setattr(process, "tree_memory", lambda pid: 1)
    worker = Worker("probe", ProbeWorld({}, tmp_path, limits=WorkerLimits(20.0, 60.0, LIMIT_MB)))
    group = worker._group
    assert group is not None
    try:
        worker.wait_until_ready()
        assert worker.protections["memory"] == "cgroup+polled"
        inside = [Path(f"/proc/{pid}/cgroup").read_text() for pid in (worker.pid, *_children(worker.pid))]
        assert len(inside) == 2
        assert all(group.folder.name in text for text in inside)
        with pytest.raises(WorkerFailedError) as caught:
            worker.ask({"sources": {"it": f"kept = b'x' * {int(3e6 * LIMIT_MB)}\ngot = len(kept)"}}, timeout_s=20)
        assert caught.value.failure.code == "OUT_OF_MEMORY"
        assert "150 MB: killed by the kernel" in caught.value.failure.message
    finally:
        worker.close()
    assert not group.folder.exists()


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@real
def test_a_worker_that_is_killed_leaves_no_group(tmp_path: Path) -> None:
    worker = Worker("probe", ProbeWorld({}, tmp_path))
    group = worker._group
    assert group is not None
    assert group.folder.exists()
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(WorkerFailedError, match="killed by SIGKILL"):
        worker.wait_until_ready()
    assert not group.folder.exists()
    worker.close()


@real
def test_a_group_that_does_not_hold_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trial's process lives, because the limit is set on another group than it is put into."""
    usable_parent.cache_clear()
    monkeypatch.setattr(MemoryGroup, "take", lambda self, pid: None)
    try:
        assert usable_parent() is None
    finally:
        usable_parent.cache_clear()
