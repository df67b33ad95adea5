"""One file, one YAML: each estimator is `estimators/NAME.py` with `conf/estimator/NAME.yaml`."""

from collections import Counter

import pytest

from tests.support.estimators import NODES
from tests.support.places import ROOT

BY_PATH = {"file", "sealed", "whestbench"}
"""Choices that have no file of ours: `estimator.path` names the user's."""
FILES = {path.stem for path in (ROOT / "estimators").glob("*.py")} - {"__init__"}


def test_every_file_has_a_yaml_and_every_yaml_a_file() -> None:
    assert set(NODES) - BY_PATH == FILES


@pytest.mark.parametrize("name", sorted(set(NODES) - BY_PATH))
def test_a_yaml_names_the_file_of_its_own_name(name: str) -> None:
    module, _, _ = NODES[name]["_target_"].rpartition(".")
    assert module == f"estimators.{name}"


def test_no_two_yamls_name_one_file() -> None:
    targets = Counter(node["_target_"].rpartition(".")[0] for node in NODES.values() if "_target_" in node)
    assert [module for module, n_yamls in targets.items() if n_yamls > 1] == []


@pytest.mark.parametrize("name", sorted(BY_PATH))
def test_the_choices_without_a_file_ask_for_a_path(name: str) -> None:
    assert "_target_" not in NODES[name]
    assert NODES[name]["path"] == "???"
