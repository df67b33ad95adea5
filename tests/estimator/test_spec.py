"""Files of submissions that a stranger made to stop or to fill the process that reads them."""

import os
from pathlib import Path

import pytest

from whest.errors import ConfigError
from whest.estimator.spec import estimator_spec
from whest.files import LARGEST_SOURCE
from whest.sweeps.resume import hash_files

SOURCE = "class Estimator:\n    def predict(self, mlp, budget):\n        return mlp.weights[:, 0]\n"


def spec(path: Path):
    return estimator_spec({"name": "file", "mode": "traced", "path": str(path)})


def test_a_huge_file_is_refused_before_it_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text(SOURCE)
    os.truncate(path, 100 * LARGEST_SOURCE)  # sparse: it takes no room on the disk
    with pytest.raises(ConfigError, match="more than 16,777,216 bytes"):
        _ = spec(path).source_sha256


@pytest.mark.parametrize("kind", ["pipe", "folder", "loop", "device"])
def test_what_is_no_ordinary_file_is_called_so(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.py"
    {
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "loop": lambda: path.symlink_to(path),
        "device": lambda: path.symlink_to("/dev/zero"),
    }[kind]()
    with pytest.raises(ConfigError, match="it is not an ordinary file"):
        spec(path)


def test_a_file_that_is_not_there_is_called_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        spec(tmp_path / "x.py")


def test_a_pipe_beside_the_estimator_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(SOURCE)
    before = hash_files(tmp_path.glob("*.py"))
    os.mkfifo(tmp_path / "helper.py")
    assert hash_files(tmp_path.glob("*.py")) == before


OLD = """
import whest as we
from whestbench import BaseEstimator


class Estimator(BaseEstimator):
    def predict(self, mlp, budget):
        return we.zeros((mlp.depth, mlp.width))
"""


@pytest.mark.parametrize("mode", ["traced", "flopscope"])
def test_a_file_of_the_first_api_is_told_what_it_was_written_for(tmp_path: Path, mode: str) -> None:
    file = tmp_path / "theirs.py"
    file.write_text(OLD)
    node = {"name": "theirs", "mode": mode, "path": str(file)}
    with pytest.raises(ConfigError, match=r"theirs\.py:8: we\.zeros is of WhestBench's first API") as refused:
        estimator_spec(node)
    for word in ("flopscope 0.2.0", "whestbench 0.4.0", "import flopscope.numpy as we", "estimator.python="):
        assert word in str(refused.value)


@pytest.mark.parametrize(
    "text", ["import whest as we\nwe.meter, we.Cost\n", "we = 1\nwe.zeros\n", "import whest as we\nwe.zeros(\n"]
)
def test_files_that_use_our_own_names_or_do_not_parse_pass(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    assert estimator_spec({"name": "mine", "mode": "traced", "path": str(file)}).path == file
