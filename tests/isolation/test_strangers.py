"""Estimators by attackers who had not read the code: each is refused, or pays at least what XLA counts."""

from pathlib import Path

import pytest

from tests.support.hostile import predict
from tests.support.places import ROOT

SOURCES = sorted((ROOT / "tests" / "support" / "strangers").glob("*.txt"))


def test_there_are_as_many_as_were_kept() -> None:
    assert len(SOURCES) >= 30


@pytest.mark.slow
@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_it_is_refused_or_pays(path: Path, tmp_path: Path) -> None:
    (prediction,) = predict(path.read_text(), tmp_path, wall_time_limit_s=20.0)
    if prediction.failure is None:
        assert prediction.cost.flops_xla is not None
        assert prediction.cost.flops >= prediction.cost.flops_xla
