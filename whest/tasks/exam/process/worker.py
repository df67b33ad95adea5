"""The processes of an exam run, each a loop that answers messages until its pipe closes.

trace   imports the learner and writes its programs down. Untrusted, in a room of its own.
train   reads the programs and trains on the text it is sent. Never imports a learner; in the same kind of room.
grade   opens a bundle and answers the questions it is sent. Never imports a learner either.
"""

from whest.isolation import sandbox
from whest.isolation.channel import Channel, Message
from whest.isolation.worker import serve


def main(role: str, read_fd: int, write_fd: int, start: Message, protections: dict[str, str]) -> None:
    """Answer messages; the launcher has raised the walls."""
    channel = Channel(read_fd, write_fd)
    from whest.tasks.exam.process.roles import ROLES

    answer = ROLES[role](start)
    if role == "trace":
        sandbox.forbid_escapes()
    channel.send({"ready": True, "protections": protections})
    serve(channel, answer)
