"""The state of a repository, with the real git, and without running anything that the repository names."""

import subprocess
from pathlib import Path

import pytest

from whest.provenance.git import GitState, state_of

IDENTITY = ("-c", "user.name=A", "-c", "user.email=a@example.org")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *IDENTITY, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=work")
    (folder / "mine.py").write_text("a = 1\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "one")
    return folder


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
