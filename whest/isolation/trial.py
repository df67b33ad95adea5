"""A worker that does nothing but say what it is kept from: for `job=doctor`.

The module that the launcher continues with, so it needs the standard library alone until `try_walls` is called.
"""

from typing import TYPE_CHECKING, Any

from whest.isolation.wire import Pipe, frame

if TYPE_CHECKING:
    from pathlib import Path

    from whest.isolation.launch import Launch

LIMIT_MB = 1000.0


def main(role: str, read_fd: int, write_fd: int, start: dict[str, Any], protections: dict[str, str]) -> None:
    """The worker's side: what its launcher found."""
    pipe = Pipe(read_fd, write_fd)
    pipe.write(frame({"message": {"ready": True, "protections": protections}, "arrays": []}))
    pipe.read(1)  # until the host closes its end


def try_walls() -> dict[str, str]:
    """The host's side: start such a worker as any other, and ask what was tried and held."""
    from whest.isolation.process import Worker

    worker = Worker("trial", TrialWorld())
    try:
        worker.wait_until_ready()
        return worker.protections
    finally:
        worker.close()


class TrialWorld:
    """The surroundings of a white-box worker, without an estimator."""

    def __init__(self) -> None:
        from whest.limits import WorkerLimits

        self.limits, self.require = WorkerLimits(None, None, LIMIT_MB), ()

    def launch(self, role: str, scratch: "Path") -> "Launch":
        from whest.estimator.spec import BUNDLED, EstimatorSpec
        from whest.isolation.furniture import devices, furniture, importable
        from whest.isolation.launch import Launch, Room, bare_environment

        spec = EstimatorSpec("trial", "traced", f"{BUNDLED}.zeros.Zeros", None, {})
        allowed = furniture(spec)
        room, paths = Room(allowed, devices=devices("cpu")), importable(spec, allowed)
        return Launch("whest.isolation.trial", bare_environment(scratch), {}, room, paths=paths)
