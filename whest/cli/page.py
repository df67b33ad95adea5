"""`job=page`: make the page of a recorded run again, from its report.json alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whest.config.settings import read_settings
from whest.display.console import say
from whest.document import PAGE
from whest.errors import ConfigError
from whest.page.blocks import Page
from whest.page.render import save_page
from whest.page.run import composed_config, run_page
from whest.tasks.task import view_of
from whest.tracking.recorded import read_report


def draw(config: Mapping[str, Any], folder: Path, overrides: list[str]) -> None:
    settings = read_settings(config)
    if settings.path is None:
        raise ConfigError("path is missing: name a run's folder or its report.json, job=page path=RUN_DIR")
    page, place = page_of_recorded(settings.path)
    say(f"saved    {save_page(page, settings.output or place / PAGE)}")


def page_of_recorded(path: Path) -> tuple[Page, Path]:
    """The page of a report.json, or of the folder that contains it; and that folder."""
    document = read_report(path).report
    folder = path if path.is_dir() else path.parent
    return run_page(document, view_of(document).page(document, None), composed_config(folder)), folder
