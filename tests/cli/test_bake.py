"""Baking gives the same rows bit for bit, also if it is stopped, sliced or merged."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whest.config.build import build_target
from whest.dataset.bake import Bake, BakeOptions
from whest.dataset.formats.metadata import Part
from whest.dataset.formats.save import provenance_here
from whest.dataset.slices import VARIABLE, Drawn, hand_over, marked, take_over
from whest.dataset.sources import FreshDataset, SuiteDataset
from whest.dataset.stored import FileDataset
from whest.errors import ConfigError, JobFailedError
from whest.progress import SilentProgress
from whest.truth import cache
from whest.truth.cache import TruthCache
from whest.truth.plain import PlainTruth

Whest = Callable[..., Any]
PATIENCE_S = 300
TINY = ("job=bake", "dataset=fresh", "seed=7", "dataset.width=8", "dataset.depth=2", "truth.n_samples=2000")


def data_of(folder: Path) -> bytes:
    (file,) = (folder / "data").iterdir()
    return file.read_bytes()


# Slices


@pytest.mark.parametrize(("n_mlps", "n"), [(1, 1), (6, 4), (10, 3), (50, 7)])
def test_slices_are_the_whole_in_order(n_mlps: int, n: int) -> None:
    parts = [BakeOptions(f"{k}/{n}", "public", "default").part(n_mlps) for k in range(1, n + 1)]
    assert [index for part in parts for index in range(part.start, part.end)] == list(range(n_mlps))
    sizes = [part.end - part.start for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert {part.total for part in parts} == {n_mlps}


@pytest.mark.parametrize("text", ["0/4", "5/4", "1/7", "4", 4, 0.5, "1/0", "-1/4", "a/b", "1/4/2"])
def test_slices_that_are_none_are_refused(text: object) -> None:
    with pytest.raises(ConfigError, match=rf"bake\.slice={text} must be k/n with .*, e\.g\. 1/4"):
        build_target(BakeOptions, {"slice": text, "split": "public", "config": "default"}, "bake").part(6)


def test_four_slices_merged_are_a_single_bake(whest: Whest, tmp_path: Path) -> None:
    parts = [str(tmp_path / f"part-{k}") for k in range(1, 5)]
    for k, part in enumerate(parts, start=1):
        assert whest(*TINY, "dataset.n_mlps=6", f"bake.slice={k}/4", f"output={part}").exit_code == 0
    assert whest("job=merge", f"inputs=[{','.join(parts)}]", f"output={tmp_path / 'merged'}").exit_code == 0
    elsewhere = f"outputs_dir={tmp_path / 'elsewhere'}"
    single = whest(*TINY, "dataset.n_mlps=6", f"output={tmp_path / 'single'}", elsewhere)
    assert "6 of 6" in single.out
    assert data_of(tmp_path / "merged") == data_of(tmp_path / "single")
    assert load(tmp_path / "merged").sha256 == load(tmp_path / "single").sha256
    assert load(tmp_path / "single").sha256 in single.out


def test_slices_sampled_to_an_error_bar_are_merged_whatever_they_took(whest: Whest, tmp_path: Path) -> None:
    words = [word for word in TINY if not word.startswith("truth")] + ["truth.standard_error=2e-3", "dataset.n_mlps=2"]
    parts = [str(tmp_path / f"part-{k}") for k in (1, 2)]
    for k, part in enumerate(parts, start=1):
        assert whest(*words, f"bake.slice={k}/2", f"output={part}").exit_code == 0
    assert whest("job=merge", f"inputs=[{','.join(parts)}]", f"output={tmp_path / 'merged'}").exit_code == 0
    for k, part in enumerate(parts, start=1):  # and so do slices of the copy
        merged = ("dataset=file", f"dataset.path={tmp_path / 'merged'}")
        assert whest("job=bake", *merged, f"bake.slice={k}/2", f"output={part}-again").exit_code == 0
    again = f"inputs=[{','.join(f'{part}-again' for part in parts)}]"
    assert whest("job=merge", again, f"output={tmp_path / 'again'}").exit_code == 0
    counts = [row.truth.n_samples for row in load(tmp_path / "merged").rows]
    assert counts[0] != counts[1], "else this shows nothing"
    assert all(row.truth.floor_mse <= 2e-3**2 for row in load(tmp_path / "merged").rows)


def load(path: Path) -> Any:
    return FileDataset(str(path)).load()


def test_a_slice_alone_is_not_a_dataset_to_score(whest: Whest, tmp_path: Path) -> None:
    whest(*TINY, "dataset.n_mlps=2", "bake.slice=1/2", f"output={tmp_path / 'part'}")
    ended = whest("dataset=file", f"dataset.path={tmp_path / 'part'}", "tracking=none")
    assert ended.exit_code == 2
    assert "job=merge" in ended.err


# Slices by one command


def test_slices_by_one_command_are_a_single_bake(whest: Whest, tmp_path: Path, outputs: Path) -> None:
    words = (*TINY, "dataset.n_mlps=3")
    sliced = whest(*words, "bake.slices=2", f"output={tmp_path / 'sliced'}")
    assert sliced.exit_code == 0, sliced.err
    assert [name for name in sliced.files if not name.endswith(".npz")] == [], "no folder of a job is left"
    assert whest(*words, f"output={tmp_path / 'single'}", f"outputs_dir={tmp_path / 'elsewhere'}").exit_code == 0
    assert data_of(tmp_path / "sliced") == data_of(tmp_path / "single")
    stated = [json.loads((tmp_path / name / "metadata.json").read_text()) for name in ("sliced", "single")]
    assert all(one.pop("created_at_utc") for one in stated)
    assert stated[0] == stated[1]


def test_a_slice_that_fails_keeps_the_others_and_writes_nothing(
    whest: Whest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (*TINY, "dataset.n_mlps=3", "bake.slices=3", f"output={tmp_path / 'sliced'}")
    draw, asked = Bake.draw, []

    def second_fails(self: Bake, progress: Any) -> Any:
        asked.append(self.part.start)
        if self.part.start == 1:
            raise OSError("no space left")
        yield from draw(self, progress)

    with monkeypatch.context() as patched:
        patched.setattr(Bake, "draw", second_fails)
        ended = whest(*words)
    assert (ended.exit_code, asked) == (1, [0, 1, 2])
    assert "slice 2/3: OSError: no space left. The MLPs that are finished are kept" in ended.err
    assert not (tmp_path / "sliced").exists()
    again = whest(*words)
    assert again.exit_code == 0, again.err
    assert again.out.count("already drawn") == 2


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("bake.slices=4",), "bake.slices=4 must be at most 3, the number of MLPs"),
        (("bake.slices=0",), "bake.slices must be greater than or equal to 1, got 0"),
        (("-m", "bake.slices=2"), "leave -m out"),
        (("bake.slices=2", "output=there"), "output=there exists already"),
    ],
)
def test_slices_that_can_not_be_are_refused(whest: Whest, tmp_path: Path, words: tuple[str, ...], reason: str) -> None:
    (tmp_path / "there").mkdir()
    flags = [word for word in words if word.startswith("-")]
    rest = [word for word in words if word not in flags]
    place = () if "output=there" in words else (f"output={tmp_path / 'x'}",)
    ended = whest(*flags, *TINY, "dataset.n_mlps=3", *rest, *place)
    assert ended.exit_code == 2, ended.err
    assert reason in ended.err
    assert not list((tmp_path / "outputs").rglob("*.npz"))


def test_truth_from_a_machine_with_its_own_disk_is_handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there, here = (bake_in(tmp_path / name) for name in ("there", "here"))
    list(there.draw(SilentProgress()))
    monkeypatch.setenv(VARIABLE, "no-such-mark")
    drawn = hand_over(there, "1/1")
    assert len(drawn.files) == 4, "the truth and the moments of two MLPs"
    take_over(here, [drawn])
    assert [path.read_bytes() for path in here.files()] == [path.read_bytes() for path in there.files()]
    with marked(there.cache) as variables:
        monkeypatch.setenv(VARIABLE, variables[VARIABLE])
        assert hand_over(there, "1/1").files == {}, "who shares the folder hands nothing over"
    assert not list(there.cache.folder.glob(".bake-*"))


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"../evil.npz": b"x"}, "came back damaged"),
        ({f"{'a' * 40}.npz": b"x" * 50}, "came back damaged"),
        ({}, "left no truth of 4"),
    ],
)
def test_a_handed_over_file_is_checked(tmp_path: Path, files: dict[str, bytes], reason: str) -> None:
    bake = bake_in(tmp_path / "here")
    with pytest.raises(JobFailedError, match=reason):
        take_over(bake, [Drawn("1/1", files)])
    assert not bake.cache.folder.exists()


def bake_in(folder: Path) -> Bake:
    sampler = PlainTruth(64, moments=True, moment_samples=1024)
    dataset = FreshDataset(4, 2, 7, 2).load()
    provenance = provenance_here("public", "default", None, None, "")
    return Bake(dataset, Part(0, 2, 2), sampler, TruthCache(folder / "cache"), folder / "out", provenance)


# What is baked


def test_a_baked_dataset_scores_as_the_seeds_it_came_from(whest: Whest, tmp_path: Path) -> None:
    whest(*TINY, "dataset.n_mlps=2", f"output={tmp_path / 'baked'}")
    common = ("tracking=none", "estimator=mean_prop", "budget=1e9")
    there = whest("dataset=file", f"dataset.path={tmp_path / 'baked'}", f"hydra.run.dir={tmp_path / 'a'}", *common)
    here = whest(*TINY[1:], "dataset.n_mlps=2", f"hydra.run.dir={tmp_path / 'b'}", *common)
    assert (there.exit_code, here.exit_code) == (0, 0)
    assert there.report["results"]["per_layer_mse"] == here.report["results"]["per_layer_mse"]
    assert there.report["results"]["truth_floor_mse"] == here.report["results"]["truth_floor_mse"]
    assert there.report["run_config"]["dataset"]["sha256"] == load(tmp_path / "baked").sha256


def test_what_is_drawn_is_not_drawn_again(whest: Whest, tmp_path: Path) -> None:
    whest(*TINY, "dataset.n_mlps=2", f"output={tmp_path / 'two'}")
    more = whest(*TINY, "dataset.n_mlps=3", f"output={tmp_path / 'three'}")
    assert more.out.count("already drawn") == 2
    assert more.out.count(" of 3 ") == 3


def test_a_range_is_a_dataset_of_its_own(whest: Whest, tmp_path: Path) -> None:
    whest(*TINY, "dataset.n_mlps=4", f"output={tmp_path / 'all'}")
    whest(*TINY, "dataset.range=[2,4]", f"output={tmp_path / 'holdout'}", "bake.split=holdout")
    whole, part = load(tmp_path / "all"), load(tmp_path / "holdout")
    assert [row.index for row in part.rows] == [0, 1]
    assert [(row.name, row.mlp_seed) for row in part.rows] == [(row.name, row.mlp_seed) for row in whole.rows[2:]]
    assert part.split == "holdout"
    again = whest("job=bake", "dataset=file", f"dataset.path={tmp_path / 'all'}", "dataset.range=[2,4]", "output=again")
    assert again.exit_code == 0, again.err
    assert load(tmp_path / "again").sha256 == part.sha256
    assert str(tmp_path) not in (tmp_path / "again" / "metadata.json").read_text()


@pytest.mark.parametrize("name", ["suite", "suite.npz"])
def test_a_suite_is_exported_with_its_truth(whest: Whest, tmp_path: Path, name: str) -> None:
    ended = whest("job=bake", "dataset.n_mlps=2", f"output={tmp_path / name}")
    assert ended.exit_code == 0, ended.err
    shipped, stored = SuiteDataset("warmup", n_mlps=2).load(), load(tmp_path / name)
    for theirs, ours in zip(shipped.rows, stored.rows, strict=True):
        np.testing.assert_array_equal(ours.truth.means, theirs.truth.means)
        np.testing.assert_array_equal(shipped.mlp(theirs).weights, stored.mlp(ours).weights)
    assert stored.sampler == shipped.sampler


def test_the_command_in_the_metadata_leaves_out_where_it_was_written(whest: Whest, tmp_path: Path) -> None:
    whest(*TINY, "dataset.n_mlps=1", f"output={tmp_path / 'baked'}")
    assert str(tmp_path) not in (tmp_path / "baked" / "metadata.json").read_text()
    assert str(tmp_path) not in (tmp_path / "baked" / "README.md").read_text()
    assert "truth.n_samples=2000" in (tmp_path / "baked" / "README.md").read_text()


# Refusals: nothing is drawn, nothing is written


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "output is missing"),
        (("output=there",), "output=there exists already"),
        (("output=x", "seed=null"), "seed is missing"),
        (("output=x", "bake.slice=3/2"), r"bake.slice=3/2 must be"),
        (("output=x", "bake.slice=9/9"), r"bake.slice=9/9 must be"),
        (("output=x", "truth.standard_error=1e-2"), "contradict each other"),
        (("output=x", "bake.split=Public"), "bake.split=Public must be"),
        (("output=/proc/x/y",), "output=/proc/x/y can't be written"),
        (("output=x", "dataset=suite"), "has no effect"),
        (("output=x", "bake.slices=1/2"), "bake.slices must be a valid integer"),
        (("output=x", "bake.part=1/2"), "bake.part is not a key"),
    ],
)
def test_a_bake_that_can_not_be_is_refused_at_once(
    whest: Whest, tmp_path: Path, words: tuple[str, ...], reason: str
) -> None:
    (tmp_path / "there").mkdir()
    drop = {word.partition("=")[0] for word in words}
    given = [word for word in (*TINY, "dataset.n_mlps=2") if word.partition("=")[0] not in drop]
    given = [word for word in given if not (word.startswith("dataset.") and "dataset" in drop)]
    ended = whest(*given, *words)
    assert ended.exit_code == 2, ended.out
    assert reason in ended.err
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "outputs") == ["there"]
    assert not list((tmp_path / "outputs").rglob("*.npz"))


# Stopped, killed and resumed


ENDS_LATE = "import atexit; atexit.register(print, 'a late end'); from whest.__main__ import program; program()"
"""The command line in a process that would say so if Python's own clean-up ran, which crashed under JAX's threads."""


def test_ctrl_c_ends_a_bake_with_one_sentence_and_no_clean_up(tmp_path: Path, environment: dict[str, str]) -> None:
    kept = tmp_path / "outputs" / "cache" / "truth"
    words = [*TINY[:-1], "dataset.n_mlps=3", "truth.n_samples=10000000000", f"output={tmp_path / 'baked'}"]
    command = [sys.executable, "-c", ENDS_LATE, *words, f"outputs_dir={tmp_path / 'outputs'}"]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, cwd=tmp_path, **piped) as process:  # type: ignore[call-overload]
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not list(kept.glob("*.begun")):
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline, "it draws nothing"
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert process.returncode == 130
    told = [line for line in err.splitlines() if not line.startswith("baking baked: ")]  # a busy machine's progress
    assert told == ["whest: interrupted; the finished work is saved"]
    assert "a late end" not in out
    assert list(kept.glob("*.begun")), "what was drawn is kept"
    assert not (tmp_path / "baked").exists()


class InterruptedWhileFreed:
    """Ctrl-C arrives while Python frees this object: what is raised in `__del__` is ignored."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.getpid()  # here at the latest the handler runs


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_ctrl_c_that_python_ignored_ends_a_bake_before_its_next_block(
    whest: Whest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, blocks = cache.write_arrays, []

    def interrupted(path: Path, arrays: Any) -> None:
        write(path, arrays)
        blocks.append(path.suffix)
        if len(blocks) == 1:
            InterruptedWhileFreed()

    monkeypatch.setattr(cache, "write_arrays", interrupted)
    ended = whest(*TINY, "dataset.n_mlps=2", f"output={tmp_path / 'baked'}")
    assert ended.exit_code == 130, ended.out
    assert ended.err.splitlines()[-1] == "whest: interrupted; the finished work is saved"
    assert blocks == [".begun"]
    assert not (tmp_path / "baked").exists()


def bake_words(width: int, n_samples: int) -> tuple[str, ...]:
    """Three MLPs, each in blocks of a second or less."""
    shape = (f"dataset.width={width}", "dataset.depth=3", "dataset.n_mlps=3")
    return ("job=bake", "dataset=fresh", "seed=7", *shape, f"truth.n_samples={n_samples}")


def bake_process(words: tuple[str, ...], folder: Path, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "whest", *words, f"output={folder / 'killed'}", f"outputs_dir={folder / 'outputs'}"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def kill_once_it_draws(process: "subprocess.Popen[bytes]", cache: Path, after_s: float) -> bool:
    """kill -9 this long after the next block was kept; False if the bake finished before."""

    def kept() -> list[tuple[str, int]]:
        return sorted((path.name, path.stat().st_mtime_ns) for path in cache.glob("*") if path.exists())

    before, deadline = kept(), time.monotonic() + PATIENCE_S
    while process.poll() is None and kept() == before:
        assert time.monotonic() < deadline, "it draws nothing"
        time.sleep(0.01)
    time.sleep(after_s)
    if process.poll() is not None:
        return False
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return True


@pytest.mark.parametrize(
    ("kills", "width", "n_samples"), [(1, 64, 270_000), pytest.param(20, 256, 3_000_000, marks=pytest.mark.slow)]
)
def test_a_killed_bake_goes_on_to_the_same_bits(
    whest: Whest, tmp_path: Path, environment: dict[str, str], kills: int, width: int, n_samples: int
) -> None:
    rng, words, killed = random.Random(kills), bake_words(width, n_samples), tmp_path / "killed"
    for _ in range(kills):
        process = bake_process(words, tmp_path, environment)
        was_killed = kill_once_it_draws(process, tmp_path / "outputs" / "cache" / "truth", rng.uniform(0, 0.2))
        assert was_killed, "the bake was over before it could be killed"
    assert not killed.exists()
    assert bake_process(words, tmp_path, environment).wait(PATIENCE_S) == 0
    assert whest(*words, f"output={tmp_path / 'whole'}", f"outputs_dir={tmp_path / 'elsewhere'}").exit_code == 0
    assert data_of(killed) == data_of(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "killed", "outputs", "whole"]
