"""The gallery's page: the best of each protocol over time, and every entry to filter, sort, open, star and note."""

import os
import re
from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from urllib.parse import quote

from whest.gallery.choose import Protocol, protocols_of, so_far
from whest.gallery.entry import Entry
from whest.notation import count, figure, plus_minus
from whest.page import (
    Axis,
    Block,
    Cell,
    Chart,
    Choice,
    Column,
    Fact,
    Headline,
    Page,
    Record,
    Records,
    Section,
    Series,
    Table,
    Text,
    save_page,
)
from whest.page.blocks import COLOURS, Colour, Value

PLAIN = re.compile(r"[A-Za-z0-9/_.~-]+")
"""Links that need no quotes."""
MOST_BYTES = 2_000_000
"""Of the rows on a page. The newest come first; a page with older ones left out says so."""
MOST_CHARTS, MOST_POINTS, MOST_NAMES, MOST_BEST = 12, 400, 6, 100
OWN_BYTES = 360
"""Bytes that a row takes beside its words."""

COLUMNS = (
    Column("when", "the start of the run, UTC"),
    Column("what", "a link to its page"),
    Column("kind"),
    Column("round"),
    Column("score", "± one standard error", is_numeric=True),
    Column("failed", "failed cases", is_numeric=True),
    Column("budget", "FLOPs", is_numeric=True),
    Column("protocol", "scores are comparable if this is the same"),
    Column("tags", "from the report and from MLflow"),
    Column("about", "problems, verdicts and notes"),
    Column("part of", "the sweep or comparison that it belongs to"),
    Column("MLflow run", "its id in the local store"),
)


class Links:
    """Links from the page to files below outputs, or anywhere on this machine."""

    def __init__(self, outputs: Path, page: Path) -> None:
        self._outputs, self._base = outputs, page.absolute().parent
        self._way = "" if self._base == outputs else os.path.relpath(outputs, self._base) + "/"

    def to(self, path: str) -> str | None:
        if not path:
            return None
        way = os.path.relpath(path, self._base) if path.startswith("/") else self._way + path
        return way if PLAIN.fullmatch(way) else quote(way, safe="/-_.~")


def save_gallery(entries: Sequence[Entry], outputs: Path, name: str, page: Path) -> Path:
    """Write the page. `name` is that of the index, under which the browser keeps stars and notes."""
    return save_page(gallery_page(entries, Links(outputs, page), name), page)


def gallery_page(entries: Sequence[Entry], links: Links, name: str) -> Page:
    """The page of these entries, which are sorted, the newest first."""
    protocols, pages = protocols_of(entries), {entry.path: entry.page for entry in entries}
    blocks: list[Block] = [_headline(entries, protocols)]
    if protocols:
        best = [Choice("Protocol", [(_name(one), [_chart(one)]) for one in protocols[:MOST_CHARTS]])]
        note = "Scores are comparable within one protocol only."
        blocks.append(Section("Best over time", [*best, _best_table(protocols, links)], note))
    if entries:
        records, left_out = _records(entries, pages, links, name)
        blocks.append(Section("All", [*([Text(left_out, "warn")] if left_out else []), records]))
    else:
        blocks.append(Text("There is no run yet: python -m whest makes one.", "warn"))
    return Page("Gallery", _subtitle(entries), blocks, kind="gallery", is_wide=True)


def _subtitle(entries: Sequence[Entry]) -> str:
    kinds = [(kind, sum(entry.kind == kind for entry in entries)) for kind in ("run", "sweep", "comparison", "board")]
    words = ", ".join(count(number, kind) for kind, number in kinds if number)
    return f"{words or 'nothing yet'}{f' · the newest of {_when(entries[0])} UTC' if entries else ''}"


def _headline(entries: Sequence[Entry], protocols: Sequence[Protocol]) -> Headline:
    """The protocol of the newest score: what one works on now."""
    latest = next((entry for entry in entries if entry.is_ranked), None)
    if latest is None:
        return Headline("best", "none", "no run has a score yet")
    now = next(one for one in protocols if one.hash == latest.protocol)
    is_best = " It is the best so far." if latest is now.best else ""
    damaged = sum(bool(entry.problem) for entry in entries)
    facts = [
        Fact("newest run", plus_minus(latest.score, latest.score_se), f"{latest.name}, {_when(latest)} UTC.{is_best}"),
        Fact("runs of this protocol", f"{len(now.runs):,}", f"of {len(protocols)} protocols"),
        *([Fact("with a problem", str(damaged), "the table says why", "bad")] if damaged else []),
    ]
    better = "lower" if now.best.is_lower_better else "higher"
    value = plus_minus(now.best.score, now.best.score_se)
    return Headline(
        f"best of {_words(now)}, {better} is better", value, f"{now.best.name}, {_when(now.best)} UTC", facts=facts
    )


def _words(protocol: Protocol) -> str:
    return protocol.words.rpartition(" · ")[0] or protocol.words


def _name(protocol: Protocol) -> str:
    return f"{protocol.words}: {count(len(protocol.runs), 'run')}"


