"""The copy of an estimator's source: what belongs to it, and what a stranger's folder can't put into it."""

import os
from pathlib import Path

import pytest

from whest.estimator.spec import EstimatorSpec, estimator_spec
from whest.provenance.source import LARGEST_COPY, copy_source, source_files


def of_file(path: Path) -> EstimatorSpec:
    return EstimatorSpec("mine", "traced", None, path, {})


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text("import helper\nfrom parts import sums\nimport jax\n")
    (tmp_path / "helper.py").write_text("def late():\n    import deeper\n")
    (tmp_path / "deeper.py").write_text("import mine  # a circle\n")
    (tmp_path / "unused.py").write_text("")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").write_text("")
    (tmp_path / "parts" / "sums.py").write_text("")
    return tmp_path / "mine.py"


def test_a_files_neighbours_are_those_that_it_imports(mine: Path) -> None:
    assert set(source_files(of_file(mine))) == {
        "mine.py", "helper.py", "deeper.py", "parts/__init__.py", "parts/sums.py",
    }  # fmt: skip


def test_a_folder_is_copied_whole_without_compiled_files(mine: Path) -> None:
    (mine.parent / "estimator.py").write_text("")
    (mine.parent / "estimator.pyc").write_text("")
    names = set(source_files(EstimatorSpec("mine", "flopscope", None, mine.parent, {})))
    assert {"unused.py", "parts/sums.py", "estimator.py"} < names
    assert "estimator.pyc" not in names


def test_a_bundled_estimator_is_its_own_file() -> None:
    spec = estimator_spec({"name": "cov_prop", "mode": "traced", "_target_": "estimators.cov_prop.CovarianceProp"})
    assert list(source_files(spec)) == ["cov_prop.py"]


def test_links_out_of_the_folder_and_pipes_are_left_out(mine: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    secret = tmp_path_factory.mktemp("home") / "secret.py"
    secret.write_text("TOKEN = 1\n")
    (mine.parent / "helper.py").unlink()
    (mine.parent / "helper.py").symlink_to(secret)
    (mine.parent / "deeper.py").unlink()
    os.mkfifo(mine.parent / "deeper.py")
    assert set(source_files(of_file(mine))) == {"mine.py", "parts/__init__.py", "parts/sums.py"}


def test_a_file_that_does_not_parse_is_kept_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import helper\nclass:\n")
    (tmp_path / "helper.py").write_text("")
    assert list(source_files(of_file(tmp_path / "mine.py"))) == ["mine.py"]


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text("x = 1\n")
    (tmp_path / "large.py").write_bytes(b"#" * LARGEST_COPY)
    files = {name: tmp_path / name for name in ("small.py", "large.py", "gone.py")}
    hashes, left_out = copy_source(files, tmp_path / "copy")
    assert list(hashes) == ["small.py"]
    assert left_out == ["large.py", "gone.py"]
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["small.py"]
