"""The run's manifest, written by the harness: the run, its compute, its data, its metrics and its score.

It contains no claims of the learner, and the score can be computed again from its figures (`recompute_manifest`).
"""

import json
from pathlib import Path

from whest.document import MANIFEST, Json
from whest.files import write_atomically
from whest.tasks.prequential.report import PrequentialReport

MANIFEST_FILE = MANIFEST
METRICS = (
    "bpb",
    "train_bpb_converged",
    "val_bpb",
    "val_bpb_random_init",
    "heldout_delta",
    "gap",
    "covered_bytes",
    "n_batches",
    "step0_loss",
)


def manifest_of(report: PrequentialReport) -> Json:
    document = report.to_json()
    meta, config, results = document["run_meta"], document["run_config"], document["results"]
    return {
        "schema": "prism_run_manifest",
        "version": 2,
        "run": {
            "participant": config["participant"],
            "estimator": config["estimator"],
            "seed": config["seed"],
            "status": meta["status"],
            "started_at_utc": meta["run_started_at_utc"],
            "finished_at_utc": meta["run_finished_at_utc"],
            "protocol_hash": meta["protocol_hash"],
            "whest_version": meta["whest_version"],
            "code_version": meta["code_version"],
        },
        "compute": {
            "flop_budget": config["flop_budget"],
            "flops_used": results["flops_used"],
            "harness_flops": results["harness_flops"],
            "tokens_consumed": results["covered_bytes"],
            **{name: results["online"][name] for name in ("batch_bytes", "rows_per_step", "is_whole")},
        },
        "data": {**config["dataset"], "row_length": config["row_length"]},
        "metrics": {**{name: results[name] for name in METRICS}, "online_loss": results["online"]["loss"]},
        "score": {
            "final_score": results["score"],
            "rule": config["scoring"],
            **{name: results[name] for name in ("base", "tie_break", "penalty", "failure")},
        },
        "anti_cheat": {
            "forced_init": True,
            "causality_probe": "not run: a reference" if config["is_reference"] else "passed",
            "is_reference": config["is_reference"],
            **{name: results[name] for name in ("step0_anomaly", "memorised", "n_charged_batches")},
        },
        "artifacts": ["report.json", "report.html"],
    }


def save_manifest(report: PrequentialReport, folder: Path) -> None:
    content = json.dumps(manifest_of(report), indent=2, allow_nan=False)
    write_atomically(folder / MANIFEST_FILE, content.encode())
