"""Runs as they were recorded: read back from `report.json` or MLflow, and checked against what was logged of them.

Nothing here scores anything. A run whose parts no longer agree keeps its figures and gets a `problem`, in words;
who ranks or compares decides what that means.
"""

import hashlib
import importlib
import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whest.errors import ConfigError, WhestError

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

Json = dict[str, Any]
REPORT, REPORT_SHA256 = "report.json", "report_sha256"
SORTED_BY = ("flop_budget", "lambda_flops_per_second", "width", "depth", "n_mlps")
"""Figures of the config that are metrics too, since MLflow can't compare params by size."""
MOVED = "{} is {} in MLflow and {} in its report"


class UnreadableError(WhestError):
    """There is no such run or report."""


@dataclass(frozen=True)
class RecordedRun:
    """One run: its report, what is pinned to it, and what is wrong with it."""

    run_id: str
    """MLflow's id, or the path of a report that was read from a file."""
    name: str
    participant: str
    report: Json
    """The parsed report.json; empty where there is none to be read."""
    tags: Mapping[str, str]
    problem: str | None
    """What differs from what was logged, in words; null for a run that is as it was recorded."""

    @property
    def protocol_hash(self) -> str | None:
        return self._of("run_meta", "protocol_hash") or self.tags.get("protocol_hash")

    @property
    def rule(self) -> str | None:
        """The scoring rule's name."""
        return (self._of("run_config", "scoring") or {}).get("name") or self.tags.get("scoring")

    @property
    def task(self) -> str:
        """Its task's name; reports of old know of one task only."""
        return task_name(self.report)

    @property
    def score(self) -> float | None:
        return self._of("results", "score")

    @property
    def score_se(self) -> float | None:
        return self._of("results", "score_se")

    @property
    def rows(self) -> list[Json]:
        """One a case."""
        return case_rows(self.report.get("results", {}))

    @property
    def finished_at(self) -> datetime | None:
        stamp = self._of("run_meta", "run_finished_at_utc")
        return datetime.fromisoformat(stamp) if stamp else None

    def _of(self, part: str, name: str) -> Any:
        return self.report.get(part, {}).get(name)


def read_report(path: Path) -> RecordedRun:
    """A run from its report.json, or the folder that holds it; without MLflow there is less to check it against."""
    place = path / REPORT if path.is_dir() else path
    try:
        report = _parse(place.read_bytes())
    except OSError as error:
        raise UnreadableError(f"{place} can't be read ({error.strerror}): give a run's report.json or folder") from None
    except ValueError as error:
        raise UnreadableError(f"{place} is not a report ({error}): give the report.json of a whest run") from None
    config = report["run_config"]
    name = str(config["estimator"]["name"])
    return RecordedRun(str(place), name, str(config["participant"]), report, {}, _own_problem(report))


def read_run(client: "MlflowClient", run_id: str) -> RecordedRun:
    """A run from MLflow, by its id."""
    from mlflow.exceptions import MlflowException

    try:
        run = client.get_run(run_id)
    except MlflowException:
        raise UnreadableError(
            f"there is no MLflow run {run_id} in {client.tracking_uri}: take an id from `make ui`"
        ) from None
    return _read(client, run)


def find_runs(client: "MlflowClient", experiment_ids: Sequence[str]) -> list[RecordedRun]:
    """Every run of these experiments that scored something, oldest first; a sweep's parent and others' runs are not."""
    return [_read(client, run) for run in _pages(client, experiment_ids) if _is_scored(run)]


def find_run_id(client: "MlflowClient", experiment_id: str, beginning: str, key: str) -> str:
    """The one scored run whose id begins so; `key` is where that was asked for."""
    known = [str(run.info.run_id) for run in _pages(client, [experiment_id]) if _is_scored(run)]
    found = [run_id for run_id in known if run_id.startswith(beginning)]
    if len(found) != 1:
        many = f"fits {len(found)} runs" if found else f"is none of the {len(known)} runs"
        raise ConfigError(f"{key}={beginning} {many}: give more of an id that a board or `make ui` shows")
    return found[0]


def report_metrics(report: Json) -> dict[str, float]:
    """The metrics a report is logged with: every number of its suite, and those of its config that people sort by."""
    results, rows = report["results"], case_rows(report["results"])
    suite = {name: value for name, value in results.items() if _is_number(value) and name != "peak_memory_bytes"}
    failures = {f"failures/{name}": n for name, n in results.get("failure_breakdown", {}).items()}
    config = {name: report["run_config"][name] for name in SORTED_BY if name in report["run_config"]}
    spent = {"run_duration_s": report["run_meta"]["run_duration_s"]}
    if rows and "flops_used" in rows[0]:
        spent["wall_time_s"] = sum(row["wall_time_s"] for row in rows)
        spent["mean_flops_used"] = sum(row["flops_used"] for row in rows) / len(rows)
    return {name: float(value) for name, value in (suite | failures | config | spent).items()}


def task_name(report: Json) -> str:
    protocol = report.get("run_meta", {}).get("protocol", {})
    return str(protocol.get("task", {}).get("name", "whitebox"))


def case_rows(results: Json) -> list[Json]:
    """A report's rows, one a case: white-box reports call them by the reference's own name."""
    rows: list[Json] = results.get("per_mlp", results.get("per_case")) or []
    return rows


def case_key(row: Json) -> tuple[int, str]:
    """A case's place and name, by which runs are paired."""
    index, name = ("mlp_index", "mlp_name") if "mlp_name" in row else ("case_index", "case_name")
    return row[index], row[name]


