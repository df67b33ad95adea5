"""The board's page in a real browser: it opens without errors, sorts, and its picture is docs/page-board.png."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import ROOT
from tests.support.recorded_store import Store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning"),  # MLflow's
    pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes:DeprecationWarning"),  # MLflow's
]
PNG = b"\x89PNG\r\n\x1a\n"
FHERMA = ("scoring=fherma", "scoring.tolerance=0.1")


def browse(profile: Path, page: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Open the page without network, which it doesn't need, and end."""
    still = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
    alone = ("--proxy-server=127.0.0.1:9", "--no-first-run", "--enable-logging=stderr", f"--user-data-dir={profile}")
    command = ["chromium", *still, *alone, "--virtual-time-budget=3000", *flags, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)


def test_the_board_in_a_browser(whest: Callable[..., Any], tmp_path: Path) -> None:
    store = Store(tmp_path / "outputs")
    winner = store.add("cov_prop", *FHERMA, participant="grace", hours=1)
    store.add("mean_prop", *FHERMA, participant="ada", hours=2)
    store.add("monte_carlo", *FHERMA, participant="bob", hours=3)
    store.add("random", *FHERMA, participant="cat", hours=4)
    store.add("zeros", *FHERMA, participant="dan <b>bold</b>", hours=5)
    store.add("cov_prop", *FHERMA, participant="ada", hours=40)
    cheat = store.add("cov_prop", *FHERMA, participant="eve", hours=6)
    store.client.log_metric(store.add("zeros", *FHERMA, participant="mallory", hours=7), "score", 999.0)
    store.add("mean_prop", participant="ada")
    solution = "judge.solution=https://example.org/how"
    assert whest("job=judge", f"judge.run={winner}", "judge.verdict=reviewed", solution).exit_code == 0
    reason = "judge.reason='reads the truth from disk'"
    assert whest("job=judge", f"judge.run={cheat}", "judge.verdict=disqualified", reason).exit_code == 0
    board = whest("job=leaderboard", "leaderboard=fherma", "leaderboard.deadline=2026-06-02T12:00:00Z")
    assert board.exit_code == 0, board.err
    page = store.outputs / "leaderboards" / "fherma" / "board.html"

    opened = browse(tmp_path / "profile", page, "--dump-dom")
    assert "CONSOLE" not in opened.stderr, opened.stderr
    for words in ("grace", "reviewed", "preliminary", "reads the truth from disk", "tampered", "late", "Other tracks"):
        assert words in opened.stdout
    assert "<b>bold</b>" not in opened.stdout

    picture = ROOT / os.environ.get("WHEST_SCREENSHOTS", tmp_path) / "page-board.png"
    browse(tmp_path / "profile", page, "--window-size=1180,1750", f"--screenshot={picture}")
    content = picture.read_bytes()
    assert content.startswith(PNG)
    assert len(content) > 20_000, "an empty page would be smaller"
