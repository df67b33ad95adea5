"""A sweep's page: the best first, what was swept as the axis, seeds folded, hundred jobs in little room."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from whest.page import Chart, Headline, Intervals, Page, Section, Table, render
from whest.sweeps import live
from whest.sweeps.axes import axis_of, points_of
from whest.sweeps.page import sweep_page, title_of
from whest.sweeps.table import SweepRow, label_rows, mark_best, mark_front

CASES = 6


def job(number: int, words: str, score: float | None, budget: float = 1e9, name: str = "ridge") -> SweepRow:
    """A job whose cases all have the same score, so that every difference is resolved."""
    figures = {} if score is None else {"error": score, "compute": 1e8 * (number + 1)}
    scores = {} if score is None else {f"mlp-{i}": score * (1 + 1e-3 * i) for i in range(CASES)}
    status = "failed" if score is None else "finished"
    return SweepRow(
        number,
        words,
        status,
        name,
        name,
        budget,
        score,
        0.1,
        "MSE",
        **figures,
        protocol_hash=f"{budget}",
        scores=scores,
    )


def finished(*jobs: SweepRow) -> list[SweepRow]:
    return mark_front(mark_best(label_rows(jobs)))


def block(page: Page, kind: type, title: str) -> object:
    (section,) = [one for one in page.blocks if isinstance(one, Section) and one.title == title]
    return next(one for one in section.blocks if isinstance(one, kind))


@pytest.mark.parametrize(
    ("words", "budgets", "axis"),
    [
        (("estimator.lam=0.1", "estimator.lam=1"), (1e9, 1e9), "estimator.lam"),
        (("estimator.lam=0.1", "estimator.lam=1"), (1e9, 1e8), "budget"),
        (("dataset.width=16", "dataset.width=32"), (1e9, 1e9), "dataset.width"),
        (("estimator=a", "estimator=b"), (1e9, 1e9), None),
        (("estimator.seed=1", "estimator.seed=2"), (1e9, 1e9), None),
        (("estimator.lam=0.1", "estimator.lam=nan"), (1e9, 1e9), None),
    ],
)
def test_what_was_swept_is_the_axis(words: tuple[str, str], budgets: tuple[float, float], axis: str | None) -> None:
    pairs = zip(words, budgets, strict=True)
    assert axis_of([job(i, own, 1.0, budget) for i, (own, budget) in enumerate(pairs)]) == axis


def test_seeds_become_a_mean_with_its_error() -> None:
    scores = [1.0, 2.0, 6.0]
    rows = [job(i, f"estimator.lam=1 estimator.seed={i}", score) for i, score in enumerate(scores)]
    one, other = points_of([*rows, job(3, "estimator.lam=2 estimator.seed=0", 5.0)])
    assert (one.x, one.score, one.words) == (1, 3.0, "3 seeds, jobs 0, 1, 2")
    assert one.error == pytest.approx(np.std(scores, ddof=1) / 3**0.5)
    assert (other.x, other.score, other.error, other.words) == (2, 5.0, 0.1, "job 3")


def test_the_headline_answers_which_job_is_best_and_how_sure() -> None:
    rows = finished(
        job(0, "estimator.lam=1 estimator.seed=0", 2.0),
        job(1, "estimator.lam=1 estimator.seed=1", 2.0),
        job(2, "estimator.lam=2 estimator.seed=0", 9.0),
    )
    head = sweep_page(rows, "t").blocks[0]
    assert isinstance(head, Headline)
    assert head.value == "ridge lam=1"
    assert head.note == "score 2.00 ± 0.10; clearly the best", "another seed of the same job is no rival"
    tied = sweep_page(finished(job(0, "estimator.lam=1", 2.0), job(1, "estimator.lam=2", 2.0)), "t").blocks[0]
    assert isinstance(tied, Headline)
    assert tied.note.endswith("not resolved from ridge lam=2")


def test_each_budget_has_its_best() -> None:
    rows = finished(
        *(
            job(i, f"estimator={name}", 1.0 + i, budget, name)
            for i, (name, budget) in enumerate([("a", 1e8), ("b", 1e8), ("b", 1e9), ("a", 1e9)])
        )
    )
    head = sweep_page(rows, "t").blocks[0]
    assert isinstance(head, Headline)
    assert [(fact.label, fact.value) for fact in head.facts] == [
        ("best at 1e+08 FLOPs", "a"),
        ("best at 1e+09 FLOPs", "b"),
    ]


def test_the_table_has_the_best_first_and_failed_jobs_last() -> None:
    rows = finished(job(0, "estimator.lam=1", None), job(1, "estimator.lam=2", 5.0), job(2, "estimator.lam=3", 4.0))
    page = sweep_page(rows, "t", "python -m whest -m estimator.lam=1,2,3")
    table = block(page, Table, "Jobs")
    assert isinstance(table, Table)
    assert [getattr(row[0], "text", row[0]) for row in table.rows] == ["2", "1", 0]
    html = render(page)
    assert 'href="2/report.html"' in html
    assert 'href="0/report.html"' not in html
    assert "1 of 3 jobs are not finished" in html
    assert "python -m whest -m estimator.lam=1,2,3" in html


def test_estimators_by_name_are_shown_one_below_the_other() -> None:
    rows = finished(*(job(i, f"estimator={name}", 3.0 - i, name=name) for i, name in enumerate("abc")))
    shown = block(sweep_page(rows, "t"), Intervals, "Score")
    assert isinstance(shown, Intervals)
    assert [row.name for row in shown.rows] == ["c", "b", "a"]


def test_the_pareto_front_is_a_line_of_the_chart() -> None:
    rows = finished(*(job(i, f"estimator.k={i}", score) for i, score in enumerate([3.0, 4.0, 1.0])))
    (score, front) = [one for one in sweep_page(rows, "t").blocks[1].blocks if isinstance(one, Chart)]  # type: ignore[union-attr]
    assert score.x.label == "estimator.k"
    (line,) = [series for series in front.series if series.name == "Pareto front"]
    assert (list(line.x), list(line.y)) == ([1e8, 3e8], [3.0, 1.0])


def test_a_hundred_jobs_fit_into_a_megabyte_and_none_into_a_page() -> None:
    rows = finished(*(job(i, f"estimator.k={i}", 1.0 + i) for i in range(100)))
    assert len(render(sweep_page(rows, "t")).encode()) < 1_000_000
    assert "no job has a score" in render(sweep_page([job(0, "estimator.k=1", None)], "t"))


def test_the_title_says_what_was_varied() -> None:
    rows = finished(*(job(i, f"estimator.k={i} budget=1e9", 1.0) for i in range(2)))
    assert title_of(rows, "12-00") == "sweep of k"
    assert title_of(rows[:1], "12-00") == "sweep 12-00"


def test_three_swept_keys_are_small_multiples_on_one_scale() -> None:
    grid = [(k, d, lam) for k in (1, 2) for d in (1, 2, 3) for lam in (0.1, 1, 10)]
    words = [f"estimator.k={k} estimator.d={d} estimator.lam={lam}" for k, d, lam in grid]
    rows = finished(*(job(i, own, 1.0 + i) for i, own in enumerate(words)))
    shown = [one for one in sweep_page(rows, "t").blocks[1].blocks if isinstance(one, Chart)][:-1]  # type: ignore[union-attr]
    assert [chart.caption.partition(":")[0] for chart in shown] == ["d=1", "d=2", "d=3"]
    assert len({(chart.y.low, chart.y.high) for chart in shown}) == 1
    low, high = shown[0].y.low, shown[0].y.high
    assert low is not None
    assert high is not None
    assert low < 1.0 < 18.0 < high
    assert sum(len(series.x) for chart in shown for series in chart.series) == len(grid)


def test_a_running_sweep_has_a_page_that_reloads(tmp_path: Path) -> None:
    rows = finished(job(0, "estimator.k=1", 1.0), job(1, "estimator.k=2", 2.0))
    running = render(sweep_page(rows, "t", "", 40, is_running=True))
    assert '<meta http-equiv="refresh" content="5">' in running
    assert "2 of 40 jobs are done" in running
    assert "refresh" not in render(sweep_page(rows, "t"))


def test_the_page_is_written_again_only_after_some_time(tmp_path: Path) -> None:
    page, state = tmp_path / "sweep.html", tmp_path / "sweep_state.json"
    assert not live.rewrite_page(tmp_path), "no sweep here"
    for number, problem in enumerate(("the first problem", None)):
        (tmp_path / str(number)).mkdir()
        if problem:
            (tmp_path / str(number) / "problem.txt").write_text(problem)
    state.write_text(json.dumps({"state": "open", "n_jobs": 4, "command": "the command"}))
    assert live.rewrite_page(tmp_path)
    html = page.read_text()
    assert "1 of 4 jobs are done" in html, "a job without a report or a problem still runs"
    assert "the first problem" in html
    assert "the command" in html
    assert not live.rewrite_page(tmp_path), "it is fresh"
    os.utime(page, (0, 0))
    with FileLock(tmp_path / ".page"):
        assert not live.rewrite_page(tmp_path), "another process writes it"
    assert live.rewrite_page(tmp_path)
    state.write_text(json.dumps({"state": "done"}))
    os.utime(page, (0, 0))
    assert not live.rewrite_page(tmp_path), "the end of the sweep wrote the last one"


def test_a_thousand_budgets_are_shown_from_the_first_to_the_last() -> None:
    page = sweep_page(finished(*(job(i, f"budget={i + 1}e6", 1.0, (i + 1) * 1e6) for i in range(1000))), "many")
    headline = next(one for one in page.blocks if isinstance(one, Headline))
    assert len(headline.facts) == 12
    assert (headline.facts[0].label, headline.facts[-1].label) == ("best at 1e+06 FLOPs", "best at 1e+09 FLOPs")
    assert headline.note == "1000 protocols, 1000 jobs; 12 of the budgets are shown"

    page = sweep_page(finished(*(job(i, f"estimator.a=x{i}", 1.0 + i) for i in range(50))), "many")
    found = block(page, Intervals, "Score")
    assert isinstance(found, Intervals)
    assert len(found.rows) == 40
    assert found.caption.startswith("The best 40 of 50 scores; lower is better")
