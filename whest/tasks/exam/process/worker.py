"""The processes of an exam run. Each is a loop that answers messages until its pipe closes.

trace   imports the learner and writes its programs. It is untrusted, and it runs in a room.
train   reads the programs and trains on the text that it receives. It never imports a learner, and it runs in a room.
grade   opens a bundle and answers the questions that it receives. It never imports a learner.
"""

import os
import sys

from whest.isolation import sandbox
from whest.isolation.channel import Channel
from whest.isolation.worker import serve


def main(role: str, read_fd: int, write_fd: int) -> None:
    sandbox.die_with_parent()
    channel = Channel(read_fd, write_fd)
    start, _ = channel.receive()
    in_force = sandbox.protections()
    if role != "grade":
        in_force = sandbox.enter_room(start["room"], start["writable"])
    os.environ["JAX_PLATFORMS"] = start["platforms"]
    from whest.tasks.exam.process.roles import ROLES

    answer = ROLES[role](start)
    if role == "trace":
        sandbox.forbid_escapes()
        in_force |= {"no_threads_or_programs": True}
    channel.send({"ready": True, "protections": in_force | {"stripped_environment": True}})
    serve(channel, answer)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
