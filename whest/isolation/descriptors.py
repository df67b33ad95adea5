"""What passes beside the messages: printed output and the FLOPs spent. Both are descriptors opened before the worker
starts, so that nothing in the worker's folder is ever opened by its name.
"""

import fcntl
import math
import os
import struct
import tempfile
from contextlib import suppress

OUTPUT_CHARACTERS = 4000
"""What is kept of a worker's output: its end."""

CHUNK, MOST_CHUNKS = 2**16, 64
"""Read at one go: enough for any pipe, and an end to it where the worker prints faster than we read."""

LARGEST_SPENT = 2.0**100


class Output:
    """The reading end of the pipe that a worker prints to; it keeps the end of what came."""

    def __init__(self) -> None:
        self._read_fd, self.write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        self._tail = b""
        self._since_last_look = 0

    def fileno(self) -> int:
        return self._read_fd

    def drain(self) -> None:
        """Take what is there, without waiting."""
        for _ in range(MOST_CHUNKS):
            try:
                piece = os.read(self._read_fd, CHUNK) if self._read_fd >= 0 else b""
            except BlockingIOError:
                return
            except OSError:
                piece = b""
            if not piece:
                self._close_reading()
                return
            self._tail = (self._tail + piece)[-OUTPUT_CHARACTERS:]
            self._since_last_look += len(piece)

    def since_last_look(self) -> str:
        self.drain()
        n_new, self._since_last_look = min(self._since_last_look, len(self._tail)), 0
        return _printable(self._tail[len(self._tail) - n_new :])

    def tail(self) -> str:
        self.drain()
        return _printable(self._tail)

    def started(self) -> None:
        """The writing end is the worker's alone."""
        os.close(self.write_fd)

    def close(self) -> None:
        self._close_reading()

    def _close_reading(self) -> None:
        if self._read_fd >= 0:
            os.close(self._read_fd)
        self._read_fd = -1


def _printable(data: bytes) -> str:
    return data.decode(errors="replace").replace("\0", "")


class Spent:
    """Eight bytes that an eager worker shares with us, which outlive it."""

    def __init__(self) -> None:
        self.fd = _eight_bytes()

    def read(self) -> float:
        """FLOPs, if the bytes are a number of them. Never mapped: a shorter file would end this process."""
        with suppress(OSError, struct.error):
            (flops,) = struct.unpack("<d", os.pread(self.fd, 8, 0))
            return flops if math.isfinite(flops) and 0 <= flops < LARGEST_SPENT else 0.0
        return 0.0

    def close(self) -> None:
        with suppress(OSError):
            os.close(self.fd)


def _eight_bytes() -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("spent", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, 8)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return fd
    with tempfile.TemporaryFile() as file:
        file.write(bytes(8))
        file.flush()
        return os.dup(file.fileno())
