"""Frames on a pair of pipes: a length, then a JSON header. Standard library alone, because the launcher reads one.

The other side may be hostile. Every size is bounded before memory is taken, every wait has a deadline, and a header is
counted before it is parsed: `[[],[],…]` takes 20 times its length in memory.
"""

import fcntl
import json
import os
import select
import struct
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

Message = dict[str, Any]

Watch = Callable[[], None]

CHUNK = 2**20

LENGTH = struct.Struct("<Q")

LARGEST_ANSWER, LARGEST_PROGRAM = 4 * 2**20, 24 * 2**20
"""Bytes of a header: of an answer with figures and texts, and of one that brings a program."""

LARGEST_CONSTANTS = 64 * 2**20
"""Bytes of the arrays that come with a program."""


class ChannelClosedError(Exception):
    """The other side is gone, or sent something that isn't a message."""


class RefusedError(ChannelClosedError):
    """What the other side sent is no message, or more than is allowed."""


class DeadlineError(Exception):
    """No answer in time."""


@dataclass(frozen=True)
class Bounds:
    """The largest message that is read."""

    header_bytes: int
    values: int
    """Numbers, texts, lists and objects in the header, and the names of their fields."""
    depth: int
    name_length: int
    text_length: int
    array_bytes: int
    arrays: int


PROGRAM = Bounds(LARGEST_PROGRAM, 1_500_000, 400, 1000, 2**21, LARGEST_CONSTANTS, 20_000)
"""Enough for 40,000 equations."""

FROM_HOST = Bounds(2**32, 2**40, 1000, 2**32, 2**32, 2**40, 2**32)
"""What a worker accepts from the process that started it, which it trusts."""


def answer_bounds(array_bytes: int, arrays: int = 100) -> Bounds:
    """For an answer with figures: few names, short texts, and arrays of a known size."""
    return Bounds(LARGEST_ANSWER, 250_000, 40, 1000, 2**20, array_bytes, arrays)


class Aside(Protocol):
    """Something else to read while a message is awaited."""

    def fileno(self) -> int: ...

    def drain(self) -> None: ...


class Pipe:
    """Reads and writes exactly so many bytes."""

    def __init__(self, read_fd: int, write_fd: int, aside: Aside | None = None) -> None:
        self._read_fd, self._write_fd, self._aside = read_fd, write_fd, aside
        os.set_blocking(write_fd, False)
        with suppress(OSError, AttributeError):  # fewer turns per message, where the system has it
            fcntl.fcntl(write_fd, fcntl.F_SETPIPE_SZ, CHUNK)

    def close(self) -> None:
        for fd in (self._read_fd, self._write_fd):
            with suppress(OSError):
                os.close(fd)

    def read_header(
        self, bounds: Bounds, deadline: float | None = None, watch: Watch | None = None, tick_s: float = 0.2
    ) -> Any:
        (length,) = LENGTH.unpack(self.read(LENGTH.size, deadline, watch, tick_s))
        if length > bounds.header_bytes:
            raise RefusedError(f"a message of {length} bytes is more than is allowed ({bounds.header_bytes})")
        return parse_header(self.read(length, deadline, watch, tick_s), bounds)

    def write(
        self, data: bytes, deadline: float | None = None, watch: Watch | None = None, tick_s: float = 0.2
    ) -> None:
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

    def read(
        self, size: int, deadline: float | None = None, watch: Watch | None = None, tick_s: float = 0.2
    ) -> bytearray:
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
        beside = [] if self._aside is None or self._aside.fileno() < 0 else [self._aside.fileno()]
        readable, writable, _ = select.select([*reading, *beside], writing, [], patience)
        if self._aside is not None and any(fd in readable for fd in beside):
            self._aside.drain()
        if watch is not None:
            watch()
        return bool(writable) or any(fd in readable for fd in reading)


def frame(header: Any) -> bytes:
    text = json.dumps(header).encode()
    return LENGTH.pack(len(text)) + text


def parse_header(data: bytearray, bounds: Bounds, is_strict: bool = False) -> Any:
    """The header's JSON, if it is plain, small and shallow enough. If strict, no name stands twice in an object."""
    n_values = 1 + sum(data.count(mark) for mark in (b",", b":", b"[", b"{"))
    if n_values > bounds.values:
        raise RefusedError(f"a message of {n_values} values is more than is allowed ({bounds.values})")
    if not data.isascii():
        raise RefusedError("a message that isn't plain ASCII")
    try:
        header = json.loads(data.decode("ascii"), object_pairs_hook=_once if is_strict else None)
        if b"\\ud" in data.lower():  # half a character would break the program that prints it
            header = json.loads(json.dumps(header, ensure_ascii=False).encode(errors="replace"))
    except RefusedError:
        raise
    except RecursionError:
        raise RefusedError(f"a message nested more than {bounds.depth} deep") from None
    except json.JSONDecodeError as error:
        raise RefusedError(f"a message that is no JSON ({error.msg} at character {error.pos:,})") from None
    except ValueError:
        raise RefusedError("a message with a number that is too long to be read") from None
    except Exception as error:
        raise RefusedError(f"a message could not be read ({type(error).__name__})") from None
    check_header(header, bounds)
    return header


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise RefusedError(f"a message with the name {twice[:60]!r} twice in one object")
    return fields


def check_header(header: Any, bounds: Bounds) -> None:
    """Depth, names and texts within bounds; without recursion, as the depth is what is in question."""
    todo = [(header, 1)]
    while todo:
        value, depth = todo.pop()
        if isinstance(value, str) and len(value) > bounds.text_length:
            raise RefusedError(f"a text of {len(value)} characters is more than is allowed")
        if not isinstance(value, dict | list):
            continue
        if depth > bounds.depth:
            raise RefusedError(f"a message nested more than {bounds.depth} deep")
        if isinstance(value, dict) and any(len(name) > bounds.name_length for name in value):
            raise RefusedError("a name in a message is longer than is allowed")
        inner = value.values() if isinstance(value, dict) else value
        todo.extend((item, depth + 1) for item in inner if isinstance(item, dict | list | str))
