"""A worker that runs hostile snippets behind the real walls, without JAX. The launcher continues with this module."""

import ctypes
import os
import sys
import traceback
from typing import Any

from whest.isolation.channel import Channel, ChannelClosedError


def main(role: str, read_fd: int, write_fd: int, start: dict[str, Any], protections: dict[str, str]) -> None:
    channel = Channel(read_fd, write_fd)
    channel.send({"ready": True, "protections": protections})
    libc = ctypes.CDLL(None, use_errno=True)
    common = {"libc": libc, "os": os, "sys": sys, "told": start["told"], "start": start, "write_fd": write_fd}
    while True:
        try:
            message, _ = channel.receive()
        except ChannelClosedError:
            return
        answers = {name: attempted(source, dict(common)) for name, source in message["sources"].items()}
        sys.stdout.flush()
        channel.send({"answers": answers})


def attempted(source: str, names: dict[str, Any]) -> dict[str, Any]:
    """What the snippet leaves in `got`, which is nothing unless it got what it came for."""
    try:
        exec(source, names)
    except BaseException as error:
        return {"got": None, "error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()[-500:]}
    got = names.get("got")
    return {"got": repr(got) if got else None, "error": None}
