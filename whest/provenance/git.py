"""The git repository that a file lies in: its commit, and what was changed since.

The repository may be a stranger's, and git runs programs that a repository's own config names. So git never reads that
config: it sees an empty repository of ours that borrows the objects and the index.
"""

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from whest.files import read_bounded

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
    diff: str
    """The changes of tracked files since the commit, cut at LARGEST_DIFF bytes. Empty if there are none."""

    @property
    def is_changed(self) -> bool:
        return bool(self.diff)


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
        head = _read(places.own / "HEAD")
        name = head.removeprefix("ref: ") if head.startswith("ref: ") else None
        commit = head if name is None else _resolve(places, name)
    except (OSError, ValueError):
        return None
    if commit is None or not COMMIT.fullmatch(commit):
        return None
    return GitState(commit, name.removeprefix("refs/heads/") if name else None, _diff(places, commit))


def find_repository(folder: Path) -> Places | None:
    """The nearest folder above with a `.git`. In a linked worktree that is a file which names another folder."""
    for tree in (folder, *folder.parents):
        marker = tree / ".git"
        if marker.is_file():
            own = tree / _read(marker).removeprefix("gitdir: ")
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
    if (places.shared / name).is_file():
        return _read(places.shared / name)
    packed = places.shared / "packed-refs"
    if not packed.is_file():
        return None
    pairs = (line.partition(" ") for line in read_bounded(packed, LARGEST_REFERENCES).decode().splitlines())
    return next((commit for commit, _, found in pairs if found == name), None)


def _diff(places: Places, commit: str) -> str:
    """What `git diff HEAD` shows; empty where git is absent or fails."""
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
        command = ["git", "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all", commit]
        try:
            shutil.copyfile(places.own / "index", empty / "index")
            answer = subprocess.run(command, cwd=places.tree, env=own, capture_output=True, timeout=TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired):
            return ""
    return answer.stdout[:LARGEST_DIFF].decode(errors="replace").strip("\n") if answer.returncode == 0 else ""
