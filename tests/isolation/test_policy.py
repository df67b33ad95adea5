"""What a run must be protected by: required, hashed, checked before a stranger's code is imported, and shown."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.hostile import DATASET, LIMITS, context, spec_of
from whest.errors import UnprotectedError
from whest.isolation.choose import Isolation, describe_protection, open_runner
from whest.isolation.protections import NAMES, WALLS, check_required, status_of
from whest.tracking.verify import broken_promise

Whest = Callable[..., Any]
SOURCE = """
import jax.numpy as jnp

class Estimator:
    def predict(self, mlp, budget):
        return jnp.zeros((mlp.depth, mlp.width))
"""
TINY = ("debug=tiny", "tracking=none", "estimator=file", "estimator.path=mine.py")


def test_the_default_requires_the_walls(whest: Whest) -> None:
    run = whest("debug=tiny", "tracking=none")
    isolation = run.report["run_config"]["isolation"]
    assert tuple(isolation["require"]) == WALLS
    assert isolation["status"] == "trusted"
    assert run.report["run_meta"]["protocol"]["require"] == sorted(WALLS)
    assert run.report["run_meta"]["protocol"]["mode"] == "traced"


def test_a_strangers_file_is_protected_and_the_page_says_so(whest: Whest, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SOURCE)
    run = whest(*TINY)
    assert run.exit_code == 0, run.err
    isolation = run.report["run_config"]["isolation"]
    assert isolation["status"] == "protected"
    assert all(isolation["protections"][name] for name in WALLS)
    assert "protected: files by" in (run.folder / "report.html").read_text()


def test_mode_and_requirement_make_tracks_of_their_own(whest: Whest, tmp_path: Path) -> None:
    hashes = set()
    for number, words in enumerate(((), ("estimator.mode=eager",), ("isolation=none",))):
        run = whest("debug=tiny", "tracking=none", *words, f"hydra.run.dir={tmp_path / str(number)}")
        hashes.add(run.report["run_meta"]["protocol_hash"])
    assert len(hashes) == 3


def test_a_strangers_file_in_this_process_is_refused_unless_waived(whest: Whest, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SOURCE)
    refused = whest(*TINY, "isolation.kind=none")
    assert refused.exit_code == 2
    assert "isolation.require=[files,network,processes]" in refused.err
    assert "isolation.require=[]" in refused.err
    assert not list(refused.outputs.glob("runs/*/*"))
    waived = whest(*TINY, "isolation.kind=none", "isolation.require=[]")
    assert waived.exit_code == 0, waived.err
    assert waived.report["run_config"]["isolation"]["status"] == "unprotected"


@pytest.mark.parametrize("mode", ["traced", "eager"])
def test_no_line_of_the_estimator_runs_without_what_is_required(mode: str, tmp_path: Path) -> None:
    """`memory` can't be in force: no limit is set. The file would leave a mark if it were imported."""
    spec = spec_of("raise SystemExit('imported')\n" + SOURCE, tmp_path, mode)
    isolation = Isolation("process", False, ("memory",))
    with (
        open_runner(isolation, spec, context(), LIMITS, (), tmp_path / "xla") as runner,
        pytest.raises(UnprotectedError, match=r"isolation\.require=memory .*add memory_limit_mb=4000"),
    ):
        runner.predict(DATASET.mlp(DATASET.rows[0]))


def test_macos_is_unprotected_and_says_how_to_go_on() -> None:
    """There a worker reports no walls; memory is polled as everywhere."""
    with pytest.raises(UnprotectedError) as caught:
        check_required(WALLS, {"memory": "polled"}, 4000.0, platform="darwin")
    assert "unprotected on macOS (files, network, processes)" in str(caught.value)
    assert "isolation.require=[] runs without" in str(caught.value)
    assert "job=doctor" not in str(caught.value)  # nothing that it names can be had there
    check_required((), {}, None, platform="darwin")
    check_required(("memory",), {"memory": "polled"}, 4000.0, platform="darwin")
    with pytest.raises(UnprotectedError, match="add memory_limit_mb=4000"):
        check_required(("memory",), {}, None, platform="darwin")


def test_an_unknown_protection_is_refused_by_name(whest: Whest) -> None:
    refused = whest("debug=tiny", "isolation.require=[walls]")
    assert refused.exit_code == 2
    assert "isolation.require" in refused.err
    assert "'walls'" in refused.err


@pytest.mark.parametrize(
    ("is_trusted", "found", "status"),
    [
        (True, {}, "trusted"),
        (False, dict.fromkeys(NAMES, "seccomp"), "protected"),
        (False, dict.fromkeys(WALLS, "landlock"), "protected"),
        (False, {**dict.fromkeys(NAMES, "seccomp"), "network": ""}, "unprotected"),
        (False, {}, "unprotected"),
    ],
)
def test_the_status_follows_from_the_walls(is_trusted: bool, found: dict[str, str], status: str) -> None:
    assert status_of(is_trusted, found) == status


def test_a_report_that_claims_more_than_it_had_is_found(tmp_path: Path) -> None:
    spec = spec_of(SOURCE, tmp_path)
    walls = dict.fromkeys(WALLS, "seccomp")
    config = {"isolation": describe_protection(WALLS, spec, walls)}
    assert broken_promise({"require": list(WALLS)}, config) is None
    config["isolation"]["protections"]["files"] = ""
    assert "files" in str(broken_promise({"require": list(WALLS)}, config))
    assert broken_promise({"require": []}, config) is None
    assert broken_promise({}, config) is None