def _chart(protocol: Protocol) -> Chart:
    """Every run as a point, one colour per estimator, and the best so far as steps."""
    runs = [run for run in protocol.runs if _seconds(run) is not None]
    steps, shown = so_far(runs), _thinned(runs)
    often = sorted({run.name for run in shown}, key=lambda name: -sum(run.name == name for run in shown))[:MOST_NAMES]
    colours: dict[str, Colour] = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(sorted(often))}
    groups = {name: [run for run in shown if run.name == name] for name in sorted(often)}
    groups["others"] = [run for run in shown if run.name not in colours]
    end = _seconds(runs[-1]) if runs else None
    line = [(_seconds(run) or 0, run.score, run.name) for run in steps]
    line += [(end, steps[-1].score, steps[-1].name)] if end is not None else []
    series = [
        Series(
            name,
            [_seconds(run) or 0 for run in own],
            [run.score for run in own],
            "points",
            colours.get(name, "muted"),
            low=[(run.score or 0) - (run.score_se or 0) for run in own],
            high=[(run.score or 0) + (run.score_se or 0) for run in own],
            names=[run.name for run in own],
        )
        for name, own in groups.items()
        if own
    ]
    xs, ys, names = zip(*line, strict=True) if line else ((), (), ())
    series.append(Series("best so far", xs, ys, "steps", "ink", names=names))
    better = "lower" if protocol.best.is_lower_better else "higher"
    cut = f"; {len(shown)} of {len(runs):,} runs are drawn" if len(shown) < len(runs) else ""
    return Chart(
        Axis("date (UTC)", is_time=True),
        Axis("score", is_log=all((run.score or 0) > 0 for run in runs)),
        series,
        alt=f"Scores of {count(len(runs), 'run')} over time; the best is {figure(protocol.best.score)} by "
        f"{protocol.best.name}.",
        caption=f"Each run's score, and the best so far; {better} is better{cut}. Bars are one standard error.",
        size="wide",
    )


def _thinned(runs: Sequence[Entry]) -> list[Entry]:
    """The newest runs, and all that were the best so far."""
    steps = {run.path for run in so_far(runs)}
    recent = {run.path for run in runs[-MOST_POINTS:]}
    return [run for run in runs if run.path in steps or run.path in recent]


def _best_table(protocols: Sequence[Protocol], links: Links) -> Table:
    columns = ("protocol", "runs", "best", Column("score", is_numeric=True), "when")
    rows: list[list[Value | Cell]] = [
        [
            one.words,
            len(one.runs),
            Cell(one.best.name, href=links.to(one.best.page)),
            Cell(plus_minus(one.best.score, one.best.score_se), one.best.score),
            _when(one.best),
        ]
        for one in protocols[:MOST_BEST]
    ]
    more = f" The {MOST_BEST} with most runs of {len(protocols)}." if len(protocols) > MOST_BEST else ""
    return Table(columns, rows, f"The best run of each protocol.{more}")


def _records(entries: Sequence[Entry], pages: dict[str, str], links: Links, name: str) -> tuple[Records, str | None]:
    """As many entries as a page may hold, and what was left out in words."""
    ends = accumulate(map(_weight, entries))
    rows = [_record(entry, pages, links) for entry, end in zip(entries, ends, strict=True) if end <= MOST_BYTES]
    left = len(entries) - len(rows)
    words = f"The page has the newest {len(rows):,} of {len(entries):,}; job=runs lists all." if left else None
    caption = "Click on a column's name to sort by it. Stars and notes stay in this browser."
    return Records(
        COLUMNS, rows, caption, f"whest-gallery-{name}", ("what", "kind", "round", "protocol", "tags"), "when"
    ), words


def _weight(entry: Entry) -> int:
    """About how many bytes the entry takes on the page, and rather too many."""
    texts = (entry.name, entry.round, entry.problem, entry.words, entry.notes, *entry.tags)
    return OWN_BYTES + 4 * len(entry.path) + 3 * len(entry.part_of) + sum(map(len, texts))


def _record(entry: Entry, pages: dict[str, str], links: Links) -> Record:
    about = "; ".join(word for word in (entry.problem, entry.words, entry.notes) if word)
    if entry.status not in ("finished", "damaged"):
        about = "; ".join(word for word in (entry.status, about) if word)
    part = pages.get(entry.part_of)
    return Record(
        entry.path,
        [
            Cell(_when(entry), entry.started[:19]),
            Cell(entry.name, href=links.to(entry.page)),
            entry.kind,
            entry.round,
            Cell(entry.score_words, "" if entry.score is None or entry.all_failed else entry.score),
            Cell(str(entry.n_failed), entry.n_failed, tone="bad") if entry.n_failed else Cell("", ""),
            Cell(figure(entry.budget), "" if entry.budget is None else entry.budget),
            entry.protocol[:8],
            list(entry.tags),
            Cell(about, tone="bad" if entry.problem else "plain"),
            Cell("open", entry.part_of, links.to(part)) if part else "",
            entry.run_id,
        ],
    )


def _when(entry: Entry) -> str:
    return entry.started[:16].replace("T", " ")


def _seconds(entry: Entry) -> float | None:
    try:
        return datetime.fromisoformat(entry.started).timestamp()
    except ValueError:
        return None