def case_score(results: Json) -> Json:
    """The figure of a row that shows its part in the score: its field, its label, what a case is, which way is better.

    Reports of old tell less of it.
    """
    told = results.get("case_score", {"field": "adjusted_final_layer_score", "label": "adjusted final-layer score"})
    direction = "higher" if told["field"] == "accuracy" else "lower"
    return {"unit": "MLP", "direction": direction, **told}


def front_of(results: Json) -> Json:
    """The run as a point of error against compute: measure, error, error_se, compute."""
    known = {
        "measure": "final-layer MSE",
        "error": results.get("final_layer_mse"),
        "error_se": results.get("final_layer_mse_se"),
        "compute": results.get("mean_effective_compute"),
    }
    return results.get("front", known)


def n_failed(results: Json) -> int:
    """How many cases failed."""
    return int(results.get("n_failed_mlps", results.get("n_failed_cases")) or 0)


def protocol_hash(protocol: Mapping[str, Any]) -> str:
    """Equal where two runs' scores are comparable."""
    return hashlib.sha256(json.dumps(protocol, sort_keys=True).encode()).hexdigest()[:16]


def _pages(client: "MlflowClient", experiment_ids: Sequence[str]) -> Iterator["Run"]:
    token = None
    while True:
        page = client.search_runs(
            list(experiment_ids), max_results=1000, order_by=["attributes.start_time ASC"], page_token=token
        )
        yield from page
        token = page.token
        if not token:
            return


def _is_scored(run: "Run") -> bool:
    return REPORT_SHA256 in run.data.params or REPORT_SHA256 in run.data.tags or "protocol_hash" in run.data.tags


def _read(client: "MlflowClient", run: "Run") -> RecordedRun:
    report, problem = _fetch(client, run)
    if report and problem is None:
        problem = _own_problem(report) or _logged_problem(run, report)
    config, tags = report.get("run_config", {}), dict(run.data.tags)
    participant = str(config.get("participant") or tags.get("participant") or "?")
    return RecordedRun(run.info.run_id, run.info.run_name or run.info.run_id, participant, report, tags, problem)


def _fetch(client: "MlflowClient", run: "Run") -> tuple[Json, str | None]:
    """The artifact, whatever it holds now, and whether it is the one that was logged."""
    from mlflow.exceptions import MlflowException

    with tempfile.TemporaryDirectory() as folder:
        try:
            content = Path(client.download_artifacts(run.info.run_id, REPORT, folder)).read_bytes()
        except (MlflowException, OSError):
            return {}, f"its {REPORT} is missing from the artifacts"
    logged = [kept[REPORT_SHA256] for kept in (run.data.params, run.data.tags) if REPORT_SHA256 in kept]
    found = hashlib.sha256(content).hexdigest()
    try:
        report = _parse(content)
    except ValueError as error:
        return {}, f"its {REPORT} is not a report ({error})"
    if not logged:
        return report, f"the sha256 its {REPORT} was logged with is gone"
    different = [sha256 for sha256 in logged if sha256 != found]
    if different:
        return report, f"its {REPORT} has the sha256 {found[:12]}…, logged was {different[0][:12]}…"
    return report, None


def _parse(content: bytes) -> Json:
    """A report with the parts that everything here leans on."""
    report = json.loads(content)
    wanted = {"run_meta": "protocol_hash", "run_config": "participant", "results": "score"}
    for part, name in wanted.items():
        if not isinstance(report, dict) or not isinstance(report.get(part), dict) or name not in report[part]:
            raise ValueError(f"it has no {part}.{name}")
    return report


def _own_problem(report: Json) -> str | None:
    """What doesn't add up within the report itself."""
    meta, config, results = report["run_meta"], report["run_config"], report["results"]
    if protocol_hash(meta["protocol"]) != meta["protocol_hash"]:
        return f"its protocol hash {meta['protocol_hash']} is not that of the protocol it describes"
    rule = config["scoring"]["name"]
    try:
        recompute = importlib.import_module(f"whest.scoring.{rule}").recompute
        score = recompute(config, results)
    except (ImportError, AttributeError):
        return f"scoring={rule} is no rule of ours, so its score can't be checked"
    except (KeyError, TypeError):
        return "its rows are incomplete, so its score can't be checked"
    if not _same(score, results["score"]):
        return f"its score is {results['score']}, its rows make it {score}"
    return None


def _logged_problem(run: "Run", report: Json) -> str | None:
    """Where MLflow's own record and the report part."""
    meta, config = report["run_meta"], report["run_config"]
    tags = {
        "participant": config["participant"],
        "protocol_hash": meta["protocol_hash"],
        "scoring": config["scoring"]["name"],
        "estimator": config["estimator"]["name"],
    }
    for name, value in tags.items():
        if run.data.tags.get(name) != value:
            return MOVED.format(f"tag {name}", run.data.tags.get(name, "gone"), value)
    for name, expected in report_metrics(report).items():
        if not _same(run.data.metrics.get(name), expected):
            return MOVED.format(f"metric {name}", run.data.metrics.get(name, "gone"), expected)
    extra = [name for name in ("score", "score_se") if report["results"].get(name) is None and name in run.data.metrics]
    if extra:
        return MOVED.format(f"metric {extra[0]}", run.data.metrics[extra[0]], "absent")
    stamps = {"started": run.info.start_time, "finished": run.info.end_time}
    for name, logged in stamps.items():
        if logged != milliseconds(datetime.fromisoformat(meta[f"run_{name}_at_utc"])):
            return f"when it {name} is not the same in MLflow and in its report"
    return None


def milliseconds(moment: datetime) -> int:
    """A date in MLflow's terms."""
    return int(moment.timestamp() * 1000)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(found: float | None, expected: float | None) -> bool:
    """Equal but for rounding in a sum."""
    if found is None or expected is None:
        return found is expected
    return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-300)
