"""`job=list` shows all jobs, choices, suites and caches; `job=clean` empties the caches."""

import shutil
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from rich.table import Table

from whest.config.compose import config_folder
from whest.config.jobs import JOBS
from whest.config.plugins import plugins
from whest.config.settings import CACHES, read_settings
from whest.dataset.suite import shipped_suites
from whest.display.console import open_console
from whest.notation import printable
from whest.scoring.power import smallest_ratio

LISTED = (
    "estimator",
    "round",
    "dataset",
    "truth",
    "data",
    "scoring",
    "isolation",
    "tracking",
    "leaderboard",
    "experiment",
    "contest",
    "debug",
    "hydra/launcher",
)
SPREADS = (0.1, 0.3, 1.0)
"""Standard deviation of the scores over MLPs, as a share of their mean."""


def show(config: Mapping[str, Any], folder: Path, overrides: list[str]) -> None:
    conf, outputs = config_folder(), read_settings(config).outputs
    console = open_console()
    table = Table(box=None, show_header=False, title="job=…", title_justify="left", title_style="bold")
    for name, job in JOBS.items():
        table.add_row(f"  {name}", job.summary)
    console.print(table)
    for group in LISTED:
        table = Table(box=None, show_header=False, title=f"{group}=…", title_justify="left", title_style="bold")
        for path in sorted((conf / group).glob("*.yaml")):
            table.add_row(f"  {path.stem}", headline(path))
        for plugin in plugins():
            for name in (name for kind, name in plugin.choices() if kind == group and plugin.folder):
                about = headline(Path(plugin.folder or "") / group / f"{name}.yaml")
                table.add_row(f"  {name}", f"{printable(about)} ({plugin.distribution} {plugin.version})")
        console.print(table)
    table = Table(box=None, show_header=False, title="shipped suites", title_justify="left", title_style="bold")
    for suite in shipped_suites():
        samples = min(truth.n_samples for truth in suite.truths)
        table.add_row(
            f"  {suite.round}" + ("" if suite.is_newest else f" dataset.version={suite.version}"),
            f"{len(suite.truths)} MLPs of {suite.width}x{suite.depth}, at least {samples:.2g} samples per MLP, "
            f"the truth's noise adds {suite.floor_mse:.1e} to every MSE; {_power(len(suite.truths))}",
        )
    console.print(table)
    table = Table(box=None, show_header=False, title="caches", title_justify="left", title_style="bold")
    for name, meaning in CACHES.items():
        table.add_row(
            f"  {name}", f"{meaning}: {_megabytes(outputs / 'cache' / name):.1f} MB in {outputs / 'cache' / name}"
        )
    table.add_row("  clean", "python -m whest job=clean removes both; runs and MLflow's store stay")
    console.print(table)


def _power(n_mlps: int) -> str:
    """The smallest ratio that so many MLPs resolve, for three spreads of the scores over the MLPs."""
    ratios = {spread: smallest_ratio(n_mlps, (spread, spread)) for spread in SPREADS}
    known = [f"{ratio:.3g}× at {spread:.0%}" for spread, ratio in ratios.items() if ratio is not None]
    none = [f"{spread:.0%}" for spread, ratio in ratios.items() if ratio is None]
    words = f"it resolves {', '.join(known)} spread of the scores"
    return f"{words}, and no ratio at {', '.join(none)}" if none else words


def headline(path: Path) -> str:
    """The first comment of a config, which describes it. A line that begins with more spaces is a command."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("# @package")]
    first, *others = [*takewhile(lambda line: line.startswith("#"), lines)] or [""]
    block = [first, *takewhile(lambda line: line[:2] == "# " and not line[2:].startswith(" "), others)]
    return " ".join(line.lstrip("# ").strip() for line in block)


def clean(config: Mapping[str, Any], folder: Path, overrides: list[str]) -> None:
    console, outputs = open_console(), read_settings(config).outputs
    for name, meaning in CACHES.items():
        cache = outputs / "cache" / name
        size = _megabytes(cache)
        shutil.rmtree(cache, ignore_errors=True)
        console.print(f"removed {size:.1f} MB of {meaning}")


def _megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
