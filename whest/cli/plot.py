"""`job=plot`: a plot of recorded runs for a paper, as PDF, SVG or PNG."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from whest.compare.entrants import Entrant, named, read_entrants
from whest.config.build import build_group, build_target
from whest.config.compose import choices
from whest.config.settings import read_settings
from whest.display.console import say
from whest.display.plots import Drawn, save_plot
from whest.errors import ConfigError
from whest.tracking.recorded import UnreadableError
from whest.tracking.runs import MlflowTracking

Inches = Annotated[float, Field(gt=0.5, le=40)]


@dataclass(frozen=True)
class PlotOptions:
    """The `plot` part of the config."""

    kind: Literal["frontier", "budget", "layers"]
    runs: list[str] | None
    width_in: Inches
    height_in: Inches


def plot(config: Mapping[str, Any], folder: Path, overrides: list[str]) -> None:
    """Read the runs, draw the plot and print where it is."""
    options: PlotOptions = build_target(PlotOptions, config["plot"], "plot")
    settings = read_settings(config)
    if settings.output is None:
        raise ConfigError("output is missing: name the file, output=frontier.pdf (or .svg, .png)")
    tracking = build_group(config, "tracking", outputs=settings.outputs)
    runs = gather(options.runs, tracking if isinstance(tracking, MlflowTracking) else None)
    path = save_plot(options.kind, runs, settings.output, options.width_in, options.height_in)
    say(f"saved    {path}: {options.kind} of {len(runs)} runs")


def gather(texts: list[str] | None, tracking: MlflowTracking | None) -> list[Drawn]:
    """The runs of `plot.runs`, each with a name that tells it from the others."""
    estimators, entrants = choices("estimator"), []
    for text in texts or []:
        try:
            entrants += read_entrants(text, tracking, estimators, "plot.runs")
        except UnreadableError as error:
            raise ConfigError(f"plot.runs has {text}: {error}") from None
    if not entrants:
        raise ConfigError(
            f"plot.runs={texts} names no run: give MLflow run ids, report.json files, run or sweep folders, [a,b,…]"
        )
    return [Drawn(name, entrant.report) for name, entrant in zip(curve_names(entrants), entrants, strict=True)]


def curve_names(entrants: list[Entrant]) -> list[str]:
    """The estimator's name and the knobs that differ. Runs that differ only in their budget share a name."""
    knobs = [entrant.estimator["knobs"] for entrant in entrants]
    keys = sorted({key for one in knobs for key in one})
    varied = {
        key
        for key in keys
        for name in {entrant.name for entrant in entrants}
        if len({str(e.estimator["knobs"].get(key)) for e in entrants if e.name == name}) > 1
    }
    names = [
        " ".join([e.name, *(f"{key}={own[key]}" for key in keys if key in varied and key in own)])
        for e, own in zip(entrants, knobs, strict=True)
    ]
    places = {(name, e.report["run_config"]["flop_budget"]) for name, e in zip(names, entrants, strict=True)}
    is_clear = len(places) == len(names)
    return names if is_clear else [entrant.name for entrant in named(entrants)]
