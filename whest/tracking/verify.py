"""Checks that a recorded run is unchanged since it was logged."""

import math
from datetime import datetime
from typing import TYPE_CHECKING

from whest.document import MANIFEST, Json, milliseconds, protocol_hash, report_metrics
from whest.files import parse_document
from whest.scoring.prism import recompute_manifest
from whest.scoring.rules import recompute_of

if TYPE_CHECKING:
    from mlflow.entities import Run

MOVED = "{} is {} in MLflow and {} in its report"


def find_problem(report: Json, run: "Run | None" = None) -> str | None:
    """What doesn't add up, within the report or beside MLflow's record. A check that fails to run is a problem too."""
    try:
        return own_problem(report) or (logged_problem(run, report) if run is not None else None)
    except Exception as error:  # a damaged report fails in as many ways as it has values
        return f"its report is damaged ({type(error).__name__}: {str(error)[:200]})"


def own_problem(report: Json) -> str | None:
    """The first contradiction inside the report, in words, or None."""
    meta, config, results = report["run_meta"], report["run_config"], report["results"]
    if protocol_hash(meta["protocol"]) != meta["protocol_hash"]:
        return f"its protocol hash {meta['protocol_hash']} is not the hash of its protocol"
    rule = config["scoring"]["name"]
    recompute = recompute_of(rule)
    if recompute is None:
        return f"scoring={rule} is no rule of whest, so its score can't be checked"
    try:
        score = recompute(config, results)
    except (KeyError, TypeError):
        return "its rows are incomplete, so its score can't be checked"
    if not _same(score, results["score"]):
        return f"its score is {results['score']}, but its rows give {score}"
    unkept = broken_promise(meta["protocol"], config)
    if unkept is not None:
        return unkept
    imported = report.get("imported", {}).get("problems")
    return f"it was imported, and its figures disagree: {imported[0]}" if imported else None


def broken_promise(protocol: Json, config: Json) -> str | None:
    """Where a run's protections are not those its protocol requires."""
    require = protocol.get("require")
    if not require:
        return None  # waived, or a run from before protections were part of the protocol
    isolation = config["isolation"]
    lacking = [name for name in require if not isolation["protections"].get(name)]
    is_kept = isolation["status"] == "trusted" or not lacking
    return None if is_kept else f"its protocol requires {', '.join(lacking)}, which it ran without"


def manifest_problem(report: Json, content: bytes | None) -> str | None:
    """What is wrong with a PRISM run's manifest: the score is computed again from it alone, and from nothing else."""
    if content is None:
        return f"its {MANIFEST} is missing"
    try:
        manifest = parse_document(content)
        score, stated = recompute_manifest(manifest), manifest["score"]["final_score"]
        meta, config, results = report["run_meta"], report["run_config"], report["results"]
        pairs = {
            "score": (score, results["score"]),
            "stated score": (stated, results["score"]),
            "protocol": (manifest["run"]["protocol_hash"], meta["protocol_hash"]),
            "participant": (manifest["run"]["participant"], config["participant"]),
            "rule": (manifest["score"]["rule"], config["scoring"]),
            "losses": (manifest["metrics"]["online_loss"], results["online"]["loss"]),
            "FLOPs": (manifest["compute"]["flops_used"], results["flops_used"]),
        }
    except Exception as error:  # a forged manifest fails in as many ways as it has values
        return f"its {MANIFEST} is no manifest ({type(error).__name__}: {str(error)[:200]})"
    different = [name for name, (theirs, ours) in pairs.items() if theirs != ours and not _close(theirs, ours)]
    return f"its {MANIFEST} differs from its report: {', '.join(different)}" if different else None


def _close(one: object, other: object) -> bool:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (one, other))
    return numbers and math.isclose(float(str(one)), float(str(other)), rel_tol=1e-9, abs_tol=1e-300)


def expected_tags(report: Json) -> dict[str, str]:
    """The tags that boards go by, as the report has them. Reports of old don't tell the protection."""
    meta, config = report["run_meta"], report["run_config"]
    status = config.get("isolation", {}).get("status")
    return {
        "participant": config["participant"],
        "protocol_hash": meta["protocol_hash"],
        "scoring": config["scoring"]["name"],
        "estimator": config["estimator"]["name"],
        **({"protection": status} if status is not None else {}),
    }


def logged_problem(run: "Run", report: Json) -> str | None:
    """The first difference between MLflow's record and the report, in words, or None."""
    meta = report["run_meta"]
    for name, value in expected_tags(report).items():
        if run.data.tags.get(name) != value:
            return MOVED.format(f"tag {name}", run.data.tags.get(name, "missing"), value)
    for name, expected in report_metrics(report).items():
        if not _same(run.data.metrics.get(name), expected):
            return MOVED.format(f"metric {name}", run.data.metrics.get(name, "missing"), expected)
    extra = [name for name in ("score", "score_se") if report["results"].get(name) is None and name in run.data.metrics]
    if extra:
        return MOVED.format(f"metric {extra[0]}", run.data.metrics[extra[0]], "absent")
    stamps = {"started": run.info.start_time, "finished": run.info.end_time}
    for name, logged in stamps.items():
        if logged != milliseconds(datetime.fromisoformat(meta[f"run_{name}_at_utc"])):
            return f"the time at which it {name} differs between MLflow and its report"
    return None


def _same(found: float | None, expected: float | None) -> bool:
    """Equal up to rounding in a sum."""
    if found is None or expected is None:
        return found is expected
    return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-300)
