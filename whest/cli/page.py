"""`job=page`: make the page of a recorded run again, from its report.json alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whest.config.settings import read_settings
from whest.display.console import say
from whest.document import CONFIG, PAGE, REPORT
from whest.errors import ConfigError, WhestError
from whest.files import inside
from whest.page.blocks import Page
from whest.page.render import save_page
from whest.page.run import run_page
from whest.tasks.task import view_of
from whest.tracking.recorded import LARGEST_REPORT, read_report


def draw(config: Mapping[str, Any], folder: Path, overrides: list[str]) -> None:
    settings = read_settings(config)
    if settings.path is None:
        raise ConfigError("path is missing: name a run's folder or its report.json, job=page path=RUN_DIR")
    if not settings.path.exists():
        raise ConfigError(f"path={settings.path} is no file or folder: name a run's folder, job=runs lists them")
    page, place = page_of_recorded(settings.path)
    say(f"saved    {save_page(page, settings.output or place / PAGE)}")


def page_of_recorded(path: Path) -> tuple[Page, Path]:
    """The page of a report.json or of the folder that holds it; and that folder."""
    folder = path if path.is_dir() else path.parent
    for name in (REPORT if path.is_dir() else path.name, CONFIG):
        _refuse_link_out(folder, name)
    document = read_report(path).report
    try:
        return run_page(document, view_of(document).page(document, None), folder), folder
    except Exception as error:  # a damaged report fails in as many ways as it has values
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        raise WhestError(f"path={path} is damaged, so that no page can be made of it ({reason}): restore it") from error


def _refuse_link_out(folder: Path, name: str) -> None:
    """A page repeats these files: a link would put somebody's other file into it."""
    try:
        place = inside(folder, name)
    except OSError:
        raise ConfigError(f"{folder / name} leads out of {folder}: put the file itself there") from None
    if place.exists() and (not place.is_file() or place.stat().st_size > LARGEST_REPORT):
        raise ConfigError(f"{folder / name} is no file, or too large for a page: put the run's own file there")
