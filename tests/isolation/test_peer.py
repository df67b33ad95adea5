"""`estimator=whestbench` without the peer: what is refused and how, flags, the worker's messages, its surroundings."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.places import ROOT
from whest.cost import Charge, Cost, Timing
from whest.dataset.sources import FreshDataset
from whest.document import protocol_hash
from whest.errors import ConfigError
from whest.estimator.contract import SetupContext
from whest.estimator.peer import PeerPython, find_peer
from whest.estimator.spec import EstimatorSpec, estimator_spec
from whest.isolation.choose import Isolation, open_runner
from whest.isolation.furniture import devices
from whest.isolation.launch import Room, order
from whest.isolation.messages import WorkerFailedError
from whest.isolation.peer import peer_flags, read_answer, whole_cost
from whest.isolation.scratch import Scratch
from whest.isolation.walls.room import without_nested
from whest.limits import WorkerLimits

HERE = PeerPython(sys.executable, sys.prefix, "0.16.2", "0.12.4", "2.4")
CONTEXT = SetupContext(4, 2, 1000, 10.0, 2.0, 0.5, 0, "", None)


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} here")
    return found


@pytest.mark.parametrize(
    ("python", "words"),
    [
        ("no/such/python", "estimator.python=no/such/python: no such file"),
        ("false", "has no whestbench"),
        ("echo", "is not a Python interpreter"),
    ],
)
def test_an_interpreter_without_the_peer_is_refused_with_the_remedy(python: str, words: str) -> None:
    with pytest.raises(ConfigError, match="make peer") as refused:
        find_peer(python if "/" in python else program(python))
    assert words in str(refused.value)


def test_an_interpreter_with_an_old_peer_is_refused(tmp_path: Path) -> None:
    """One that has packages of those names, and nothing in them."""
    place = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    (site,) = place.glob("lib/python*/site-packages")
    for name, version in (("whestbench", "0.9.1"), ("flopscope", "0.3"), ("numpy", "2.0")):
        folder = site / f"{name}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    with pytest.raises(ConfigError, match=r"whestbench 0\.9\.1, older than 0\.16.*make peer"):
        find_peer(str(place / "bin" / "python"))


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ({"path": "absent.py"}, "estimator.path=absent.py: no such file or folder"),
        ({"path": "."}, "is a folder without an estimator.py"),
        ({}, "estimator=whestbench estimator.path=theirs.py"),
        ({"path": "mine.py", "_target_": "a.b"}, "estimator=whestbench estimator.path=theirs.py"),
        ({"path": "mine.py", "rank": 3}, "estimator.rank is not a key"),
        ({"path": "mine.py", "class_name": 3}, "estimator.class_name"),
        ({"path": "mine.py", "python": "absent"}, "estimator.python=absent: no such file"),
    ],
)
def test_a_wrong_key_is_refused(
    node: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("")
    with pytest.raises(ConfigError) as refused:
        estimator_spec({"name": "whestbench", "mode": "flopscope", **node})
    assert words in str(refused.value)


def test_the_peers_versions_make_a_track_of_their_own(tmp_path: Path) -> None:
    theirs = EstimatorSpec("whestbench", "flopscope", None, tmp_path, {}, HERE)
    newer = replace(theirs, peer=replace(HERE, flopscope="0.13.0"))
    ours = EstimatorSpec("zeros", "traced", "estimators.zeros.Zeros", None, {})
    assert theirs.meter == {"name": "flopscope", "version": "0.12.4", "whestbench": "0.16.2"}
    assert len({protocol_hash(spec.meter) for spec in (theirs, newer, ours)}) == 3


def test_a_folders_digest_is_of_everything_in_it(tmp_path: Path) -> None:
    (tmp_path / "estimator.py").write_text("x = 1")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "data.npy").write_bytes(b"1")
    spec = EstimatorSpec("whestbench", "flopscope", None, tmp_path, {}, HERE)
    before = spec.source_sha256
    assert (spec.source, spec.submission_dir) == (tmp_path / "estimator.py", str(tmp_path))
    (tmp_path / "more" / "data.npy").write_bytes(b"2")
    changed = spec.source_sha256
    (tmp_path / "more" / "data.npy").rename(tmp_path / "more" / "other.npy")
    assert len({before, changed, spec.source_sha256}) == 3


def test_it_has_an_interpreter_of_its_own_and_so_always_a_worker(tmp_path: Path) -> None:
    spec = EstimatorSpec("whestbench", "flopscope", None, tmp_path, {}, HERE)
    assert Isolation("auto", False).is_process(spec)
    Isolation("process", False).refuse_unfit(spec)
    with pytest.raises(ConfigError, match="isolation=none"):
        Isolation("none", False).refuse_unfit(spec)


SECONDS = st.floats(0, 4, allow_nan=False)


@given(st.sampled_from(["ok", "budget", "time"]), st.integers(0, 1000), SECONDS, SECONDS)
def test_of_the_peers_flags_the_first_that_holds_is_the_only_one(
    status: Any, flops: int, backend: float, residual: float
) -> None:
    flags = peer_flags(status, flops, Timing(backend, 0.0, residual), CONTEXT)
    over = [
        status == "budget",
        status == "time" or backend + residual > 2,
        residual > 0.5,
        flops + 10 * residual > 1000,
    ]
    expected = [holds and not any(over[:i]) for i, holds in enumerate(over)]
    assert list(vars(flags).values()) == expected


def reply(**changes: Any) -> dict[str, Any]:
    timing = {"backend_time_s": 0.1, "overhead_time_s": 0.1, "residual_wall_time_s": 0.1}
    charges = [{"namespace": "a", "operation": "matmul", "flops": 7, "calls": 1, "timing": timing}]
    return {"status": "ok", "flops_used": 7, "timing": timing, "cost": {"charges": charges}, **changes}


def test_an_answer_is_read_with_its_costs() -> None:
    means = np.ones((2, 4), np.float32)
    found = read_answer(reply(flops_used=9), [means], CONTEXT)
    np.testing.assert_array_equal(found.means, means)
    assert [(charge.operation, charge.flops) for charge in found.cost.charges] == [("matmul", 7), ("not attributed", 2)]
    assert found.timing.wall_time_s == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("changes", "arrays"),
    [
        ({"status": "great"}, 1),
        ({"flops_used": -1}, 1),
        ({"flops_used": 6}, 1),
        ({"flops_used": "many"}, 1),
        ({"timing": {"backend_time_s": -1.0}}, 1),
        ({"timing": None}, 1),
        ({"cost": {"charges": [{"flops": 1}]}}, 1),
        ({}, 0),
        ({}, 2),
    ],
)
def test_an_answer_of_the_wrong_form_is_not_believed(changes: dict[str, Any], arrays: int) -> None:
    with pytest.raises(WorkerFailedError):
        read_answer(reply(**changes), [np.ones((2, 4), np.float32)] * arrays, CONTEXT)


@pytest.mark.parametrize("array", [np.ones((4, 2), np.float32), np.full((2, 4), np.nan, np.float32)])
def test_an_array_that_the_peer_would_have_refused_is_not_believed(array: np.ndarray) -> None:
    with pytest.raises(WorkerFailedError):
        read_answer(reply(), [array], CONTEXT)


def test_a_cost_has_the_peers_sum() -> None:
    cost = Cost((Charge("", "add", 3, 1),))
    assert whole_cost(cost, 3) is cost
    assert whole_cost(cost, 5).flops == 5


def test_a_worker_that_does_not_come_up_fails_every_mlp_with_its_last_words(tmp_path: Path) -> None:
    """This interpreter stands for one whose whestbench is broken: the metadata was there, the import is not."""
    if "whestbench" in sys.modules or shutil.which("whest", path=str(Path(sys.executable).parent)):
        pytest.skip("whestbench is installed here")
    (tmp_path / "estimator.py").write_text("")
    spec = EstimatorSpec("whestbench", "flopscope", None, tmp_path, {}, HERE)
    dataset = FreshDataset(width=4, depth=2, seed=7, n_mlps=2).load()
    with open_runner(Isolation("auto", False), spec, CONTEXT, WorkerLimits(2, 9, None), [], tmp_path) as runner:
        found = [runner.predict(dataset.mlp(row)) for row in dataset.rows]
    for prediction in found:
        assert prediction.failure is not None
        assert prediction.failure.code == "SETUP_PROTOCOL_ERROR"
        assert "No module named 'whestbench'" in str(prediction.failure.traceback)
        assert prediction.flags is not None
        assert not prediction.flags.any


LOOK = """
import importlib.util, json, os, sys
sys.path.insert(0, sys.argv[1])
from whest.isolation.walls.raising import raise_walls
from whest.isolation.walls.room import Order
found = raise_walls(Order(**json.loads(sys.argv[2])), list)
outputs, peer = sys.argv[3:]
print(json.dumps({"found": found, "hidden": os.listdir(outputs), "kept": os.listdir(peer), "left": os.listdir()}))
"""


@pytest.mark.parametrize("outer", [[], ["."]], ids=["alone", "within a folder that is seen"])
def test_an_environment_among_the_outputs_stays_in_sight(tmp_path: Path, outer: list[str]) -> None:
    """`make peer` puts the interpreter into the folder that holds the answers."""
    (tmp_path / "outputs" / "peer" / "lib").mkdir(parents=True)
    (tmp_path / "outputs" / "cache").mkdir()
    (tmp_path / "outputs" / "answers").write_text("42")
    hidden = [tmp_path / "outputs"]
    peer = tmp_path / "outputs" / "peer"
    allowed = without_nested([Path("/usr"), Path(sys.base_prefix), peer, *(tmp_path / name for name in outer)], hidden)
    scratch = Scratch()
    told = order(Room(allowed, hidden, devices=devices("cpu")), [str(hidden[0])], scratch)
    arguments = [sys.executable, "-I", "-S", "-c", LOOK, ROOT, json.dumps(told), *hidden, peer]
    ended = subprocess.run(arguments, capture_output=True, text=True)
    scratch.remove()
    seen = json.loads(ended.stdout or ended.stderr)
    assert seen["found"]["files"] == "namespaces+landlock"
    assert (seen["hidden"], seen["kept"], seen["left"]) == (["peer"], ["lib"], [])
    assert (tmp_path / "outputs" / "answers").read_text() == "42"
