"""Charts as data for the page's script: short numbers, each name once, and no character that could end the data."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from whest.page.blocks import Axis, Chart, Colour, Guide, Interval, Intervals, Series
from whest.page.words import label

DIGITS = 5
"""Significant digits of a chart's numbers: more than a screen has pixels."""
FORMAT, HUGE = f"%.{DIGITS}g,", 1e308
"""A larger number may round up to infinity, which JSON doesn't have."""
ESCAPES = {char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
"""Inside JSON these characters occur only in strings, where their escape is the same character."""


def chart_json(chart: Chart) -> str:
    """A chart as JSON that is safe inside a <script> element."""
    series = ",".join([_series(series, chart.x.is_time) for series in chart.series])
    guides = [_guide(guide) for guide in chart.guides]
    return _safe(
        f'{{"x":{_text(_axis(chart.x))},"y":{_text(_axis(chart.y))},"series":[{series}],"guides":{_text(guides)}}}'
    )


def script_json(document: Any) -> str:
    """JSON that is safe inside a <script> element."""
    return _safe(_text(document))


def _text(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _safe(text: str) -> str:
    for char, escape in ESCAPES.items():  # `str.translate` takes each letter by itself, a hundred times as long
        text = text.replace(char, escape)
    return text


def _axis(axis: Axis) -> Mapping[str, Any]:
    ends = {"low": axis.low, "high": axis.high}
    return {"label": label(axis.label), "log": axis.is_log, "whole": axis.is_integer, "time": axis.is_time, **ends}


def _series(series: Series, is_time: bool) -> str:
    """A series as JSON. Its numbers, which are most of a page, are written all at once."""
    columns = [series.x, series.y, *(values for values in (series.low, series.high, series.names) if len(values))]
    if len({len(column) for column in columns}) > 1:
        lengths = ", ".join(str(len(column)) for column in columns)
        raise ValueError(f"the columns of the series {series.name!r} differ in length: {lengths}")
    head = _text({"name": label(series.name), "kind": series.kind, "colour": series.colour})
    marks = _text({"band": series.is_band, "dashed": series.is_dashed, "faint": series.is_faint})
    parts = {
        "x": _text([round(x) for x in series.x]) if is_time else _numbers(series.x),
        "y": _numbers(series.y),
        "low": _numbers(series.low),
        "high": _numbers(series.high),
        "names": _words(tuple(series.names)),
        "notes": _words(tuple(series.notes)),
    }
    inner = ",".join([f'"{name}":{text}' for name, text in parts.items()])
    return f"{head[:-1]},{inner},{marks[1:]}"


def _guide(guide: Guide) -> Mapping[str, Any]:
    place = {"x": guide.x, "y": guide.y}
    return {"name": label(guide.name), "colour": guide.colour, "dashed": guide.is_dashed, **place}


def _numbers(values: Iterable[float | None]) -> str:
    return _numbers_text(tuple(values))


@lru_cache(maxsize=256)
def _numbers_text(given: tuple[float | None, ...]) -> str:
    """A list of numbers in JSON, with five significant digits. The truth on one axis is that of the page before."""
    try:
        is_plain = all(map(math.isfinite, given)) and max(map(abs, given), default=0) < HUGE  # type: ignore[arg-type]
    except TypeError:  # a None among them
        is_plain = False
    if not is_plain:
        return _text([None if value is None or not math.isfinite(value) else _short(value) for value in given])
    return f"[{(FORMAT * len(given) % given)[:-1]}]"


def _short(value: float) -> float | int:
    """Five significant digits; a whole number without a point."""
    short = float(f"{value:.{DIGITS}g}")
    if math.isinf(short):  # the largest floats round up to infinity, which JSON doesn't have
        return float(value)
    return int(short) if short.is_integer() and abs(short) < 1e6 else short


@lru_cache(maxsize=256)
def _words(words: tuple[str, ...]) -> str:
    """The different words, and the place of each point's word among them."""
    places = {word: i for i, word in enumerate(dict.fromkeys(words))}
    of = ",".join([str(places[word]) for word in words])
    return f'{{"words":{_text([label(word) for word in places])},"of":[{of}]}}'


def interval_places(block: Intervals) -> tuple[list[tuple[Interval, float, float, float]], float | None]:
    """Each row with the places of low, value and high on the scale, in per cent; and the place of the mark."""
    ends = [end for row in block.rows for end in (row.low, row.high, row.value) if math.isfinite(end)]
    ends += [] if block.mark is None else [block.mark]
    is_log = block.is_log and all(end > 0 for end in ends)
    scale = math.log if is_log else float
    low, high = min(map(scale, ends), default=0.0), max(map(scale, ends), default=1.0)
    room = (high - low) or 1.0

    def place(value: float) -> float:
        return round(3 + 94 * (scale(value) - low) / room, 2)

    rows = [(row, place(row.low), place(row.value), place(row.high)) for row in block.rows]
    return rows, None if block.mark is None else place(block.mark)


def colours_of(names: Iterable[str], colours: Sequence[Colour]) -> dict[str, Colour]:
    """A colour for each different name, in order; after the last colour, the first again."""
    return {name: colours[i % len(colours)] for i, name in enumerate(dict.fromkeys(names))}
