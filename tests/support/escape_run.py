"""Runs hostile snippets in a worker and prints what they got, as JSON: `escape_run.py JOB FOLDER [bare|bwrap]`.

A program of its own, so that the tests can start it as another user. With `bare` the kernel refuses namespaces to
it and to its workers, as Docker does. With `bwrap` it refuses the one call by which a worker asks for them; bubblewrap
asks by another, and so is given what workers aren't.
"""

import ctypes
import errno
import json
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.support.escapes import ATTEMPTS  # noqa: E402
from tests.support.hostile_ends import ENDS  # noqa: E402
from whest.errors import UnprotectedError  # noqa: E402
from whest.estimator.spec import EstimatorSpec  # noqa: E402
from whest.isolation.cgroup import usable_parent  # noqa: E402
from whest.isolation.furniture import devices, furniture, own_folder, private_entries  # noqa: E402
from whest.isolation.launch import Launch, Room, bare_environment  # noqa: E402
from whest.isolation.process import Worker  # noqa: E402
from whest.isolation.walls import seccomp  # noqa: E402
from whest.limits import WorkerLimits  # noqa: E402

AT = 0 if os.uname().machine == "x86_64" else 1
PRCTL = (157, 167)
LIMITS = WorkerLimits(20.0, 60.0, 2000)


@dataclass(frozen=True)
class ProbeWorld:
    """A worker that runs snippets, in the room of a white-box worker."""

    told: dict[str, Any]
    folder: Path = Path("/nonexistent")
    hidden: tuple[Path, ...] = ()
    has_walls: bool = True
    limits: WorkerLimits = LIMITS
    require: tuple[str, ...] = ()
    scratch_bytes: int = 16 * 2**20

    def launch(self, role: str, scratch: Path) -> Launch:
        probes = ROOT / "tests" / "support"
        spec = EstimatorSpec("file", "traced", None, self.folder / "project" / "estimator.py", {})
        hidden = [*self.hidden, *private_entries(own_folder(spec))]
        allowed = [*furniture(spec, hidden), probes]
        room = Room(allowed, hidden, devices=devices("cpu"), scratch_bytes=self.scratch_bytes)
        paths = [str(probes), str(ROOT), *(path for path in sys.path if "site-packages" in path)]
        start = {"told": self.told}
        return Launch("probe", bare_environment(scratch), start, room if self.has_walls else None, paths=paths)


def refuse_calls(*numbers: int, more: list[seccomp.Instruction] | None = None) -> None:
    """A filter as Docker's, which this process and its workers can't take off."""
    lines: list[seccomp.Instruction] = [(seccomp.LOAD, 0, 0, 0)]
    for number in numbers:
        lines += seccomp._rule(number, [(seccomp.RETURN, 0, 0, seccomp.ERRNO | errno.EPERM)])
    seccomp.install(seccomp.packed([*lines, *(more or ()), (seccomp.RETURN, 0, 0, seccomp.ALLOW)]))


def surroundings(folder: Path) -> tuple[dict[str, Any], list[Any]]:
    """Things worth stealing, and what keeps them there."""
    outputs = folder / "outputs"
    outputs.mkdir(exist_ok=True)
    (folder / "project").mkdir(exist_ok=True)
    (folder / "project" / "estimator.py").write_text("")
    for name in ("outputs/truth.npz", "secret", "doomed", "project/.env"):
        (folder / name).write_text("the answer")
    shared = Path("/dev/shm") / f"whest-secret-{os.getpid()}"
    shared.write_text("the answer")
    server = socket.create_server(("127.0.0.1", 0))
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0whest-{os.getpid()}")
    abstract.listen()
    secret = ctypes.create_string_buffer(b"secrets!")
    told = {
        "truth": str(outputs / "truth.npz"), "outputs": str(outputs), "secret": str(folder / "secret"),
        "doomed": str(folder / "doomed"), "host": os.getpid(), "port": server.getsockname()[1],
        "abstract": f"whest-{os.getpid()}", "shm": shared.name, "package": str(ROOT / "whest"),
        "address": ctypes.addressof(secret), "dotted": str(folder / "project" / ".env"),
        "is_alone": "bare" not in sys.argv or os.getuid() == 0,
    }  # fmt: skip
    return told, [server, abstract, secret, shared]


def run_attempts(folder: Path, has_walls: bool) -> dict[str, Any]:
    """Every snippet in one worker, while a second worker is its neighbour."""
    os.chdir(folder)
    told, kept = surroundings(folder)
    neighbour = Worker("probe", ProbeWorld(told))
    worker = Worker("probe", ProbeWorld(told, folder, (folder / "outputs",), has_walls))
    try:
        worker.wait_until_ready()
        reply, _ = worker.ask({"sources": ATTEMPTS}, timeout_s=60)
        found = {"protections": worker.protections, "has_group": usable_parent() is not None}
        return {"uid": os.getuid(), "answers": reply["answers"], **found}
    finally:
        worker.close()
        neighbour.close()
        kept[-1].unlink(missing_ok=True)


def run_without_means(folder: Path) -> dict[str, Any]:
    """A kernel that gives neither Landlock nor filters: nothing is claimed, nothing that requires them is run."""
    no_filters = seccomp._rule(PRCTL[AT], [(seccomp.LOAD, 0, 0, 16), *seccomp._equal_to_any((22,), refuse=True)])
    refuse_calls(444, more=no_filters)
    told, kept = surroundings(folder)
    worker = Worker("probe", ProbeWorld(told))
    worker.wait_until_ready()
    found = dict(worker.protections)
    worker.close()
    strict = Worker("probe", ProbeWorld(told, require=("files", "network")))
    try:
        strict.wait_until_ready()
        refused = ""
    except UnprotectedError as error:
        refused = str(error)
    strict.close()
    kept[-1].unlink(missing_ok=True)
    return {"protections": found, "refused": refused, "has_group": usable_parent() is not None}


def main(job: str, folder: str, *words: str) -> None:
    os.environ["HOME"] = folder
    if "bare" in words:
        refuse_calls(seccomp.REFUSED["unshare"][AT], seccomp.REFUSED["mount"][AT])
    if "bwrap" in words:
        refuse_calls(seccomp.REFUSED["unshare"][AT])
    if job == "nothing":
        found = run_without_means(Path(folder))
    elif job in ("walls", "control"):
        found = run_attempts(Path(folder), job == "walls")
    else:
        found = {name: end(Path(folder), ProbeWorld) for name, end in ENDS.items()}
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
