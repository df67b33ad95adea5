"""docs/contest.md: its ten commands, from an empty folder to a signed board."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import whest
from tests.support.places import ROOT
from tests.test_documents import shell_commands
from whest.contest.verify import verify

COMMANDS = shell_commands((ROOT / "docs" / "contest.md").read_text())


def test_there_are_ten_and_each_is_one() -> None:
    assert len(COMMANDS) == 10
    rules = shlex.split(COMMANDS[0].partition("=")[2])[0]
    for command in COMMANDS:
        words = shlex.split(command.replace("$R", rules))
        if words[0] == "python":
            typed = [word for word in words[3:] if not word.startswith(("host.solution", "seal.words"))]
            assert whest.compose(*typed)["job"] in ("host", "seal", "verify")


@pytest.mark.slow
def test_from_an_empty_folder_to_a_signed_board(tmp_path: Path, environment: dict[str, str]) -> None:
    script = "\n".join(["set -e", f'python() {{ {shlex.quote(sys.executable)} "$@"; }}', *COMMANDS])
    ended = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "rerun    000001-0: same" in ended.stdout
    assert "rerun    000002-0: same" in ended.stdout
    assert verify(tmp_path / "spring")[1] == []
