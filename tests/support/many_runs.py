"""An outputs folder with many runs: one real report, written again under other names, scores and dates."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support.recorded_store import Store
from whest.document import protocol_hash
from whest.files import SWEEP_STATE

START = datetime(2026, 6, 1, 12, tzinfo=UTC)


@dataclass
class Outputs:
    """Writes runs into a folder. Scores and rows agree, as in a real report."""

    folder: Path
    n_runs: int = 0

    def add(
        self,
        name: str = "zeros",
        factor: float = 1.0,
        budget: float = 6.8e10,
        place: str = "",
        **parts: Mapping[str, Any],
    ) -> Path:
        """A run whose score is `factor` times that of the real one, an hour after the one before."""
        document = json.loads((Store(self.folder).scored("zeros") / "report.json").read_text())
        meta, config, results = document["run_meta"], document["run_config"], document["results"]
        at = START + timedelta(hours=self.n_runs)
        self.n_runs += 1
        meta["protocol"]["limits"]["budget"] = config["flop_budget"] = budget
        meta |= {"run_started_at_utc": at.isoformat(), "protocol_hash": protocol_hash(meta["protocol"])}
        config["estimator"]["name"] = config["participant"] = name
        for row in results["per_mlp"]:
            row["adjusted_final_layer_score"] *= factor
            row["final_layer_mse"] *= factor
        results["score"] *= factor
        results["score_se"] *= factor
        for part, values in parts.items():
            document[part] |= values
        folder = self.folder / (place or f"runs/{at:%Y-%m-%d}/{at:%H-%M-%S}-{self.n_runs:06}")
        folder.mkdir(parents=True)
        (folder / "report.json").write_text(json.dumps(document))
        (folder / "report.html").write_text("<!doctype html><title>a run's page</title>")
        return folder

    def add_sweep(self, *factors: float) -> Path:
        folder = self.folder / "sweeps" / "2026-06-01" / f"{self.n_runs:06}"
        for job, factor in enumerate(factors):
            self.add(factor=factor, place=f"sweeps/2026-06-01/{folder.name}/{job}")
        (folder / SWEEP_STATE).write_text("{}")
        (folder / "sweep.html").write_text("a sweep's page")
        return folder

    def add_comparison(self, verdict: str) -> Path:
        folder = self.folder / "runs" / "2026-06-01" / "comparison"
        folder.mkdir(parents=True)
        pair = {"a": "zeros", "b": "cov_prop", "verdict": verdict}
        (folder / "comparison.json").write_text(json.dumps({"comparisons": [pair], "protocol_hash": "ab" * 8}))
        (folder / "comparison.html").write_text("a comparison's page")
        return folder

    def add_board(self) -> Path:
        folder = self.folder / "leaderboards" / "whest"
        folder.mkdir(parents=True)
        row = {"rank": 1, "participant": "ada", "score": 1e-6, "score_se": 1e-7}
        track = {"protocol": "cd" * 8, "latest": START.isoformat()}
        board = {"leaderboard": "whest", "direction": "lower", "track": track, "rows": [row]}
        (folder / "board.json").write_text(json.dumps(board))
        (folder / "board.html").write_text("a board's page")
        return folder
