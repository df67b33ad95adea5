"""`job=gallery`: one page over all runs, sweeps, comparisons and boards of an outputs folder, or of an MLflow store."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whest.config.build import build_group
from whest.config.settings import Settings, read_settings
from whest.display.console import say
from whest.document import GALLERY
from whest.errors import ConfigError
from whest.gallery.entry import Entry
from whest.gallery.index import update_index
from whest.gallery.page import save_gallery
from whest.gallery.store import store_entries
from whest.notation import count, short_path
from whest.tracking.runs import MlflowTracking

STORE = "store"
"""The name under which a browser keeps the stars and notes of a gallery that is made of a store alone."""


def show(config: Mapping[str, Any], folder: Path, overrides: list[str]) -> None:
    settings = read_settings(config)
    page = settings.output or settings.outputs / GALLERY
    if page.is_dir():
        raise ConfigError(f"output={page} is a folder: name a file, output={page / GALLERY}")
    entries, name, n_read = gather(config, settings)
    save_gallery(entries, settings.outputs, name, page.absolute())
    new = f", {n_read} read now" if n_read is not None else ", from MLflow"
    say(f"saved    {short_path(page)}: {count(len(entries), 'row')}{new}, {page.stat().st_size / 1e6:.2g} MB")


def gather(config: Mapping[str, Any], settings: Settings) -> tuple[list[Entry], str, int | None]:
    """The entries of the outputs folder, or of MLflow's store if it has none; the index's name; how many were read."""
    outputs = settings.outputs
    if outputs.is_dir():
        index = update_index(outputs)
        if index.entries:
            return index.all(), index.name, index.n_read
    tracking = build_group(config, "tracking", outputs=outputs)
    if not isinstance(tracking, MlflowTracking):
        raise ConfigError(
            f"outputs_dir={settings.outputs_dir} has no run: score an estimator, or choose another folder"
        )
    return store_entries(tracking), STORE, None
