"""The gallery after a run: only the run's own file is read, and only if there is a gallery."""

import logging
from pathlib import Path

from whest.document import GALLERY

LOG = logging.getLogger(__name__)


def refresh(outputs: Path, folder: Path) -> None:
    """Add what was just written to the gallery of this outputs folder, if it has one. A failure is only a warning."""
    outputs = outputs.absolute()
    page = outputs / GALLERY
    if not page.exists():
        return
    try:
        from whest.gallery.index import add_folder
        from whest.gallery.page import save_gallery

        index = add_folder(outputs, folder.absolute())
        if index is not None:
            save_gallery(index.all(), outputs, index.name, page)
    except Exception as error:
        LOG.warning("%s is not up to date (%s: %s): job=gallery makes it again", page, type(error).__name__, error)
