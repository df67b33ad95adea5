"""`meter=flopscope` beside the real flopscope: the ported estimators to 1 %, and the page's table as it is made now."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT

pytestmark = pytest.mark.slow
PAGE = ROOT / "docs" / "prices.md"


def test_the_list_agrees_with_the_package_and_the_page_says_so(peer_path: Path) -> None:
    if not (ROOT / "outputs" / "peer").exists():
        pytest.skip("the peer is not in this checkout's outputs: make peer")
    ended = subprocess.run([sys.executable, "benchmarks/peer_prices.py"], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    rows = [line for line in ended.stdout.splitlines() if line.startswith("|") and "---" not in line]
    estimators = {"mean propagation", "covariance propagation", "plain sampling"}
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    apart = {row[0]: float(row[3].rstrip("%")) for row in cells if row[0] in estimators}
    assert apart.keys() == estimators
    assert max(apart.values()) <= 1.0
    page = PAGE.read_text()
    assert [row for row in rows if row not in page] == []
