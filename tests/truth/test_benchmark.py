"""The benchmarks of truth run, at a tiny size."""

import subprocess
import sys

import pytest

from tests.support.places import ROOT


@pytest.mark.slow
def test_the_comparison_of_samplers_has_a_row_for_each() -> None:
    words = ["benchmarks/truth.py", "16x3", "--mlps", "2", "--scale", "1e-5", "--no-peer"]
    ended = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [line for line in ended.stdout.splitlines() if line.startswith("| 16x3")]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    names = [row[1].split()[0] for row in rows]
    assert names == ["fast", "fast", "mixed", "mixed", "pruned", "pruned", "plain", "numpy", "*matmul"]
    assert all(float(row[2].replace(",", "")) > 0 for row in rows)
    assert all(float(row[4]) > 0 for row in rows[:-1])
