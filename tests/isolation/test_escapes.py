"""Hostile programs behind the real walls: as an ordinary user and as root, with namespaces and where they are refused.

Nothing here skips on Linux: a kernel since 5.13 gives Landlock and seccomp to everybody. Whether the snippets could
escape at all is shown by running them without walls.
"""

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from typing import Any

import pytest

from tests.support.escapes import ATTEMPTS, FILES, NETWORK, PROCESSES
from tests.support.hostile_ends import ENDS, HUGE
from tests.support.places import ROOT
from whest.isolation.protections import NAMES

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the walls are Linux's")

ORDINARY = 54321
SUPPORT = ROOT / "tests" / "support"
WHO = ["ordinary", "root"] if os.geteuid() == 0 else ["ordinary"]
BARE = [(who, words) for who in WHO for words in ((), ("bare",))]
BY_BWRAP = ("ordinary", ("bwrap",))
"""Where bwrap is given namespaces and our own worker isn't. It needs bubblewrap (`make system-deps`)."""
PAIRS = [pytest.param(pair, id="-".join((pair[0], *pair[1]))) for pair in BARE]
SLOW_PAIRS = [
    pytest.param(pair, id="-".join((pair[0], *pair[1])), marks=pytest.mark.slow) for pair in (*BARE, BY_BWRAP)
]
MECHANISMS = {
    (): {"files": "namespaces+landlock", "network": "namespaces+seccomp", "disk": "tmpfs"},
    ("bare",): {"files": "landlock", "network": "seccomp", "disk": "rlimit+polled"},
    ("bwrap",): {"files": "bwrap+landlock", "network": "bwrap+seccomp", "disk": "rlimit+polled"},
}
NEEDS_ROOT = {
    *("/etc/shadow", "core_pattern", "sysrq", "the kernel's messages", "a mount", "another root", "becoming root"),
    *("planting a module beside ours", "writing our code", "writing Python's library", "a real user id of root"),
    *("capabilities", "perf events"),
}
"""What an ordinary user couldn't do without walls either, if the checkout isn't theirs."""
NEVER_HERE = {
    *("through /proc/1/root", "typing into a terminal", "a core file", "a system call of the other kind", "sysrq"),
    *("the host's memory by a system call", "a user namespace", "bpf", "perf events", "userfaultfd", "io_uring"),
    *("a file handle", "the disk itself", "the kernel's messages"),
}
"""What depends on the machine, or is a property of the process: no control for these."""


@cache
def ran(job: str, who: str, *words: str) -> Any:
    """What `escape_run.py` found, as this user."""
    with tempfile.TemporaryDirectory(prefix="whest-escapes-") as folder:
        command = [sys.executable, str(SUPPORT / "escape_run.py"), job, folder, *words]
        if os.geteuid() == 0:
            uid = ORDINARY if who == "ordinary" else 0
            os.chown(folder, uid, uid)
            command = [sys.executable, str(SUPPORT / "as_user.py"), str(uid), *command]
        ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return json.loads(ended.stdout)


def memory_of(run: Any) -> str:
    """Memory is always polled; a control group comes first where the user may make one."""
    return "cgroup+polled" if run["has_group"] else "polled"


@pytest.mark.parametrize("pair", [*PAIRS, SLOW_PAIRS[-1]])
@pytest.mark.parametrize("name", sorted(ATTEMPTS))
def test_an_attempt_gets_nothing(name: str, pair: tuple[str, tuple[str, ...]]) -> None:
    answer = ran("walls", pair[0], *pair[1])["answers"][name]
    assert answer["got"] is None, answer


@pytest.mark.parametrize("pair", [*PAIRS, SLOW_PAIRS[-1]])
def test_every_protection_was_tried_and_holds(pair: tuple[str, tuple[str, ...]]) -> None:
    run = ran("walls", pair[0], *pair[1])
    found = run["protections"]
    assert found == {**MECHANISMS[pair[1]], "processes": "seccomp", "memory": memory_of(run)}
    assert tuple(found) == NAMES


@pytest.mark.slow
def test_without_walls_the_attempts_succeed() -> None:
    """Else a test above could not fail. Without walls nothing is claimed either."""
    control = ran("control", "root" if os.geteuid() == 0 else "ordinary")
    excused = NEVER_HERE | (NEEDS_ROOT if os.geteuid() != 0 else set())
    assert [name for name, answer in control["answers"].items() if not answer["got"] and name not in excused] == []
    assert control["protections"] == {}


@pytest.fixture(params=SLOW_PAIRS)
def ends(request: pytest.FixtureRequest) -> dict[str, Any]:
    who, words = request.param
    return ran("ends", who, *words)


def test_the_host_survives_every_end(ends: dict[str, Any]) -> None:
    """Whatever a worker does last: it is gone, its folder too, and the host did not wait for it."""
    messages = ends["messages"]
    for name, end in {**ends, **messages}.items():
        if name in ("messages", "host MB"):
            continue
        assert (end["alive"], end["left"]) == (False, []), name
        assert "the answer" not in end["output"], name
    assert messages["host MB"] < 500
    assert set(HUGE) < set(messages)


def test_messages_beyond_their_bounds_are_refused(ends: dict[str, Any]) -> None:
    for name in HUGE:
        assert "message was refused" in ends["messages"][name]["failure"], name


def test_disk_and_memory_are_limited(ends: dict[str, Any]) -> None:
    full = ends["full_disk"]
    assert "No space left" in str(full["answer"]) or "scratch folder holds more" in full["failure"]
    assert "OUT_OF_MEMORY" in ends["more_memory"]["failure"]


def test_output_comes_by_a_pipe_and_nothing_by_a_name(ends: dict[str, Any]) -> None:
    assert ends["links_for_outputs"]["output"] == "printed\n"
    assert ends["links_for_outputs"]["failure"] is None
    assert ends["endless_output"]["output"].endswith("last\n")
    assert len(ends["endless_output"]["output"]) <= 4000
    assert ends["a_false_count"]["spent"] == 0.0
    assert ends["a_false_count"]["answer"]["answers"]["it"]["got"] is None  # the counter can't be made shorter


def test_there_are_enough_of_them() -> None:
    assert min(len(FILES), len(NETWORK), len(PROCESSES)) >= 8
    assert len(ATTEMPTS) + len(ENDS) + len(HUGE) >= 75


def test_a_machine_without_the_means_says_so() -> None:
    """Without namespaces, Landlock and filters nothing is claimed, and a run that requires them is refused."""
    found = ran("nothing", "ordinary", "bare")
    held = {"files": "", "network": "", "processes": "", "memory": memory_of(found), "disk": "rlimit+polled"}
    assert found["protections"] == held
    assert "isolation.require=files,network: this machine does not keep the worker from" in found["refused"]
    assert "job=doctor" in found["refused"]
    assert "isolation.require=[]" in found["refused"]
