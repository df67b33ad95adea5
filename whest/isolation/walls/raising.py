"""Raise every wall that this machine has, in an order in which none stands in the way of the next, and try each."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from . import bwrap, idmap, landlock, namespaces, privileges, room, seccomp, trials
from .room import CANARY, Order

OUTSIDE_PROC = ("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys/vm/overcommit_memory")
"""What may be read of /proc where it is the machine's own."""


@dataclass
class Found:
    """The mechanisms that were seen to hold, by what they protect."""

    mechanisms: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, mechanism: str, holds: bool) -> None:
        if holds:
            self.mechanisms.setdefault(name, []).append(mechanism)

    def named(self) -> dict[str, str]:
        return {name: "+".join(self.mechanisms.get(name, ())) for name in ("files", "network", "processes", "disk")}


def raise_walls(order: Order, again: Callable[[], Sequence[str]], is_inside: bool = False) -> dict[str, str]:
    """Shut this process in. Returns in a child where namespaces are given; the answer has only what a trial showed.

    Where the kernel gives none, `bwrap` may: then the launcher starts itself once more, by the command that `again`
    makes, and comes back here with `is_inside`.
    """
    found = Found()
    was_readable = is_inside or trials.can_read(order.canary)
    answers = answers_of(order)
    owners = idmap.owners_of((*order.readable, *order.writable), order.uid) if os.getuid() == 0 else {}
    road = "bwrap" if is_inside else "namespaces" if namespaces.enter() else ""
    if not road and was_readable:
        bwrap.continue_inside(order, again)
    in_room = is_inside or (road == "namespaces" and _built(order, owners))
    found.add("network", road, bool(road) and trials.no_route())
    kept_from = was_readable and trials.cannot_reach(order.canary) and trials.are_hidden(answers)
    found.add("files", road, in_room and kept_from)
    is_bounded = trials.file_size_is_limited(order.scratch, order.scratch_bytes) if road == "namespaces" else False
    found.add("disk", "tmpfs", in_room and is_bounded)
    is_alone = road == "namespaces" or os.getuid() == 0 or (road == "bwrap" and namespaces.is_only_user())
    _give_up_rights(order, is_alone)
    held = _restrict_files(order, in_room) and (not in_room or trials.cannot_reach(CANARY))
    kept_from = was_readable and trials.cannot_reach(order.canary) and trials.are_hidden(answers)
    found.add("files", "landlock", held and kept_from)
    if is_inside or not in_room:
        found.add("disk", "rlimit", trials.file_size_is_limited(order.scratch, order.scratch_bytes))
    held = _refuse_calls(in_room)
    found.add("network", "seccomp", held and trials.no_sockets())
    found.add("processes", "seccomp", held and trials.no_processes())
    if not trials.can_write_scratch(order.scratch):
        raise OSError(13, f"the worker can't write its scratch folder {order.scratch}")
    return found.named()


def answers_of(order: Order) -> list[str]:
    """The hidden paths, but for those that hold something the worker needs: an environment kept among outputs."""
    return [path for path in order.hidden if not any(Path(needed).is_relative_to(path) for needed in order.readable)]


def _give_up_rights(order: Order, is_alone: bool) -> None:
    privileges.leave_root(order.uid)
    if not trials.can_read(os.__file__):
        raise OSError(13, f"user {os.getuid()}, which root's worker becomes, can't read Python's library {os.__file__}")
    with suppress(OSError):
        privileges.drop_capabilities()
    privileges.limit_resources(order.scratch_bytes, is_alone)


def _built(order: Order, owners: idmap.Owners) -> bool:
    """Whether the room stands. A room that was begun and refused leaves the process where it was."""
    try:
        room.build(order, owners)
    except OSError:
        return False
    finally:
        for fd in owners.values():
            os.close(fd)
    return True


def _restrict_files(order: Order, in_room: bool) -> bool:
    readable: list[str] = []
    listable = list(order.listable)
    hidden = [Path(path) for path in order.hidden]
    for folder in order.readable:
        more, names = landlock.spared(Path(folder), [] if in_room else hidden)
        readable, listable = readable + more, listable + names
    readable += ["/proc"] if in_room else [*OUTSIDE_PROC]
    try:
        landlock.restrict_files(readable, listable, (order.scratch, *order.writable), order.devices)
    except OSError:
        return False
    return True


def _refuse_calls(in_room: bool) -> bool:
    try:
        seccomp.refuse_calls(os.getpid(), with_metadata=not in_room)
    except (OSError, KeyError):
        return False
    return True
