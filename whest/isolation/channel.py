"""Messages between the scorer and its workers: JSON and raw arrays over a pipe, and nothing that could run code.

The peer's interpreter runs this file too, so it needs NumPy alone.
"""

import fcntl
import math
import sys
import termios
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from .wire import FROM_HOST, Bounds, ChannelClosedError, DeadlineError, Message, Pipe, RefusedError, Watch, frame

__all__ = ["DTYPES", "Channel", "ChannelClosedError", "DeadlineError", "Message", "RefusedError", "read_frame"]

MOST_DIMENSIONS = 32


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


class Channel(Pipe):
    """One end of a pair of pipes."""

    def has_unread(self) -> bool:
        """Whether the other side has sent something that was not read yet."""
        waiting = fcntl.ioctl(self._read_fd, termios.FIONREAD, bytes(4))
        return int.from_bytes(waiting, sys.byteorder) > 0

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
        header = frame({"message": message, "arrays": shapes})
        for data in (header, *(array.tobytes() for array in contiguous)):
            self.write(data, deadline, watch, tick_s)

    def receive(
        self,
        deadline: float | None = None,
        watch: Watch | None = None,
        tick_s: float = 0.2,
        bounds: Bounds = FROM_HOST,
    ) -> tuple[Message, list[np.ndarray]]:
        """The next message. `watch` is called every tick while waiting and may raise to stop."""
        message, shapes = read_frame(self.read_header(bounds, deadline, watch, tick_s), bounds)
        sizes = [dtype.itemsize * math.prod(shape) for dtype, shape in shapes]
        if sum(sizes) > bounds.array_bytes:
            raise RefusedError(f"arrays of {sum(sizes)} bytes are more than is allowed ({bounds.array_bytes})")
        raws = [self.read(size, deadline, watch, tick_s) for size in sizes]
        return message, [
            np.frombuffer(raw, dtype).reshape(shape) for raw, (dtype, shape) in zip(raws, shapes, strict=True)
        ]


def read_frame(header: Any, bounds: Bounds) -> tuple[Message, list[tuple[np.dtype, tuple[int, ...]]]]:
    try:
        message, entries = header["message"], header["arrays"]
    except (KeyError, TypeError, IndexError):
        raise RefusedError("a message is an object with the fields message and arrays") from None
    if not isinstance(message, dict) or not isinstance(entries, list) or len(entries) > bounds.arrays:
        raise RefusedError(f"a message is an object, with a list of at most {bounds.arrays:,} arrays")
    return message, [_read_shape(entry) for entry in entries]


def _read_shape(entry: Any) -> tuple[np.dtype, tuple[int, ...]]:
    match entry:
        case [str() as name, [*shape]] if name in DTYPES and len(shape) <= MOST_DIMENSIONS:
            if all(type(n) is int and 0 <= n < 2**40 for n in shape):
                return DTYPES[name], tuple(shape)
    raise RefusedError(f"an array is a kind of numbers and a shape of whole numbers, and not {str(entry)[:60]}")
