"""The other process: where an estimator is traced, where its program is run, or where it runs eagerly.

Three roles, each a loop that answers messages until its pipe closes:
  trace     imports the estimator, sets it up, traces `predict` and sends the program as plain data. Untrusted.
  evaluate  never imports an estimator: meters, compiles and runs a program it was sent. Trusted code.
  eager     imports the estimator and runs it on the weights it is sent, metering from within. Untrusted.
"""

import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from whest.isolation import sandbox
from whest.isolation.channel import Channel, ChannelClosedError, Message


def main(role: str, read_fd: int, write_fd: int) -> None:
    sandbox.die_with_parent()
    channel = Channel(read_fd, write_fd)
    message, _ = channel.receive()
    in_force = sandbox.protections()
    if role != "evaluate":
        in_force = sandbox.enter(message["hidden"], message["context"]["scratch_dir"])
    os.environ["JAX_PLATFORMS"] = message["platforms"]
    from whest.isolation.roles import ROLES

    if role != "evaluate":
        sandbox.forbid_escapes()
        in_force |= {"no_threads_or_programs": True, "stripped_environment": True}
    channel.send({"ready": True, "protections": in_force})
    serve(channel, ROLES[role](message))


def serve(channel: Channel, answer: Callable[[Message, Any], tuple[Message, Any]]) -> None:
    while True:
        try:
            message, arrays = channel.receive()
        except ChannelClosedError:
            return
        try:
            reply, results = answer(message, arrays)
        except Exception as error:
            reply, results = {"broken": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}, []
        sys.stdout.flush()
        try:
            channel.send(reply, results)
        except (TypeError, ValueError) as error:  # an answer that isn't plain data
            channel.send({"broken": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
