"""Messages between the scorer and its workers: JSON and raw arrays over a pipe, and nothing that could run code.

The other side may be hostile: every size is bounded before memory is taken, every wait has a deadline, and whatever
can't be read as a message closes the channel. The peer's interpreter runs this file too, so it needs NumPy alone.
"""

import json
import math
import os
import select
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import numpy as np

Message = dict[str, Any]

LARGEST_HEADER = 64 * 2**20

LARGEST_ARRAYS = 4 * 2**30

CHUNK = 2**20

LENGTH = struct.Struct("<Q")


def _narrow_floats() -> tuple[Any, ...]:
    """JAX's short floats, where they are installed."""
    if find_spec("ml_dtypes") is None:
        return ()
    import ml_dtypes

    return ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


DTYPES = {
    np.dtype(kind).name: np.dtype(kind)
    for kind in (
        *(np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
        *(np.float16, np.float32, np.float64, np.complex64, np.complex128),
        *_narrow_floats(),
    )
}
"""The kinds of numbers that travel."""


class ChannelClosedError(Exception):
    """The other side is gone, or sent something that isn't a message."""


class DeadlineError(Exception):
    """No answer in time."""


Watch = Callable[[], None]


class Channel:
    """One end of a pair of pipes."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd, self._write_fd = read_fd, write_fd
        os.set_blocking(write_fd, False)

    def close(self) -> None:
        for fd in (self._read_fd, self._write_fd):
            with suppress(OSError):
                os.close(fd)

    def send(
        self,
        message: Message,
        arrays: Sequence[np.ndarray] = (),
        deadline: float | None = None,
        watch: Watch | None = None,
        tick_s: float = 0.2,
    ) -> None:
        contiguous = [np.asarray(array, order="C") for array in arrays]
        shapes = [[array.dtype.name, list(array.shape)] for array in contiguous]
        header = json.dumps({"message": message, "arrays": shapes}).encode()
        for data in (LENGTH.pack(len(header)) + header, *(array.tobytes() for array in contiguous)):
            self._write(data, deadline, watch, tick_s)

    def receive(
        self,
        deadline: float | None = None,
        watch: Watch | None = None,
        tick_s: float = 0.2,
        largest_arrays: int = LARGEST_ARRAYS,
    ) -> tuple[Message, list[np.ndarray]]:
        """The next message. `watch` is called every tick while waiting and may raise to stop."""
        (length,) = LENGTH.unpack(self._read(LENGTH.size, deadline, watch, tick_s))
        if length > LARGEST_HEADER:
            raise ChannelClosedError(f"a message of {length} bytes is more than is allowed")
        message, shapes = _read_header(bytes(self._read(length, deadline, watch, tick_s)))
        sizes = [dtype.itemsize * math.prod(shape) for dtype, shape in shapes]
        if sum(sizes) > largest_arrays:
            raise ChannelClosedError(f"arrays of {sum(sizes)} bytes are more than is allowed")
        raws = [self._read(size, deadline, watch, tick_s) for size in sizes]
        return message, [
            np.frombuffer(raw, dtype).reshape(shape) for raw, (dtype, shape) in zip(raws, shapes, strict=True)
        ]

    def _write(self, data: bytes, deadline: float | None, watch: Watch | None, tick_s: float) -> None:
        view = memoryview(data)
        while len(view):
            if not self._wait([], [self._write_fd], deadline, watch, tick_s):
                continue
            try:
                view = view[os.write(self._write_fd, view[:CHUNK]) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise ChannelClosedError(f"the worker's pipe is closed ({error})") from error

    def _read(self, size: int, deadline: float | None, watch: Watch | None, tick_s: float) -> bytearray:
        """Exactly that many bytes; memory is taken as they arrive, not as they are announced."""
        data = bytearray()
        while len(data) < size:
            if self._wait([self._read_fd], [], deadline, watch, tick_s):
                piece = os.read(self._read_fd, min(CHUNK, size - len(data)))
                if not piece:
                    raise ChannelClosedError("the other side closed its pipe")
                data += piece
        return data

    def _wait(
        self, reading: list[int], writing: list[int], deadline: float | None, watch: Watch | None, tick_s: float
    ) -> bool:
        """Whether the pipe is ready within a tick."""
        patience = tick_s if deadline is None else min(tick_s, deadline - time.monotonic())
        if patience <= 0:
            raise DeadlineError
        readable, writable, _ = select.select(reading, writing, [], patience)
        if watch is not None:
            watch()
        return bool(readable or writable)


def _read_header(data: bytes) -> tuple[Message, list[tuple[np.dtype, tuple[int, ...]]]]:
    try:
        header = json.loads(data)
        if b"\\ud" in data:  # half a character would break whoever prints it
            header = json.loads(json.dumps(header, ensure_ascii=False).encode(errors="replace"))
        message, entries = header["message"], header["arrays"]
        if not isinstance(message, dict) or not isinstance(entries, list):
            raise ValueError("a message is an object with a list of arrays")
        return message, [_read_shape(entry) for entry in entries]
    except (Exception, RecursionError) as error:
        raise ChannelClosedError(f"a message could not be read ({type(error).__name__})") from None


def _read_shape(entry: Any) -> tuple[np.dtype, tuple[int, ...]]:
    name, shape = entry
    if not all(type(n) is int and 0 <= n < 2**40 for n in shape) or len(shape) > 32:
        raise ValueError("a shape must be whole numbers")
    return DTYPES[name], tuple(shape)
