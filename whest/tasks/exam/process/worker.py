"""The processes of an exam run. Each is a loop that answers messages until its pipe closes.

trace   imports the learner and writes its programs. It is untrusted, and it runs in a room.
train   reads the programs and trains on the text that it receives. It never imports a learner, and it runs in a room.
grade   opens a bundle and answers the questions that it receives. It never imports a learner.
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
