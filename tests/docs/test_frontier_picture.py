"""The picture of docs/results.md: its points are those of the table, and its stairs are the Pareto front."""

import sys
from pathlib import Path

from tests.support.places import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
from frontier import LINE, ROUNDS, Point, draw, front, lowered, points_of

POINTS = points_of((ROOT / "docs" / "results.md").read_text())


def test_the_points_are_the_tables_rows() -> None:
    assert {point.round for point in POINTS} == set(ROUNDS)
    assert {point.estimator for point in POINTS} >= {"cov_prop", "matrix_core", "kerdock"}
    whole = next(point for point in POINTS if point.estimator == "monte_carlo")
    assert whole.score == whole.mse  # it spends its whole budget


def test_the_front_has_what_nothing_beats() -> None:
    points = [
        Point("r", name, flops, mse, mse) for name, flops, mse in [("a", 1, 9), ("b", 2, 9), ("c", 3, 4), ("d", 2, 5)]
    ]
    assert [point.estimator for point in front(points)] == ["a", "d", "c"]


def test_labels_of_the_front_are_a_line_apart() -> None:
    placed = lowered([0.5, 0.49, 0.1])
    assert placed == [0.5, 0.5 - LINE, 0.1]


def test_it_draws(tmp_path: Path) -> None:
    draw(POINTS, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1e4
