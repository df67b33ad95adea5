"""A contest of thirty entries from the inbox to the verified board, killed ten times on the way."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest

from tests.support.contests import RULES, SHAPE, copied, fix_secret, put, sealed, sealed_constant
from tests.support.sealing import context_of, parts_of, seal_estimator, seal_function, seal_programs, with_header
from whest.contest.verify import verify
from whest.sealed.container import pack, read_file
from whest.sealed.purpose import Purpose

WORDS = (
    *RULES,
    "contest.deadline=2026-09-22T00:00:00Z",
    "contest.received=file",
    "contest.entries_per_participant=4",
    "contest.limit_bytes=20000",
    "contest.limit_constants=4096",
)
LATE_S = 200_000
"""The inbox's first date is 2026-09-21, so this is after the deadline."""
KILLS = (2, 8, 17, 26, 32, 34, 36, 39, 42, 44)
"""The host is killed as soon as the log has so many lines. 31 lines are there before the first score."""
PATIENCE_S = 600


def failing(weights: Any, *rest: Any) -> Any:
    """Not a number."""
    return jnp.full(weights.shape[:2], jnp.nan) + 0 * weights[:, 0]


def greedy(weights: Any, *rest: Any) -> Any:
    """Far more FLOPs than the budget."""
    square = jnp.broadcast_to(weights[0, 0, 0], (400, 400))
    return jnp.zeros(weights.shape[:2]) + (square @ square).sum() + 0 * weights[:, 0]


def hostile_files() -> list[bytes]:
    """Noise, a cut file, false headers, and two whole files whose programs can't be built."""
    honest = sealed("mean_prop")
    header, message, arrays = parts_of(honest)
    purpose = Purpose("whitebox", SHAPE[2], width=SHAPE[0], depth=SHAPE[1])
    equations = json.loads(json.dumps(message))
    equations["program"]["program"]["equations"][0][0] = "os.system"
    unknown = seal_programs(equations, arrays, purpose)
    empty = seal_programs({"program": {"format": 2, "program": {}}}, [], purpose)
    deep = with_header(honest, {**header, "words": [[[[[[]]]]]]})
    false_size = with_header(honest, {**header, "parts": [{**header["parts"][0], "size": 2**26}, *header["parts"][1:]]})
    assert pack(b"")[0].size == 0
    assert read_file(unknown)[0].name == "mine"
    return [random.Random(1).randbytes(3000), honest[: len(honest) // 2], deep, false_size, unknown, empty]


def fill(inbox: Path) -> None:
    """Thirty files: 12 honest, 3 failing, 2 over budget, 6 hostile, 3 duplicates, 2 late, 2 too large."""
    context = context_of(*SHAPE)
    honest = [sealed("mean_prop"), sealed("cov_prop"), seal_estimator("zeros", context)]
    honest += [sealed_constant(value / 10) for value in range(9)]
    failed = [seal_function(failing, context, f"failing{number}") for number in range(3)]
    over = [seal_function(greedy, context, f"greedy{number}") for number in range(2)]
    large = [bytes(20_001), sealed_constant(0.5, carried=2000)]
    kinds = {"good": honest, "fails": failed, "over": over, "hostile": hostile_files(), "copy": honest[:3]}
    files = [(kind, content) for kind, contents in kinds.items() for content in contents]
    files += [("large", content) for content in large]
    random.Random(7).shuffle(files)
    for number, (kind, content) in enumerate(files):
        put(inbox, f"{kind}{number % 5}/{number}.whest", content, number)
    for number in range(2):
        put(inbox, f"late{number}/one.whest", sealed_constant(5.0 + number), LATE_S + number)


@pytest.fixture
def command(environment: dict[str, str], tmp_path: Path) -> Any:
    def start(contest: Path, *words: str, **more: Any) -> subprocess.Popen[str]:
        typed = [
            "job=host",
            f"output={contest}",
            f"inbox={tmp_path / 'inbox'}",
            f"outputs_dir={tmp_path / 'o'}",
            *words,
        ]
        words_ = [sys.executable, "-m", "whest", *typed]
        return subprocess.Popen(
            words_, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more
        )

    return start


def finish(process: subprocess.Popen[str]) -> None:
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, out


def kill_at(process: subprocess.Popen[str], log: Path, n_lines: int) -> None:
    """kill -9 as soon as the log has so many lines."""
    end = time.monotonic() + PATIENCE_S
    while log.read_bytes().count(b"\n") < n_lines:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_a_contest_that_was_killed_ten_times_has_the_same_board(tmp_path: Path, command: Any) -> None:
    fill(tmp_path / "inbox")
    finish(command(fix_secret(tmp_path / "start"), *WORDS, "inbox=null"))
    calm, killed = (copied(tmp_path / "start", tmp_path / name / "spring") for name in ("calm", "killed"))
    finish(command(calm))
    for n_lines in KILLS:
        kill_at(command(killed), killed / "log.jsonl", n_lines)
    finish(command(killed))
    for name in ("board.json", "board.csv", "board.html"):
        assert (calm / name).read_bytes() == (killed / name).read_bytes(), name

    rows = json.loads((calm / "board.json").read_text())["rows"]
    kinds = sorted((row["participant"][:-1], row["status"]) for row in rows)
    assert len(json.loads((calm / "board.json").read_text())["entries"]) == 30
    assert sum(status == "refused" for _, status in kinds) == 3 + 2 + 4
    assert sum(status == "late" for _, status in kinds) == 2
    assert [status for kind, status in kinds if kind == "hostile"] == ["refused"] * 4 + ["unfinished"] * 2
    ranked = [row for row in rows if row["rank"] is not None]
    assert ranked[0]["estimator"] == "cov_prop"

    for contest in (calm, killed):
        finish(command(contest, "host.do=close", "inbox=null"))
        assert verify(contest)[1] == []
        lines = [json.loads(line) for line in (contest / "log.jsonl").read_text().splitlines()]
        assert [line["kind"] for line in lines].count("received") == 30
        scored = [line["entry"] for line in lines if line["kind"] == "scored"]
        assert len(scored) == len(set(scored)) == 30 - 3 - 2 - 4 - 2


@pytest.mark.slow
def test_entries_are_scored_in_parallel_by_joblibs_launcher(tmp_path: Path, command: Any) -> None:
    for number, name in enumerate(("mean_prop", "cov_prop", "zeros")):
        put(tmp_path / "inbox", f"ada{number}/one.whest", sealed(name), number)
    put(tmp_path / "inbox", "eve/one.whest", hostile_files()[4], 9)
    finish(command(tmp_path / "start", *WORDS, "inbox=null"))
    one, many = (copied(tmp_path / "start", tmp_path / name / "spring") for name in ("one", "many"))
    finish(command(one))
    finish(command(many, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2"))
    assert (one / "board.json").read_bytes() == (many / "board.json").read_bytes()
    assert len(list((tmp_path / "many" / "spring.private" / "sweep").glob("[0-9]*"))) == 4
    assert verify(many)[1] == []
