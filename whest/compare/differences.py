"""What differs between compared runs: their configs, their sources, their errors by layer, their pages."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from whest.compare.comparison import Case, shared_cases
from whest.compare.entrants import Entrant
from whest.compare.reproduction import source_diff
from whest.document import PAGE, flatten
from whest.notation import figure, plus_minus
from whest.page import Axis, Block, Cell, Chart, Code, Column, Facts, Fold, Series, Table, Text
from whest.page.blocks import COLOURS
from whest.tasks.whitebox.layers import SQUEEZE

MOST_PAIRS = 8
"""Pairs of runs whose configs and sources are shown; all are with the first run."""
MOST_VALUES = 300


def page_link(one: Entrant, folder: Path | None) -> str | None:
    """The relative address of a run's page, seen from a folder; None if it is not on this disk."""
    if folder is None or one.folder is None or not (one.folder / PAGE).exists():
        return None
    return Path(os.path.relpath((one.folder / PAGE).absolute(), folder.absolute())).as_posix()


def run_facts(entrants: Sequence[Entrant], folder: Path | None) -> Facts:
    return Facts([(one.name, Cell(one.source, href=page_link(one, folder))) for one in entrants])


def layer_blocks(entrants: Sequence[Entrant]) -> list[Block]:
    """The error by layer of every run, and the paired differences from the first. Nothing if a run has no layers."""
    shared, _ = shared_cases(entrants)
    found = {one.name: _by_layer(one, shared) for one in entrants}
    if any(mses is None or not np.isfinite(mses).all() for mses in found.values()):
        return []
    known = {name: mses for name, mses in found.items() if mses is not None}
    if len({mses.shape[1] for mses in known.values()}) > 1:
        return []
    return [_layer_chart(known), _layer_table(known)]


def _by_layer(one: Entrant, shared: Sequence[Case]) -> np.ndarray | None:
    rows = [one.cases[case].get("per_layer_mse") for case in shared]
    if any(not row for row in rows) or len({len(row) for row in rows if row}) != 1:
        return None
    return np.array(rows, dtype=float)


def _layer_chart(found: Mapping[str, np.ndarray]) -> Chart:
    means = {name: mses.mean(axis=0) for name, mses in found.items()}
    layers = list(range(1, len(next(iter(means.values()))) + 1))
    series = [
        Series(name, layers, mean.tolist(), colour=COLOURS[i % len(COLOURS)])
        for i, (name, mean) in enumerate(means.items())
    ]
    is_log = all((mean > 0).all() for mean in means.values())
    words = ", ".join(f"{name} {figure(float(mean[-1]))}" for name, mean in means.items())
    return Chart(
        Axis("layer", is_integer=True),
        Axis("mean squared error", is_log=is_log, low=lowest(means.values()) if is_log else None),
        series,
        alt=f"Mean squared error by layer; at the last: {words}.",
        caption="Error by layer, mean over the MLPs. A layer that is almost exact is below the axis.",
    )


def lowest(means: Iterable[np.ndarray]) -> float | None:
    """The lower end of the axis, if an exact layer would squeeze the others; else None."""
    known = list(means)
    edge = min(float(mean[-1]) for mean in known) / SQUEEZE
    return edge if min(float(mean.min()) for mean in known) < edge else None


def _layer_table(found: Mapping[str, np.ndarray]) -> Table:
    """Each layer's error, and its paired difference with its standard error over the MLPs."""
    (first, base), *others = found.items()
    columns: list[Column | str] = ["layer", Column(first, is_numeric=True)]
    for name, _ in others:
        columns += [
            Column(name, is_numeric=True),
            Column(f"{first} − {name}", "± one standard error, over the MLPs", is_numeric=True),
        ]
    rows = []
    for layer in range(base.shape[1]):
        row: list[Any] = [layer + 1, float(base[:, layer].mean())]
        for _, mses in others:
            row += [float(mses[:, layer].mean()), _difference(base[:, layer] - mses[:, layer])]
        rows.append(row)
    return Table(columns, rows, "Error by layer. A difference of less than two standard errors says nothing.")


def _difference(values: np.ndarray) -> Cell:
    mean = float(values.mean())
    error = float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else None
    is_clear = error is not None and abs(mean) > 2 * error
    return Cell(plus_minus(mean, error), sort=mean, tone=("good" if mean < 0 else "bad") if is_clear else "plain")


def difference_blocks(entrants: Sequence[Entrant]) -> list[Block]:
    """Config and source of the first run against those of each other."""
    first, *others = entrants
    blocks: list[Block] = []
    for other in others[:MOST_PAIRS]:
        own = [_config_table(first, other), *_source_blocks(first, other)]
        blocks += own if len(others) == 1 else [Fold(f"{first.name} and {other.name}", own)]
    if len(others) > MOST_PAIRS:
        blocks.append(Text(f"{len(others) - MOST_PAIRS} more runs are not shown here."))
    return blocks


def _config_table(first: Entrant, other: Entrant) -> Block:
    a, b = (flatten(one.report["run_config"]) for one in (first, other))
    keys = [key for key in sorted(a.keys() | b.keys()) if a.get(key) != b.get(key)][:MOST_VALUES]
    if not keys:
        return Text(f"{first.name} and {other.name} have the same config.")
    columns: list[Column | str] = ["key", Column(first.name, is_wrapped=True), Column(other.name, is_wrapped=True)]
    rows = [(key, _value(a, key), _value(b, key)) for key in keys]
    return Table(columns, rows, "Values of the config that differ. All others are the same.")


def _value(config: Mapping[str, Any], key: str) -> str:
    return str(config[key]) if key in config else "–"


def _source_blocks(first: Entrant, other: Entrant) -> list[Block]:
    hashes = [one.estimator.get("source_sha256") for one in (first, other)]
    if hashes[0] is not None and hashes[0] == hashes[1]:
        return [Text("The estimators' source is the same.")]
    if not first.sources or not other.sources:
        without = " and ".join(one.name for one in (first, other) if not one.sources)
        return [Text(f"No source is kept of {without}, so the sources can't be compared.")]
    diff = source_diff(first.sources, other.sources, (first.name, other.name))
    return [Code(diff, "What differs in the source", is_folded=True)] if diff else [Text("The kept sources are equal.")]
