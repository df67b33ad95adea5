"""The types of `report.json`: real reports fit them, and docs/report.schema.json is made from them."""

import copy
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import whest
from tests.support.documents import check_document, check_types
from tests.support.places import ROOT
from whest.document import json_schema, json_text, strict_json
from whest.results import MlpRow, PrequentialResults, WhiteboxResults
from whest.schema import ErrorJson

Json = dict[str, Any]
SCHEMA = ROOT / "docs" / "report.schema.json"
FAILING = """
class Estimator:
    def predict(self, mlp, budget):
        raise ValueError("too hard")
"""
PRISM = ("experiment=prism", "data=generated", "data.max_bytes=4096", "data.val_bytes=1024", "budget=1e9")
RUNS = {
    "traced": ("debug=tiny", "budget=1e8", "estimator=cov_prop"),
    "eager": ("debug=tiny", "budget=1e8", "estimator=mean_prop", "estimator.mode=eager", "report.names=whestbench"),
    "over budget": ("debug=tiny", "budget=10", "estimator=random"),
    "failing": ("debug=tiny", "budget=1e8", "estimator=file", "estimator.path=PATH", "isolation=none"),
    "fherma": ("debug=tiny", "budget=1e8", "estimator=mean_prop", "scoring=fherma"),
    "prequential": (*PRISM, "estimator=byte_mlp"),
    "reference learner": (*PRISM, "estimator=ngram"),
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By the names of RUNS: what real runs wrote."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "failing.py").write_text(FAILING)
    for name, words in RUNS.items():
        chosen = [word.replace("PATH", str(folder / "failing.py")) for word in words]
        whest.run(*chosen, "tracking=none", f"outputs_dir={folder}", folder=folder / name)
    return {name: folder / name / "report.json" for name in RUNS}


@pytest.fixture
def tiny(reports: dict[str, Path]) -> Json:
    """A document to change."""
    return copy.deepcopy(check_document(reports["traced"]))


@pytest.mark.parametrize("name", RUNS)
def test_real_reports_fit_their_types(name: str, reports: dict[str, Path]) -> None:
    check_document(reports[name])


def test_the_runs_are_what_their_names_say(reports: dict[str, Path]) -> None:
    failures = {name: check_document(path)["results"]["failure_breakdown"] for name, path in reports.items()}
    assert failures["over budget"]["budget_exhausted"] == failures["failing"]["error"] == 2
    assert failures["traced"]["error"] == failures["eager"]["error"] == failures["fherma"]["error"] == 0
    eager = check_document(reports["eager"])
    assert (eager["run_config"]["estimator"]["mode"], eager["run_config"]["lambda_has_effect"]) == ("eager", True)


def test_the_references_names_stand_beside_ours(reports: dict[str, Path]) -> None:
    results = check_document(reports["eager"])["results"]
    for times in (results["per_mlp"][0], results["breakdowns"]["estimator"], results["breakdowns"]["sampling"]):
        assert times["flopscope_backend_time_s"] == times["backend_time_s"]
        assert times["flopscope_overhead_time_s"] == times["overhead_time_s"]
    assert "flopscope_backend_time_s" not in check_document(reports["traced"])["results"]["per_mlp"][0]
    (error,) = {row["error"]["exception"] for row in check_document(reports["failing"])["results"]["per_mlp"]}
    assert error == "ValueError"


def test_no_key_is_declared_that_no_report_has(reports: dict[str, Path]) -> None:
    documents = [check_document(path) for path in reports.values()]
    whitebox = [document["results"] for document in documents if document["run_config"]["task"] == "whitebox"]
    rows = [row for results in whitebox for row in results["per_mlp"]]
    assert {key for results in whitebox for key in results} == set(WhiteboxResults.__annotations__)
    assert {key for row in rows for key in row} == set(MlpRow.__annotations__)
    assert {key for row in rows for key in row.get("error", {})} == set(ErrorJson.__annotations__)
    learnt = check_document(reports["prequential"])["results"]
    assert set(learnt) == set(PrequentialResults.__annotations__)


CHANGES: dict[str, Callable[[Json], object]] = {
    "a key too many": lambda document: document.update(more=1),
    "a figure too many": lambda document: document["results"].update(more=1.0),
    "a row's key too many": lambda document: document["results"]["per_mlp"][0].update(more=1.0),
    "a timing too many": lambda document: document["results"]["breakdowns"]["sampling"].update(more=1.0),
    "a key too few": lambda document: document["run_meta"]["host"].pop("device"),
    "a row's key too few": lambda document: document["results"]["per_mlp"][1].pop("flops_used"),
    "words for a number": lambda document: document["results"].update(score="0.1"),
    "a number with a fraction for a count": lambda document: document["results"].update(n_failed_mlps=0.5),
    "another task's name": lambda document: document["run_config"].update(task="exam"),
    "another schema's version": lambda document: document.update(schema_version="1.1"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_does_not_fit_is_refused(change: str, tiny: Json) -> None:
    check_types(tiny)
    CHANGES[change](tiny)
    with pytest.raises(ValidationError):
        check_types(tiny)


def test_the_published_schema_is_what_its_command_prints() -> None:
    command = [sys.executable, "-m", "whest.document"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    assert printed == SCHEMA.read_bytes(), "docs/report.schema.json is not up to date: run `make schema`"


def descriptions(definitions: Json) -> Iterator[tuple[str, str]]:
    """What the schema says of each key. pydantic leaves out a text that repeats the one of the key's type."""
    for name, definition in definitions.items():
        for key, content in definition["properties"].items():
            of_type = definitions.get(content.get("$ref", "").removeprefix("#/$defs/"), {})
            yield f"{name}.{key}", content.get("description") or of_type.get("description", "")


def test_every_key_is_described_in_one_line_and_every_object_is_closed() -> None:
    definitions = json_schema()["$defs"]
    told = dict(descriptions(definitions))
    assert told
    assert [key for key, text in told.items() if not text.endswith(".") or "\n" in text] == []
    assert [name for name, one in definitions.items() if one["additionalProperties"] is not False] == []


SHARED = {"flops": 3, "parts": [{"a": 1.5}, {"a": 1}]}
VALUES: list[Any] = [
    {},
    [],
    [[], {}, [[]]],
    {"a": SHARED, "b": {"c": SHARED, "d": [SHARED, SHARED]}},
    {"text": 'ü ☃ \U0001f600 \u2028 \ud800 "\\ \n', "": "key", "ü": None},
    [0, -0.0, 1e22, 1e-7, 0.1, 10**30, True, False, None, 5e-324],
    (1, (2, "three")),
]


def test_reports_are_written_byte_for_byte_as_json_writes_them() -> None:
    for value in VALUES:
        assert json_text(value) == json.dumps(value, indent=2, allow_nan=False)
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text({"a": [math.nan]})


def test_what_is_one_object_twice_is_written_twice() -> None:
    strict = strict_json({"a": SHARED, "b": [SHARED], "c": (math.inf, SHARED)})
    assert strict == {"a": SHARED, "b": [SHARED], "c": [None, SHARED]}
    assert strict["a"] is strict["b"][0]
    assert strict["a"] is not SHARED
    assert json.loads(json_text(strict)) == strict
