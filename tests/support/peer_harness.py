"""The peer under test: `whestbench` itself, in its own environment.

Its interpreter is WHEST_PEER_PYTHON, or outputs/peer of this checkout or of the main one. Without both, tests skip.
It is a pytest plugin, loaded by tests/conftest.py.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.support.places import ROOT

PATIENCE_S = 1800
"""Time limit of a program. No test depends on it."""
Peer = Callable[..., str]


def peer_python() -> Path | None:
    checkouts = [ROOT, Path(sys.prefix).parent]  # a worktree borrows its main checkout's environments
    candidates = [Path(os.environ.get("WHEST_PEER_PYTHON", "absent"))]
    candidates += [checkout / "outputs" / "peer" / "bin" / "python" for checkout in checkouts]
    return next((path for path in candidates if path.exists()), None)


@pytest.fixture(scope="session")
def peer_path() -> Path:
    """The peer's interpreter."""
    python = peer_python()
    if python is None:
        pytest.skip("no whestbench here: set WHEST_PEER_PYTHON, or `make peer`")
    return python


@pytest.fixture(scope="session")
def peer_in(peer_path: Path) -> Callable[[Path], Peer]:
    """The peer's programs with a folder to work in."""
    return partial(programs, peer_path)


@pytest.fixture
def peer(peer_in: Callable[[Path], Peer], tmp_path: Path) -> Peer:
    return peer_in(tmp_path)


def programs(python: Path, tmp_path: Path) -> Peer:
    """`peer("whest", …)` or `peer("python", …)`: the peer's own programs, offline and with their own cache."""
    quiet = {"HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1", "PYTHONPATH": ""}

    def run(program: str, *arguments: object) -> str:
        ended = subprocess.run(
            [python.parent / program, *map(str, arguments)],
            env=os.environ | quiet,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    return run
