"""A worker's folder on this side: made, measured and removed without ever following what the worker put there."""

import os
import stat
import tempfile
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path

SCRATCH_BYTES = 512 * 2**20
"""What a worker may keep in its scratch folder."""

DEEPEST, MOST_ENTRIES = 40, 20_000
"""A scratch folder beyond this counts as full."""

REMOVAL_S = 30.0
"""When removing is given up: the rest stays in the folder for temporary files."""

FIRST_ID, N_IDS = 0x70000000, 2**20
"""User ids that no system gives out, for the workers of root."""

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Scratch:
    """A folder with the worker's own folder in it, and what the walls need beside that."""

    def __init__(self) -> None:
        self.top = Path(tempfile.mkdtemp(prefix="whest-worker-"))
        self.folder, self.mountpoint, self.canary = (self.top / name for name in ("scratch", "room", "canary"))
        self.folder.mkdir(mode=0o700)
        self.mountpoint.mkdir(mode=0o700)
        self.canary.write_text("The walls keep a worker from reading this.\n")
        self.uid = FIRST_ID + os.getpid() % N_IDS
        if os.geteuid() == 0:  # the worker of root is somebody else, and comes by here where no room can be built
            self.top.chmod(0o711)
            with suppress(OSError):
                os.chown(self.folder, self.uid, self.uid)

    def is_full(self, most: int) -> bool:
        """Whether more is in it than is allowed: bytes, entries or levels."""
        used = used_bytes(self.folder)
        return used is None or used > most

    def remove(self) -> None:
        with suppress(OSError):
            remove_tree(self.top)


def used_bytes(folder: Path) -> int | None:
    """What the files of a folder take on disk; None where there are too many, or too deep. Follows no link."""
    used, n_entries = 0, 0
    with suppress(OSError):
        open_folders = [os.open(folder, FOLDER)]
        waiting = [_names(open_folders[0])]
        try:
            while open_folders:
                if not waiting[-1]:
                    os.close(open_folders.pop())
                    waiting.pop()
                    continue
                name, n_entries = waiting[-1].pop(), n_entries + 1
                if n_entries > MOST_ENTRIES or len(open_folders) > DEEPEST:
                    return None
                with suppress(OSError):
                    about = os.stat(name, dir_fd=open_folders[-1], follow_symlinks=False)
                    used += about.st_blocks * 512
                    if stat.S_ISDIR(about.st_mode):
                        inner = os.open(name, FOLDER, dir_fd=open_folders[-1])
                        open_folders.append(inner)
                        waiting.append(_names(inner))
        finally:
            for fd in open_folders:
                os.close(fd)
    return used


def remove_tree(top: Path) -> None:
    """Remove a folder of a worker that has ended, however deep it is.

    Inner folders are moved up to `top` before they are emptied, so that there is no recursion and no long path.
    """
    deadline = time.monotonic() + REMOVAL_S
    place = os.open(top, FOLDER)
    try:
        n_moved = _empty(place, place, 0)
        while time.monotonic() < deadline:
            folders = [name for name in _names(place) if _is_folder(name, place)]
            if not folders:
                break
            for name in folders:
                n_moved = _take_apart(name, place, n_moved)
    finally:
        os.close(place)
    with suppress(OSError):
        top.rmdir()


def _take_apart(name: str, place: int, n_moved: int) -> int:
    with suppress(OSError):
        os.chmod(name, 0o700, dir_fd=place)
        folder = os.open(name, FOLDER, dir_fd=place)
        try:
            n_moved = _empty(folder, place, n_moved)
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=place)
    return n_moved


def _empty(folder: int, place: int, n_moved: int) -> int:
    """Delete a folder's files; move its folders to `place` under new names, if they are not there already."""
    for name in _names(folder):
        with suppress(OSError):
            if not _is_folder(name, folder):
                os.unlink(name, dir_fd=folder)
            elif folder != place:
                os.chmod(name, 0o700, dir_fd=folder)  # a folder that is moved is written to
                n_moved += 1
                os.rename(name, f"moved-{n_moved}-{os.getpid()}", src_dir_fd=folder, dst_dir_fd=place)
    return n_moved


def _names(folder: int) -> list[str]:
    """The names in a folder, as many as are looked at in one go."""
    with os.scandir(folder) as entries:
        return [entry.name for entry in islice(entries, MOST_ENTRIES + 1)]


def _is_folder(name: str, where: int) -> bool:
    with suppress(OSError):
        return stat.S_ISDIR(os.stat(name, dir_fd=where, follow_symlinks=False).st_mode)
    return False
