"""The other process: where an estimator is traced, where its program is run, or where it runs eagerly.

Roles, each a loop that answers messages until its pipe closes:
  trace     imports the estimator, sets it up, traces `predict` and sends the program as plain data. Untrusted.
  evaluate  never imports an estimator: meters, compiles and runs a program it was sent. Trusted code.
  sealed    the same behind walls, for a program that came in a file. Trusted code.
  list      says what a program consists of, behind walls. Trusted code.
  eager     imports the estimator and runs it on the weights it is sent, metering from within. Untrusted.

The launcher has raised the walls before this file is imported.
"""

import sys
import traceback
from collections.abc import Callable
from typing import Any

from whest.isolation import sandbox
from whest.isolation.channel import Channel, ChannelClosedError, Message

LONGEST_TEXT = 4000
"""Characters of an error that are sent; the host cuts there too."""


def main(role: str, read_fd: int, write_fd: int, start: Message, protections: dict[str, str]) -> None:
    channel = Channel(read_fd, write_fd)
    from whest.isolation.roles import ROLES

    if start["walls"] is not None:
        sandbox.forbid_escapes()
    channel.send({"ready": True, "protections": protections})
    serve(channel, ROLES[role](start))


def serve(channel: Channel, answer: Callable[[Message, Any], tuple[Message, Any]]) -> None:
    while True:
        try:
            message, arrays = channel.receive()
        except ChannelClosedError:
            return
        try:
            reply, results = answer(message, arrays)
        except Exception as error:
            reply, results = broken(error), []
        sys.stdout.flush()
        try:
            channel.send(reply, results)
        except (TypeError, ValueError) as error:  # an answer that isn't plain data
            channel.send(broken(error))


def broken(error: Exception) -> Message:
    """An answer that says what went wrong."""
    said = f"{type(error).__name__}: {error}"
    return {"broken": said[:LONGEST_TEXT], "traceback": traceback.format_exc()[-LONGEST_TEXT:]}
