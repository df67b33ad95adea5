"""The page of a running sweep: written anew after a job, so that the sweep can be watched.

Any process that ends a job writes it, whichever launcher started it. The share of time that this takes is bounded.
"""

import json
import logging
import time
from pathlib import Path

from filelock import FileLock, Timeout

from whest.files import SWEEP_PAGE
from whest.sweeps.callback import PAGE_LOCK
from whest.sweeps.resume import SWEEP_FILE
from whest.sweeps.table import UNFINISHED, read_sweep

LOG = logging.getLogger(__name__)
EVERY_S, SHARE = 2.0, 0.01
"""At most one page in so many seconds, and at most this share of the time."""
_COSTS: dict[Path, float] = {}
"""The seconds that the last page of each sweep took, in this process."""


def rewrite_page(folder: Path) -> bool:
    """Write the page of a sweep that is still open, unless it is fresh. Returns whether it was written.

    A page that can't be written is only a warning: the jobs go on, and the end of the sweep writes it again.
    """
    try:
        state = json.loads((folder / SWEEP_FILE).read_text())
    except (OSError, ValueError):
        return False
    if state.get("state") != "open" or _age_s(folder) < max(EVERY_S, _COSTS.get(folder, 0.0) / SHARE):
        return False
    try:
        with FileLock(folder / PAGE_LOCK, timeout=0):
            started = time.monotonic()
            _write(folder, str(state.get("command") or ""), state.get("n_jobs"))
            _COSTS[folder] = time.monotonic() - started
    except Timeout:
        return False  # another process writes it now
    except Exception as error:
        LOG.warning("%s could not be made (%s: %s); the sweep goes on", SWEEP_PAGE, type(error).__name__, error)
        return False
    return True


def _age_s(folder: Path) -> float:
    try:
        return max(time.time() - (folder / SWEEP_PAGE).stat().st_mtime, 0.0)
    except OSError:
        return float("inf")


def _write(folder: Path, command: str, n_jobs: int | None) -> None:
    from whest.page import save_page
    from whest.sweeps.page import sweep_page, title_of

    rows = [row for row in read_sweep(folder) if row.problem != UNFINISHED]
    if rows:
        title = title_of(rows, folder.name)
        save_page(sweep_page(rows, title, command, n_jobs, is_running=True), folder / SWEEP_PAGE)
