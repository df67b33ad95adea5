"""`job=inspect`: what a sealed program computes and carries, as text or as a page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whest.config.settings import read_settings
from whest.display.answer import tell
from whest.display.console import say
from whest.errors import ConfigError, JobFailedError
from whest.files import write_atomically
from whest.page.render import save_page
from whest.sealed.container import SealedFileError
from whest.sealed.inspection import Inspected, inspect_sealed
from whest.sealed.page import inspection_page
from whest.sealed.sealed import Sealed, open_sealed
from whest.sealed.text import text_of

MOST_ROWS = 60
"""Operations of each program on the terminal. A file has all of them."""


def inspect(config: Mapping[str, Any], folder: Path, overrides: list[str]) -> None:
    settings = read_settings(config)
    if settings.path is None:
        raise ConfigError("path is missing: name a sealed program, job=inspect path=mine.whest")
    if settings.output is not None and settings.output.suffix not in (".html", ".txt"):
        raise ConfigError(f"output={settings.output} is neither a page (.html) nor a text (.txt): give one of these")
    sealed = open_sealed(settings.path, "path")
    try:
        inspected = inspect_sealed(sealed)
    except SealedFileError as error:
        raise JobFailedError(f"path={settings.path} can't be used: {error}") from None
    tell(path=str(settings.path), sha256=sealed.sha256, shapes=[_told(each) for each in inspected])
    if settings.output is None:
        say(text_of(sealed, inspected, MOST_ROWS))
        return
    say(f"saved    {save(sealed, inspected, settings.output)}")


def save(sealed: Sealed, inspected: list[Inspected], place: Path) -> Path:
    if place.suffix == ".html":
        return save_page(inspection_page(sealed, inspected), place)
    write_atomically(place, text_of(sealed, inspected, None).encode())
    return place


def _told(each: Inspected) -> dict[str, Any]:
    return {
        "for": each.entry.purpose.to_json(),
        "flops": {program.name: program.cost.flops for program in each.programs},
        "operations": {program.name: program.n_operations for program in each.programs},
        "constant_bytes": sum(constant.n_bytes for constant in each.constants),
        "carried_bytes": each.carried.n_bytes,
        "claims_hold": each.claims_hold,
        "suspicions": [{"rule": one.rule, "what": one.what} for one in each.suspicions],
    }
