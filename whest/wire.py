"""Messages between the scorer and its workers: JSON and raw arrays over a pipe, and nothing that could run code."""

import json
import math
import os
import select
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

Message = dict[str, Any]
LARGEST_HEADER = 256 * 2**20
LARGEST_ARRAYS = 8 * 2**30
ALLOWED_KINDS = "biufc"
LENGTH = struct.Struct("<Q")


class ChannelClosedError(Exception):
    """The other side is gone, or sent something that isn't a message."""


class DeadlineError(Exception):
    """No answer in time."""


class Channel:
    """One end of a pair of pipes."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd, self._write_fd = read_fd, write_fd

    def close(self) -> None:
        for fd in (self._read_fd, self._write_fd):
            with suppress(OSError):
                os.close(fd)

    def send(self, message: Message, arrays: Sequence[np.ndarray] = ()) -> None:
        contiguous = [np.asarray(array, order="C") for array in arrays]
        shapes = [[array.dtype.str, list(array.shape)] for array in contiguous]
        header = json.dumps({"message": message, "arrays": shapes}).encode()
        try:
            self._write(LENGTH.pack(len(header)) + header)
            for array in contiguous:
                self._write(array.tobytes())
        except OSError as error:
            raise ChannelClosedError(f"the worker's pipe is closed ({error})") from error

    def receive(
        self, deadline: float | None = None, watch: Callable[[], None] | None = None, tick_s: float = 0.2
    ) -> tuple[Message, list[np.ndarray]]:
        """The next message. `watch` is called every tick while waiting and may raise to stop."""
        (length,) = LENGTH.unpack(self._read(LENGTH.size, deadline, watch, tick_s))
        if length > LARGEST_HEADER:
            raise ChannelClosedError(f"a message of {length} bytes is more than is allowed")
        try:
            header = json.loads(bytes(self._read(length, deadline, watch, tick_s)))
            message, shapes = header["message"], [_read_shape(entry) for entry in header["arrays"]]
        except (ValueError, KeyError, TypeError) as error:
            raise ChannelClosedError(f"a message could not be read ({error})") from error
        sizes = [dtype.itemsize * math.prod(shape) for dtype, shape in shapes]
        if sum(sizes) > LARGEST_ARRAYS:
            raise ChannelClosedError(f"arrays of {sum(sizes)} bytes are more than is allowed")
        arrays = []
        for (dtype, shape), size in zip(shapes, sizes, strict=True):
            raw = self._read(size, deadline, watch, tick_s)
            arrays.append(np.frombuffer(raw, dtype).reshape(shape))
        return message, arrays

    def _write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while len(view):
            view = view[os.write(self._write_fd, view[: 2**20]) :]

    def _read(self, size: int, deadline: float | None, watch: Callable[[], None] | None, tick_s: float) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while len(view):
            patience = tick_s if deadline is None else min(tick_s, deadline - time.monotonic())
            if deadline is not None and patience <= 0:
                raise DeadlineError
            ready, _, _ = select.select([self._read_fd], [], [], max(patience, 0))
            if watch is not None:
                watch()
            if not ready:
                continue
            count = os.readv(self._read_fd, [view[: 2**20]])
            if count == 0:
                raise ChannelClosedError("the other side closed its pipe")
            view = view[count:]
        return data


def _read_shape(entry: Any) -> tuple[np.dtype, tuple[int, ...]]:
    name, shape = entry
    dtype = np.dtype(str(name))
    if dtype.kind not in ALLOWED_KINDS or dtype.hasobject:
        raise ValueError(f"arrays of {dtype} don't travel")
    if not all(isinstance(n, int) and n >= 0 for n in shape):
        raise ValueError("a shape must be whole numbers")
    return dtype, tuple(shape)
