"""`job=champion`: the best run of each protocol. `run=…` challenges it, and a comparison decides."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from whest.compare.champion import challenge, champion_folder, read_champions
from whest.compare.comparison import CompareOptions
from whest.compare.entrants import read_entrants
from whest.config.build import build_group, build_target
from whest.config.settings import read_settings
from whest.display.answer import tell
from whest.display.console import open_console, say
from whest.errors import ConfigError
from whest.notation import plus_minus, printable, short_path
from whest.tracking.recorded import UnreadableError
from whest.tracking.runs import MlflowTracking


def champion(config: Mapping[str, Any], folder: Path, overrides: list[str]) -> None:
    settings = read_settings(config)
    if settings.run is None:
        show(settings.outputs)
        return
    tracking = build_group(config, "tracking", outputs=settings.outputs)
    store = tracking if isinstance(tracking, MlflowTracking) else None
    options: CompareOptions = build_target(CompareOptions, config["compare"], "compare")
    try:
        challengers = read_entrants(settings.run, store, [], "run")
    except UnreadableError as error:
        raise ConfigError(f"run={settings.run}: {error}") from None
    for one in challengers:
        outcome = challenge(one, settings.outputs, options)
        place = champion_folder(settings.outputs, one.protocol_hash)
        tell(verdict=outcome.words, is_new=outcome.is_new, champion=outcome.record["name"], folder=str(place))
        say(printable(outcome.words))
        if outcome.pair is not None:
            paired = outcome.pair.paired
            exact = "" if paired.sign_flip_p is None else f", sign-flip p {paired.sign_flip_p:.3g}"
            p = "–" if paired.p_value is None else f"{paired.p_value:.3g}"
            say(f"evidence t test p {p}{exact}, {paired.wins} of {paired.n_cases} {outcome.pair.unit}s won")
        say(f"saved    {short_path(place)}")


def show(outputs: Path) -> None:
    """The champions, one row per protocol."""
    records, console = list(read_champions(outputs)), open_console()
    tell(champions=records)
    if not records:
        say("no champion yet: python -m whest job=champion run=RUN_FOLDER makes a run the first of its protocol")
        return
    table = Table(box=None, header_style="bold")
    for column in ("protocol", "on", "champion", "score", "since (UTC)", "by"):
        table.add_column(column)
    for record in records:
        verdict = record["evidence"]["verdict"] if record.get("evidence") else "the first"
        cells = (record["protocol_hash"], record["title"], record["name"])
        score, since = plus_minus(record["score"], record["score_se"]), str(record["since"])[:16].replace("T", " ")
        table.add_row(*(escape(printable(str(cell))) for cell in (*cells, score, since, verdict)))
    console.print(table)
