"""`job=profile`: events of a trace as seconds by label and operation, reconciled with the whole call."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from mlflow import MlflowClient

from whest.cost import Charge, Cost
from whest.page import Flame, Frame, render
from whest.page.render import flame_boxes
from whest.tasks.whitebox.machine import Machine, measure_machine
from whest.tasks.whitebox.measuring import join_parts
from whest.tasks.whitebox.profile import Compiled, Profile
from whest.tasks.whitebox.timeline import CALL, Spent, calls_of, finished, read_instructions

Whest = Callable[..., Any]
TEXT = """
ENTRY %main (a: f32[4,8]) -> f32[4,4] {
  %a = f32[4,8]{1,0} parameter(0), metadata={op_name="weights"}
  %dot.1 = f32[4,4]{1,0} dot(%a, %a), lhs_contracting_dims={1}, metadata={op_name="jit(f)/outer/inner/dot_general"}
  %fusion.2 = (f64[4]{0}, pred[4]{0}) fusion(%dot.1), kind=kLoop, calls=%c, metadata={op_name="jit(f)/outer/jit(g)/add"}
  %while.3 = f32[4]{0} while(%fusion.2), condition=%t, body=%b, metadata={op_name="jit(f)/outer/while"}
  ROOT %dot.4 = f32[4,4]{1,0} dot(%dot.1, %dot.1), lhs_contracting_dims={1}
}
"""


def event(name: str, begin: float, dur: float, op: str = "", thread: int = 1) -> dict[str, Any]:
    return {"name": name, "ts": begin, "dur": dur, "tid": thread, "args": {"hlo_op": op} if op else {}}


def test_instructions_keep_the_authors_labels_and_their_bytes() -> None:
    known = read_instructions(TEXT, ["outer.inner", "outer", ""])
    assert known["dot.1"].place == ("outer.inner", "dot_general")
    assert known["dot.1"].n_bytes == 4 * (16 + 32 + 32)
    assert known["fusion.2"].place == ("outer", "add")
    assert known["fusion.2"].n_bytes == 4 * 8 + 4 + 4 * 16
    assert known["dot.4"].place == ("", "dot_general")
    assert known["while.3"].opcode == "while"


def test_threads_share_a_moment_and_loops_are_not_counted_twice() -> None:
    known = read_instructions(TEXT, ["outer.inner"])
    events = [
        event(CALL, 0, 100),
        event("while.3", 10, 80, "while.3"),
        event("dot.1", 10, 30, "dot.1"),
        event("end: dot.1", 40, 0),
        event("dot.4", 20, 40, "dot.4", thread=2),
        event("end: dot.4", 60, 0),
        event(CALL, 200, 50),
        event("dot.1", 210, 20, "dot.1"),
        event("end: dot.1", 230, 0),
    ]
    first, second = calls_of(events, known)
    assert first["outer.inner", "dot_general"].seconds == pytest.approx(20e-6), "10 alone, half of 20 shared"
    assert first["", "dot_general"].seconds == pytest.approx(30e-6), "half of 20 shared, 20 alone"
    assert sum(spent.seconds for spent in first.values()) == pytest.approx(50e-6), "the time in which anything ran"
    assert second == {("outer.inner", "dot_general"): Spent(pytest.approx(20e-6), 4 * 80)}


def test_an_instruction_that_left_its_thread_ends_at_its_mark_or_when_the_next_one_starts() -> None:
    timed = [(0.0, 10.0, "a"), (30.0, 35.0, "b"), (50.0, 52.0, "c")]
    ends = {"a": [90.0], "b": [40.0]}
    assert finished(timed, ends) == [(0.0, 30.0, "a"), (30.0, 40.0, "b"), (50.0, float("inf"), "c")]


def profile_of(calls: list[dict[tuple[str, str], Spent]]) -> Profile:
    cost = Cost((Charge("a.b", "dot_general", 10**9, 2), Charge("a", "exp", 1000, 1)), 9e8, (), 1.1e9)
    machine = Machine(1e11, 1e10)
    return Profile("x on 8×2", 0.02, 0.03, len(calls), Compiled(1, 2, 3), cost, join_parts(cost, calls), machine)


def test_the_parts_and_the_remainder_are_the_whole_call() -> None:
    calls = [{("a.b", "dot_general"): Spent(t, 1e6), ("", "copy"): Spent(0.004, 4e7)} for t in (0.011, 0.013)]
    found = profile_of(calls)
    document = found.to_json()
    parts = {(part["namespace"], part["operation"]): part for part in document["operations"]}
    assert parts["a.b", "dot_general"]["seconds"] == pytest.approx(0.012)
    assert parts["a.b", "dot_general"]["seconds_se"] == pytest.approx(0.001)
    assert parts["a.b", "dot_general"]["bound_by"] == "compute"
    assert parts["", "copy"]["bound_by"] == "memory"
    assert parts["a", "exp"]["seconds"] == 0, "fused into a neighbour"
    assert sum(part["seconds"] for part in parts.values()) + document["remainder_s"] == pytest.approx(0.03)
    assert sum(part["seconds"] for part in document["namespaces"]) == pytest.approx(0.016)
    assert document["cost"]["flops_flopscope"] == 1.1e9
    assert "1.50 × as long" in found.lines()[-1]
    page = render(found.page("a command"))
    assert "between operations" in page
    assert "<rect" in page


def test_what_limits_a_part_is_told_by_the_machines_own_rates() -> None:
    machine = Machine(flops_per_s=100.0, bytes_per_s=10.0)
    assert machine.bound(flops=100, n_bytes=1, seconds=1.5) == "compute"
    assert machine.bound(flops=10, n_bytes=10, seconds=1.5) == "memory"
    assert machine.bound(flops=10, n_bytes=1, seconds=1.5) == "neither"
    assert machine.better(Machine(50.0, 20.0)) == Machine(100.0, 20.0)
    measured = measure_machine(size=64, length=4096)
    assert min(measured.flops_per_s, measured.bytes_per_s) > 0


def test_boxes_of_a_flame_stand_below_their_whole() -> None:
    inner = [Frame("b", 3, ""), Frame("<c>", 1, "")]
    boxes, n_rows = flame_boxes(Flame([Frame("a", 4, "", [*inner, Frame("tiny", 0.0001, "")])]))
    assert n_rows == 2
    assert [(frame.name, row, left, width) for frame, row, left, width, _ in boxes] == [
        ("a", 0, 0, 1000),
        ("b", 1, 0, 750),
        ("<c>", 1, 750, 250),
    ]


@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning")  # MLflow's
def test_a_real_program_is_profiled_by_its_own_trace(whest: Whest) -> None:
    outcome = whest("job=profile", "debug=tiny", "seed=1", "tracking=mlflow")
    assert outcome.exit_code == 0, outcome.err
    found = json.loads((outcome.folder / "profile.json").read_text())
    timed = {part["namespace"] for part in found["operations"] if part["seconds"] > 0}
    assert {"propagate", "rectify"} <= timed, "cov_prop's own labels"
    total = sum(part["seconds"] for part in found["operations"])
    assert 0 < total <= found["profiled_wall_time_s"]
    assert total + found["remainder_s"] == pytest.approx(found["profiled_wall_time_s"])
    assert sum(part["flops"] for part in found["operations"]) == found["cost"]["flops_used"]
    assert found["cost"]["flops_flopscope"] > 0
    assert min(found["compile"].values()) > 0
    for part in ("compiling", "this machine", "propagate", "between operations", "FLOPs by flopscope"):
        assert part in outcome.out
    client = MlflowClient(f"sqlite:///{outcome.outputs}/mlflow.db")
    (run,) = [run for it in client.search_experiments() for run in client.search_runs([it.experiment_id])]
    assert {item.path for item in client.list_artifacts(run.info.run_id)} == {"profile.json", "profile.html"}
    assert run.data.metrics["flops_used"] == found["cost"]["flops_used"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("estimator.mode=eager",), "job=profile needs estimator.mode=traced"),
        (("isolation=process",), "job=profile measures in this process"),
        (("experiment=prism", "data=generated", "estimator=ngram"), "job=profile is for task=whitebox"),
    ],
)
def test_what_cannot_be_profiled_is_refused(whest: Whest, words: tuple[str, ...], expected: str) -> None:
    refused = whest("job=profile", "tracking=none", *words)
    assert refused.exit_code == 2, refused.out
    assert expected in refused.err
