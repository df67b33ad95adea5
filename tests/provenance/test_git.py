"""The state of a repository, with the real git, and without running anything that the repository names."""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from whest.provenance import git as reading
from whest.provenance.git import GitState, state_of

IDENTITY = ("-c", "user.name=A", "-c", "user.email=a@example.org")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *IDENTITY, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def repository_with(folder: Path, name: str, text: str) -> Path:
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=work")
    (folder / name).write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "one")
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return repository_with(tmp_path / "repository", "mine.py", "a = 1\n")


def test_the_commit_the_branch_and_no_changes(repository: Path) -> None:
    assert state_of(repository) == GitState(git(repository, "rev-parse", "HEAD"), "work", "")


def test_changes_since_the_commit_are_a_diff(repository: Path) -> None:
    (repository / "below").mkdir()
    (repository / "mine.py").write_text("a = 2\n")
    found = state_of(repository / "below")
    assert found is not None
    assert found.is_changed
    assert found.diff == git(repository, "diff", "HEAD")


def test_packed_references_a_detached_head_and_a_worktree(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    git(repository, "worktree", "add", "--quiet", "-b", "other", "../linked")
    git(repository, "pack-refs", "--all")
    (repository.parent / "linked" / "mine.py").write_text("a = 3\n")
    assert state_of(repository) == GitState(commit, "work", "")
    linked = state_of(repository.parent / "linked")
    assert linked is not None
    assert (linked.commit, linked.branch) == (commit, "other")
    assert "+a = 3" in linked.diff
    git(repository, "checkout", "--quiet", "--detach")
    assert state_of(repository) == GitState(commit, None, "")


def test_no_repository_and_no_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    assert state_of(tmp_path) is None


def test_a_strangers_repository_runs_nothing(repository: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    git(repository, "config", "filter.evil.clean", f"touch {ran}; cat")
    git(repository, "config", "core.fsmonitor", f"touch {ran}")
    git(repository, "config", "diff.external", f"touch {ran}")
    (repository / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    (repository / ".gitattributes").write_text("* filter=evil\n")
    (repository / "mine.py").write_text("a = 2\n")
    found = state_of(repository)
    assert not ran.exists()
    assert found is not None
    assert "+a = 2" in found.diff
    git(repository, "status")  # the same by git itself: the trap is real
    assert ran.exists()


def test_a_damaged_repository_is_none(repository: Path) -> None:
    (repository / ".git" / "HEAD").write_text("ref: refs/../../../etc/passwd\n")
    assert state_of(repository) is None
    (repository / ".git" / "HEAD").write_bytes(b"\xff\xfe")
    assert state_of(repository) is None


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Another repository of the user's."""
    return repository_with(tmp_path / "private", "keys.txt", "S3CR3T\n")


def test_an_index_that_names_files_outside_is_not_read(repository: Path) -> None:
    (repository.parent / "secret.txt").write_text("S3CR3T\n")
    (repository / "aaaaaaaaaaaaa").write_text("x\n")  # as long as ../secret.txt
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "two")
    index = repository / ".git" / "index"
    body = index.read_bytes()[:-20].replace(b"a" * 13, b"../secret.txt")
    index.write_bytes(body + hashlib.sha1(body).digest())
    assert "S3CR3T" in git(repository, "diff", "HEAD"), "the trap is real"
    found = state_of(repository)
    assert found is not None
    assert found.diff == ""


@pytest.mark.parametrize("way", ["file", "link", "links inside", "alternates", "objects"])
def test_another_repository_is_not_read(tmp_path: Path, secret: Path, way: str) -> None:
    folder = tmp_path / "est"
    folder.mkdir()
    theirs, ours = secret / ".git", folder / ".git"
    if way == "file":
        ours.write_text("gitdir: ../private/.git\n")
    elif way == "link":
        ours.symlink_to(theirs)
    else:
        git(folder, "init", "--quiet", "--initial-branch=work")
        commit = git(secret, "rev-parse", "HEAD")
        (ours / "refs" / "heads" / "work").write_text(f"{commit}\n")
        if way == "alternates":
            (ours / "objects" / "info" / "alternates").write_text(f"{theirs / 'objects'}\n")
        elif way == "objects":
            for place in (theirs / "objects").iterdir():
                if len(place.name) == 2:
                    (ours / "objects" / place.name).symlink_to(place)
        else:
            (ours / "refs" / "heads" / "work").unlink()
            (ours / "refs" / "heads").rmdir()
            (ours / "refs" / "heads").symlink_to(theirs / "refs" / "heads")
    found = state_of(folder)
    assert found is None or found.diff is None
    assert "S3CR3T" not in str(found)


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_a_change_that_the_index_hides_is_seen(repository: Path, flag: str) -> None:
    git(repository, "update-index", flag, "mine.py")
    (repository / "mine.py").write_text("a = 2\n")
    assert git(repository, "diff", "HEAD") == "", "the trap is real"
    found = state_of(repository)
    assert found is not None
    assert "+a = 2" in str(found.diff)


def test_where_git_hangs_nobody_knows(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "TIMEOUT_S", 0.5)
    os.mkfifo(repository / ".gitattributes")
    (repository / "mine.py").write_text("a = 2\n")
    found = state_of(repository)
    assert found is not None
    assert (found.diff, found.is_changed) == (None, None)


def test_a_long_diff_is_cut(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LARGEST_DIFF", 1000)
    (repository / "mine.py").write_text("a = 2\n" * 100_000)
    found = state_of(repository)
    assert found is not None
    assert found.is_changed
    assert len(str(found.diff)) <= 1000
