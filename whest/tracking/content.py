"""What of a run goes to MLflow: params, metrics, tags and the table of cases, all from its report.json."""

import getpass
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

from whest.document import PROVENANCE, REPORT_SHA256, Json, case_rows, flatten
from whest.files import read_bounded
from whest.notation import printable
from whest.tracking.naming import SCORE, score_words

PARENT_FILE = "parent_run_id"
"""In a sweep's folder: the id of its MLflow parent run. Hydra composes each job anew, so a file carries the id."""
PARENT_VARIABLE = "WHEST_PARENT_RUN"
"""The same in a job's environment, for machines that don't share the folder."""
SWEEP_JOB = "sweep_job"
ORIGIN = "whestbench"

NO_CHOICES = re.compile(
    r"(^|\.|_)sha256$|^estimator\.target$|^isolation\.(protections\.|status$)|^lambda_has_effect$|^(name|notes|hypothesis|decision)$|^tags\."
)
"""Config values that follow from others, or only name the run. They are tags or in the report: among the params they
would fill MLflow's view of what differs between runs."""
HOST = {"hostname": "host", "device": "device", "backend": "backend", "python_version": "python_version"}
LIBRARIES = ("jax_version", "jaxlib_version", "numpy_version")
SOURCE_TYPE = "whest"
"""The type of a dataset's source in MLflow (`whest.tracking.sources`)."""
SOURCE_FACTS = ("name", "path", "split", "seed", "seed_protocol", "n_mlps", "width", "depth")
COMMIT = re.compile(r"[0-9a-f]{7,40}")
LARGEST_RECORD = 2**20
LONGEST_TAG, LONGEST_NAME, MOST_NAMESPACES = 5000, 200, 100


def source_facts(config: Json) -> str:
    """The source of a run's dataset as JSON, from its `run_config`."""
    known = {**{key: config.get(key) for key in ("width", "depth")}, **config["dataset"]}
    return json.dumps({key: known.get(key) for key in SOURCE_FACTS})


def run_params(document: Json, sha256: str) -> dict[str, Any]:
    """The choices of the run. The report's hash is among them, because a param of MLflow can't be changed later."""
    flat = flatten(document["run_config"])
    return {name: value for name, value in flat.items() if not NO_CHOICES.search(name)} | {REPORT_SHA256: sha256}


def run_tags(document: Json, folder: Path, sha256: str) -> dict[str, str]:
    """What runs are found by: who, under which rules, with which code and on which machine."""
    meta, config = document["run_meta"], document["run_config"]
    host = meta["host"]
    named: dict[str, Any] = {
        **config.get("tags", {}),
        **{name: config.get(name) for name in ("hypothesis", "decision")},
        SCORE: score_words(document["results"]),
        "estimator": config["estimator"]["name"],
        "estimator_target": config["estimator"]["target"],
        "round": config["round"],
        "participant": config["participant"],
        "scoring": config["scoring"]["name"],
        "protocol_hash": meta["protocol_hash"],
        "protection": config.get("isolation", {}).get("status", "unprotected"),
        "code_version": meta["code_version"] or meta["whest_version"],
        "whest_version": meta["whest_version"],
        "schema_version": document["schema_version"],
        **{tag: host.get(name) for name, tag in HOST.items()},
        **{name: host.get(name) for name in LIBRARIES},
        "run_folder": str(folder),
        "command": meta["command"],
        "mlflow.source.name": meta["command"],
        **_origin_tags(meta, folder),
        REPORT_SHA256: sha256,
        **_imported_tags(document),
        **sweep_tags(folder),
    }
    return {name: str(value)[:LONGEST_TAG] for name, value in named.items() if value is not None}


def _origin_tags(meta: Json, folder: Path) -> dict[str, str | None]:
    """MLflow's own tags for who ran what, which its pages show. The commit is that of the user's repository, if any."""
    try:
        git = json.loads(read_bounded(folder / PROVENANCE, LARGEST_RECORD))["git"] or {}
    except (OSError, ValueError, KeyError, TypeError):  # provenance=false, or an older run
        git = {}
    ours = str(meta["code_version"] or "").removesuffix("-dirty")
    commit, branch = str(git.get("commit", ours)), git.get("branch")
    return {
        "mlflow.user": _user(),
        "mlflow.source.type": "LOCAL",
        "mlflow.source.git.commit": commit if COMMIT.fullmatch(commit) else None,
        "mlflow.source.git.branch": printable(str(branch)) if branch else None,
    }


def _user() -> str | None:
    """The name of whoever logs the run; None if the system has none, as in some containers."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return None


def _imported_tags(document: Json) -> dict[str, str]:
    if "imported" not in document:
        return {}
    origin = document["imported"]
    tags = {"imported": ORIGIN, "imported_sha256": origin["sha256"], "imported_from": origin["from"]}
    return tags | ({"disagrees": "; ".join(origin["problems"])} if origin["problems"] else {})


def sweep_tags(folder: Path) -> dict[str, str]:
    """The parent run of a sweep's job, and its number."""
    parent, parent_id = folder.parent / PARENT_FILE, os.environ.get(PARENT_VARIABLE)
    if not parent_id and not parent.exists():
        return {}
    return {"mlflow.parentRunId": parent_id or parent.read_text().strip(), SWEEP_JOB: folder.name}


def detail_metrics(document: Json) -> dict[str, float]:
    """Where time, FLOPs and memory went. `whest.document.report_metrics` has the figures that a board checks."""
    results = document["results"]
    parts = results.get("breakdowns") or {}
    estimator, sampling = parts.get("estimator") or {}, parts.get("sampling") or {}
    spent = estimator.get("by_namespace") or {}
    found = {
        **{name: estimator.get(name) for name in ("backend_time_s", "overhead_time_s", "residual_wall_time_s")},
        "sampling_time_s": sampling.get("wall_time_s"),
        "peak_memory_bytes": results.get("peak_memory_bytes"),
        **{_flops_name(name): spent[name]["flops_used"] for name in list(spent)[:MOST_NAMESPACES]},
    }
    return {name: float(value) for name, value in found.items() if value is not None}


def _flops_name(namespace: str) -> str:
    """A metric's name, with only the characters that MLflow allows."""
    return "flops/" + re.sub(r"[^\w. -]", "_", namespace, flags=re.ASCII)[:LONGEST_NAME]


def case_table(rows: list[Json]) -> dict[str, list[Any]]:
    """Rows with the same keys, as columns."""
    return {column: [row[column] for row in rows] for column in (rows[0] if rows else {"case": None})}


def run_status(document: Json) -> str:
    """MLflow's status of the run."""
    if document["run_meta"]["status"] == "interrupted":
        return "KILLED"
    from whest.cases.exam import EARNED  # no other task's run imports it

    results = document["results"]
    codes = {row.get("error_code") for row in case_rows(results)} - {None, *EARNED}
    return "FAILED" if codes or results.get("failure") is not None else "FINISHED"


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
