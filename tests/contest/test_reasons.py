"""Why an entry failed, in a line that stands on the board: its report is not published."""

from typing import Any

import pytest

from tests.support.sealing import CONTEXT
from whest.contest.scoring import told_reason
from whest.estimator.traced import trace
from whest.isolation.portable import write_program
from whest.isolation.roles import evaluator
from whest.report import SEE_REPORT

GENERIC = f"the estimator failed: {SEE_REPORT}"
ROW: dict[str, Any] = {"error_code": "BAD_SHAPE", "error": {"message": "it is (3,)\nand more"}}


@pytest.mark.parametrize(
    ("problem", "results", "said"),
    [
        (GENERIC, {"per_mlp": [{"mlp_index": 0}, ROW]}, "the estimator failed: BAD_SHAPE: it is (3,)"),
        (GENERIC, {"per_case": [ROW]}, "the estimator failed: BAD_SHAPE: it is (3,)"),
        (GENERIC, {"failure": "it read ahead", "per_case": []}, "the estimator failed: it read ahead"),
        (GENERIC, {}, GENERIC),
        ("the run is invalid", {"per_mlp": [ROW]}, "the run is invalid"),
    ],
)
def test_a_failure_has_its_reason(problem: str, results: Any, said: str) -> None:
    assert told_reason(problem, results) == said


def test_a_program_without_an_output_is_told_so() -> None:
    document, arrays = write_program(trace(lambda weights, seed, key: weights[:, 0], CONTEXT).jaxpr)
    document["program"]["outputs"] = []
    answer = evaluator({"context": vars(CONTEXT), "cache": None, "prices": "whest"})
    reply, _ = answer({"do": "load", "program": document}, arrays)
    assert reply["failure"]["message"] == "the program has no output: it returns nothing"
