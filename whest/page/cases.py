"""The score of each case in order: the data of a chart on the page and of a picture."""

import math

import numpy as np

from whest.document import Json, case_key, case_rows, case_score, has_failed
from whest.notation import figure
from whest.page.blocks import Axis, Chart, Guide, Series


def rows_in_order(results: Json) -> list[Json]:
    """The rows of the cases, from the smallest score to the largest; without a score last."""
    field = case_score(results)["field"]
    return sorted(case_rows(results), key=lambda row: math.inf if row[field] is None else row[field])


def case_chart(results: Json) -> Chart:
    """The score of each case, in order. Failed cases have another colour."""
    by_case, rows = case_score(results), rows_in_order(results)
    unit, label = by_case["unit"], by_case["label"]
    scores = np.array([row[by_case["field"]] for row in rows], dtype=float)
    known = scores[np.isfinite(scores)]
    ends = f"from {figure(float(known.min()))} to {figure(float(known.max()))}" if known.size else "none is known"
    parts = ((False, "answered"), (True, "failed"))
    return Chart(
        Axis(f"{unit}s, in order of score", is_integer=True),
        Axis(label, is_log=bool(known.size and (known > 0).all())),
        [_part(rows, scores, is_failed, name) for is_failed, name in parts if _any(rows, is_failed)],
        alt=f"{label} of {len(rows)} {unit}s in order, {ends}.",
        caption=f"Each {unit}'s {label}, {ends}.",
        guides=[Guide("mean", y=float(known.mean()))] if known.size else [],
    )


def _any(rows: list[Json], is_failed: bool) -> bool:
    return any(has_failed(row) is is_failed for row in rows)


def _part(rows: list[Json], scores: np.ndarray, is_failed: bool, name: str) -> Series:
    chosen = [i for i, row in enumerate(rows) if has_failed(row) is is_failed]
    return Series(
        name,
        x=[i + 1 for i in chosen],
        y=[float(scores[i]) for i in chosen],
        kind="points",
        colour="alarm" if is_failed else "accent",
        names=[case_key(rows[i])[1] for i in chosen],
    )
