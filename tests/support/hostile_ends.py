"""Hostile programs that end badly: each leaves the host as it was, in bounded time and memory."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from whest.isolation.messages import WorkerFailedError
from whest.isolation.process import Worker

World = Callable[..., Any]

HUGE = {
    "many empty lists": "b'{\"message\": {\"a\": [' + b'[],' * 19_000_000 + b'0]}, \"arrays\": []}'",
    "a program's size of lists": "b'{\"message\": {\"a\": [' + b'[],' * 8_000_000 + b'0]}, \"arrays\": []}'",
    "a long failure": 'b\'{"message": {"failure": "\' + b\'x\' * 20_000_000 + b\'"}, "arrays": []}\'',
    "wide characters": 'b\'{"message": {"a": "\' + b\'\\ud83d\\ude00\' * 2_100_000 + b\'"}, "arrays": []}\'',
    "many arrays": 'b\'{"message": {}, "arrays": [\' + b\'["int8",[0]],\' * 1_400_000 + b\'["int8",[0]]]}\'',
    "a large array": 'b\'{"message": {}, "arrays": [["int8", [3000000000]]]}\'',
    "deep lists": "b'{\"message\": {\"a\": ' + b'[' * 900 + b']' * 900 + b'}, \"arrays\": []}'",
    "long names": "b'{\"message\": {\"' + b'n' * 1_000_000 + b'\": 1}, \"arrays\": []}'",
}

SEND = """
import struct
header = HEADER
data = memoryview(struct.pack('<Q', len(header)) + header)
os.set_blocking(write_fd, True)
while data:
    data = data[os.write(write_fd, data):]
os._exit(0)
"""


def asked(world: Any, source: str, timeout_s: float = 20.0) -> dict[str, Any]:
    """What became of a worker that was given one snippet, and what it printed."""
    worker, started = Worker("probe", world), time.monotonic()
    answer: dict[str, Any] = {}
    try:
        worker.wait_until_ready()
        answer = worker.ask({"sources": {"it": source}}, timeout_s=timeout_s)[0]
        failure = None
    except WorkerFailedError as error:
        failure = f"{error.failure.code}: {error.failure.message}"
    spent, output = worker.flops_spent(), worker.output()
    worker.close()
    left = [path for path in (worker.scratch.parent,) if path.exists()]
    return {
        "failure": failure, "answer": answer, "spent": spent, "output": output, "seconds": time.monotonic() - started,
        "left": [str(path) for path in left], "alive": _is_alive(worker.pid),
    }  # fmt: skip


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def deep_folders(folder: Path, world: World) -> Any:
    source = "for _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\nopen('f', 'w').close()\nos._exit(0)"
    return asked(world({}), source)


def closed_folders(folder: Path, world: World) -> Any:
    source = "os.makedirs('a/b/c')\nopen('a/b/c/f', 'w').close()\nos.mkfifo('fifo')\ngot = 1\nos._exit(0)"
    return asked(world({}), source)


def full_disk(folder: Path, world: World) -> Any:
    source = (
        "n = 0\nimport time\n"
        "for i in range(64):\n"
        "    with open('f%d' % i, 'wb') as file:\n        n += file.write(bytes(2**20)); file.flush()\n"
        "time.sleep(5)\ngot = n"
    )
    return asked(world({}), source)


def links_for_outputs(folder: Path, world: World) -> Any:
    """The names that a host might open: as links to a secret, and as a pipe that nobody writes to."""
    (folder / "secret").write_text("the answer")
    source = (
        "for name in ('output', 'spent', 'error'):\n"
        "    os.symlink(told['secret'], name)\n"
        "os.mkfifo('stdout')\nprint('printed')"
    )
    return asked(world({"secret": str(folder / "secret")}), source)


def a_thread_at_exit(folder: Path, world: World) -> Any:
    source = "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\ngot = 1"
    return asked(world({}), source)


def a_hang_at_exit(folder: Path, world: World) -> Any:
    return asked(world({}), "import atexit, time\natexit.register(time.sleep, 600)\ngot = 1")


def signals_ignored(folder: Path, world: World) -> Any:
    source = "import signal, time\n[signal.signal(s, signal.SIG_IGN) for s in (1, 2, 15)]\ntime.sleep(600)"
    return asked(world({}), source, timeout_s=1.0)


def endless_output(folder: Path, world: World) -> Any:
    source = "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: print('x' * 10000)\nprint('last')"
    return asked(world({}), source)


def a_false_count(folder: Path, world: World) -> Any:
    source = (
        "import struct\nos.pwrite(start['spent'], struct.pack('<d', float('nan')), 0)\n"
        "try:\n    os.ftruncate(start['spent'], 0)\n    got = 'shrunk'\n"
        "except OSError:\n    pass"
    )
    return asked(world({}), source)


def more_memory(folder: Path, world: World) -> Any:
    source = "import time\nkept = []\nwhile True:\n    kept.append(bytearray(2**24)); kept[-1][::4096] = b'x' * 4096"
    return asked(world({}), source + "; time.sleep(0.002)")


def messages(folder: Path, world: World) -> Any:
    """Each is refused; the host's largest size is told after all of them."""
    found = {name: asked(world({}), SEND.replace("HEADER", source), 60.0) for name, source in HUGE.items()}
    status = Path("/proc/self/status").read_text()  # rusage would tell the size of the process that started this one
    found["host MB"] = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    return found


ENDS: dict[str, Callable[[Path, World], Any]] = {
    end.__name__: end
    for end in (
        *(deep_folders, closed_folders, full_disk, links_for_outputs, a_thread_at_exit, a_hang_at_exit),
        *(signals_ignored, endless_output, a_false_count, more_memory, messages),
    )
}
