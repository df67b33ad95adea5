"""A sweep's page: the best first, what was swept as the axis, seeds folded, hundred jobs in little room."""

import numpy as np
import pytest

from whest.page import Chart, Headline, Intervals, Page, Section, Table, render
from whest.sweeps.axes import axis_of, points_of
from whest.sweeps.page import sweep_page
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
