"""The git repository that a file lies in: its commit, and what was changed since.

The repository may be a stranger's, and git runs programs that a repository's own config names. So git never reads that
config: it sees an empty repository of ours that borrows the objects, and no link out of the repository is followed.
"""

import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from whest.files import inside, read_bounded

LARGEST_DIFF = 2**20
"""Bytes of a diff that is kept."""
TIMEOUT_S = 10
COMMIT = re.compile(r"[0-9a-f]{40}")
LARGEST_REFERENCES = 2**24
"""Bytes of a repository's list of packed references."""


@dataclass(frozen=True)
class GitState:
    """One repository at one moment."""

    commit: str
    branch: str | None
    """None if no branch is checked out."""
    diff: str | None
    """The changes of tracked files since the commit, cut at LARGEST_DIFF bytes. Empty if there are none, None if git
    could not tell."""

    @property
    def is_changed(self) -> bool | None:
        return None if self.diff is None else bool(self.diff)


@dataclass(frozen=True)
class Places:
    """The folders of a repository. They differ from each other in a linked worktree."""

    tree: Path
    own: Path
    """HEAD and index."""
    shared: Path
    """References and objects."""


def state_of(folder: Path) -> GitState | None:
    """The repository around a folder; None if there is none, or it has no commit yet."""
    try:
        places = find_repository(folder.absolute())
        if places is None:
            return None
        head = _read(inside(places.own, "HEAD"))
        name = head.removeprefix("ref: ") if head.startswith("ref: ") else None
        commit = head if name is None else _resolve(places, name)
    except (OSError, ValueError):
        return None
    if commit is None or not COMMIT.fullmatch(commit):
        return None
    return GitState(commit, name.removeprefix("refs/heads/") if name else None, _diff(places, commit))


def find_repository(folder: Path) -> Places | None:
    """The nearest folder above with a `.git`. In a linked worktree that is a file which names another folder.

    That folder must name the worktree too: anybody can write a `.git` that names a repository of the user's.
    """
    for tree in (folder, *folder.parents):
        marker = tree / ".git"
        if marker.is_symlink():
            return None
        if marker.is_file():
            own = tree / _read(marker).removeprefix("gitdir: ")
            if Path(_read(own / "gitdir")).resolve() != marker.resolve():
                return None
            common = own / "commondir"
            return Places(tree, own, own / _read(common) if common.is_file() else own)
        if marker.is_dir():
            return Places(tree, marker, marker)
    return None


def _read(path: Path) -> str:
    return read_bounded(path, 4096).decode().strip()


def _resolve(places: Places, name: str) -> str | None:
    """The commit of a reference such as refs/heads/main."""
    if ".." in Path(name).parts or not name.startswith("refs/"):
        return None
    loose, packed = inside(places.shared, name), inside(places.shared, "packed-refs")
    if loose.is_file():
        return _read(loose)
    if not packed.is_file():
        return None
    pairs = (line.partition(" ") for line in read_bounded(packed, LARGEST_REFERENCES).decode().splitlines())
    return next((commit for commit, _, found in pairs if found == name), None)


def _diff(places: Places, commit: str) -> str | None:
    """What `git diff HEAD` shows; None where git is absent, fails, takes too long, or the repository borrows objects.

    The index is made from the commit: a stranger's own may name files outside the tree, or hide changes.
    """
    if _borrows(places.shared / "objects"):
        return None
    with tempfile.TemporaryDirectory(prefix="whest-git-") as place:
        empty = Path(place)
        for name in ("refs", "objects"):
            (empty / name).mkdir()
        (empty / "HEAD").write_text(f"{commit}\n")
        own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        own |= {
            "GIT_DIR": place,
            "GIT_WORK_TREE": str(places.tree),
            "GIT_OBJECT_DIRECTORY": str(places.shared / "objects"),
            "GIT_INDEX_FILE": str(empty / "index"),
            "GIT_TERMINAL_PROMPT": "0",
        }
        if _output(["git", "read-tree", commit], places.tree, own) is None:
            return None
        words = ["--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all", commit]
        found = _output(["git", "-c", f"core.bigFileThreshold={LARGEST_DIFF}", "diff", *words], places.tree, own)
    return None if found is None else found.decode(errors="replace").strip("\n")


def _borrows(objects: Path) -> bool:
    """Whether objects come from elsewhere: another repository of the user's would end up in the diff."""
    folders = (objects, objects / "pack", objects / "info")
    links = [path.is_symlink() for folder in folders if folder.is_dir() for path in folder.iterdir()]
    return objects.is_symlink() or (objects / "info" / "alternates").exists() or any(links)


def _output(command: list[str], folder: Path, environment: Mapping[str, str]) -> bytes | None:
    """The first LARGEST_DIFF bytes that a program prints; None if it can't be started, fails or is too slow."""
    nothing = subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=nothing, stdout=subprocess.PIPE, stderr=nothing
        )
    except OSError:
        return None
    alarm = threading.Timer(TIMEOUT_S, process.kill)
    alarm.start()
    try:
        assert process.stdout is not None
        with process.stdout:
            found = process.stdout.read(LARGEST_DIFF)
            is_cut = len(found) == LARGEST_DIFF
        if is_cut:
            process.kill()
        return found if process.wait() == 0 or is_cut else None
    finally:
        alarm.cancel()
