"""`job=runs`: the last runs and the best of each protocol, as tables on the terminal."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from whest.cli.gallery import gather
from whest.config.build import build_target
from whest.config.settings import read_settings
from whest.display.console import open_console
from whest.gallery.choose import Wanted, protocols_of
from whest.gallery.entry import Entry
from whest.notation import count, figure, plus_minus, printable

MOST_BEST = 12
WIDEST = 400
"""A line is never cut: a narrow terminal wraps it, and a pipe gets all of it."""


def show(config: Mapping[str, Any], folder: Path, overrides: list[str]) -> None:
    wanted: Wanted = build_target(Wanted, _as_typed(config["runs"], overrides), "runs")
    entries, _, _ = gather(config, read_settings(config))
    print_runs([entry for entry in entries if wanted.matches(entry)], len(entries), wanted.last, open_console())


def _as_typed(node: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """The node with its words as they were typed: Hydra reads a hash such as 12e45 and a date as something else."""
    typed = {word.partition("=")[0].removeprefix("runs."): word.partition("=")[2] for word in overrides}
    words = {
        key: typed.get(key, str(value)) if isinstance(value, int | float) else value for key, value in node.items()
    }
    return {**words, "last": node["last"]}


def print_runs(entries: Sequence[Entry], n_all: int, last: int, console: Console) -> None:
    """The newest entries, and the best of their protocols."""
    if not entries:
        console.print(f"none of {count(n_all, 'row')} matches: leave out one of the words runs.…=", markup=False)
        return
    table = _table(("when (UTC)", "what", "round", "score", "failed", "budget", "protocol", "place", "about"))
    for entry in entries[:last]:
        about = entry.problem or entry.words or "; ".join(word for word in (", ".join(entry.tags), entry.notes) if word)
        status = "" if entry.status in ("finished", "damaged") else f"{entry.status} "
        place = f"run {entry.run_id[:8]}" if entry.path.startswith("mlflow/") else entry.path
        failed = f"{entry.n_failed}" if entry.n_failed else ""
        score, when = entry.score_words, entry.started[:16].replace("T", " ")
        cells = (when, entry.name, entry.round, score, failed, figure(entry.budget), entry.protocol[:8], place)
        table.add_row(*map(_words, cells), f"[red]{_words(about)}[/]" if entry.problem else _words(status + about))
    _print(table, console)
    console.print(f"{min(last, len(entries))} of {count(n_all, 'row')}, the newest first", markup=False)
    _print_best(entries, console)


def _print_best(entries: Sequence[Entry], console: Console) -> None:
    protocols = protocols_of(entries)
    if not protocols:
        return
    console.print()
    table = _table(("best of", "runs", "score", "by", "when (UTC)", "place"))
    for one in protocols[:MOST_BEST]:
        best = one.best
        cells = (one.words, str(len(one.runs)), plus_minus(best.score, best.score_se), best.name)
        table.add_row(*map(_words, (*cells, best.started[:16].replace("T", " "), best.path)))
    _print(table, console)
    if len(protocols) > MOST_BEST:
        console.print(f"and {count(len(protocols) - MOST_BEST, 'protocol')} more", markup=False)


def _table(columns: Sequence[str]) -> Table:
    table = Table(box=None, header_style="bold")
    for column in columns:
        right = column in ("failed", "budget", "runs")
        table.add_column(column, justify="right" if right else "left", no_wrap=True)
    return table


def _print(table: Table, console: Console) -> None:
    """At the table's own width."""
    wide = Console(file=console.file, width=WIDEST, highlight=False, no_color=not console.is_terminal)
    wide.print(table, crop=False)


def _words(text: str) -> str:
    """A record's own words: no markup, and nothing that a terminal would act on."""
    return escape(printable(text))
