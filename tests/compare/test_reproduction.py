"""The verdict on a repeated run: what changed, the code or the machine."""

import copy
from pathlib import Path
from typing import Any

import pytest

import whest
from whest.compare.reproduction import judge

NO_ANSWERS = (None, None)
SOURCE = {"mine.py": b"x = 1\ny = 2\n"}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("run")
    words = ("debug=tiny", "estimator=mean_prop", "truth=plain", "page=false", f"outputs_dir={folder}")
    return whest.run(*words, folder=folder / "run").to_json()


def changed(report: Any, share: float = 1e-6, **host: Any) -> Any:
    """The report of a run whose errors differ by a share, on another machine."""
    other = copy.deepcopy(report)
    for row in other["results"]["per_mlp"]:
        row["final_layer_mse"] *= 1 + share
    other["results"]["score"] *= 1 + share
    other["run_meta"]["host"] |= host
    return other


def test_the_same_report_has_the_same_bits(report: Any) -> None:
    found = judge(report, copy.deepcopy(report), NO_ANSWERS, (SOURCE, SOURCE))
    assert (found.verdict, found.causes, found.source_diff) == ("same bits", (), "")
    assert found.is_same_code
    assert found.is_same_machine


def test_another_processor_is_told_apart_from_a_change(report: Any) -> None:
    other = changed(report, cpu_features="avx avx2", cpu_brand="Another")
    found = judge(report, other, NO_ANSWERS, (SOURCE, SOURCE))
    assert (found.verdict, found.is_same_code, found.is_same_machine) == ("within noise", True, False)
    assert found.reason.endswith("The code is the same and the machine another: it may round otherwise")
    assert [cause.partition(":")[0] for cause in found.causes] == ["processor", "processor's vector instructions"]

    far = judge(report, changed(report, 10.0, cpu_features="avx avx2"), NO_ANSWERS, (SOURCE, SOURCE))
    assert far.verdict == "differs"
    assert "the machine another" in far.reason


def test_a_changed_version_is_no_other_processor(report: Any) -> None:
    found = judge(report, changed(report, jaxlib_version="9.9"), NO_ANSWERS, (SOURCE, SOURCE))
    assert (found.is_same_code, found.is_same_machine) == (False, True)
    assert "the machine another" not in found.reason
    assert found.causes == (f"jaxlib: {report['run_meta']['host']['jaxlib_version']} then, 9.9 now",)


def test_one_changed_line_is_shown(report: Any) -> None:
    other = changed(report, 10.0)
    other["run_config"]["estimator"]["source_sha256"] = "0" * 64
    found = judge(report, other, NO_ANSWERS, (SOURCE, {"mine.py": b"x = 1\ny = 3\n"}))
    assert (found.verdict, found.is_same_code) == ("differs", False)
    assert {"-y = 2", "+y = 3"} <= set(found.source_diff.splitlines())


def test_a_report_from_before_the_field_is_no_other_machine(report: Any) -> None:
    older = copy.deepcopy(report)
    del older["run_meta"]["host"]["cpu_features"]
    assert judge(older, report, NO_ANSWERS, (SOURCE, SOURCE)).is_same_machine
