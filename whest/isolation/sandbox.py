"""Python's own refusals in a worker: they come with a message, before the kernel's walls come with an error number."""

import _thread
import sys
import threading
from typing import Any, NoReturn

FORBIDDEN_EVENTS = {
    "os.fork": "fork",
    "os.forkpty": "fork",
    "os.posix_spawn": "start programs",
    "os.exec": "start programs",
    "os.system": "start programs",
    "subprocess.Popen": "start programs",
    "pty.spawn": "start programs",
    "_thread.start_new_thread": "start threads",
    "os.kill": "signal processes",
    "os.killpg": "signal processes",
    "ctypes.dlopen": "load foreign libraries",
    "socket.connect": "use the network",
    "socket.bind": "use the network",
}
"""Python's audit events that an estimator has no business raising, and what each attempt was."""


def forbid_escapes() -> None:
    """From here on threads, forks, programs, signals and sockets are refused; an audit hook can't be removed."""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        attempt = FORBIDDEN_EVENTS.get(event)
        if attempt is not None:
            raise PermissionError(f"an estimator may not {attempt} ({event})")

    def no_threads(*args: Any, **kwargs: Any) -> NoReturn:
        raise PermissionError("an estimator may not start threads")

    sys.addaudithook(hook)
    for module, name in ((_thread, "start_new_thread"), (_thread, "start_new"), (threading, "_start_new_thread")):
        setattr(module, name, no_threads)  # Python 3.11 raises no audit event for a new thread
