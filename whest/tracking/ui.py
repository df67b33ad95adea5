"""MLflow's user interface with useful defaults: the important columns, and a link to each run's page.

MLflow stores a view in a tag of the experiment, as its "share" button does. The address contains the tag's key.
"""

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Literal

from whest.errors import ConfigError
from whest.tracking.runs import SQLITE, MlflowTracking, Tracking

if TYPE_CHECKING:
    from mlflow import MlflowClient

VIEW = "whest"

COLUMNS = (
    ("tags", "score", 210),
    ("attributes", "Description", 420),
    ("metrics", "mean_compute_utilization", 190),
    ("metrics", "ratio_to_sampling", 150),
    ("metrics", "n_failed_mlps", 120),
    ("params", "flop_budget", 120),
    ("tags", "estimator", 130),
    ("tags", "round", 90),
    ("tags", "participant", 120),
    ("tags", "protocol_hash", 150),
    ("metrics", "score", 160),
)
"""The columns of the table of runs and their widths. `metrics.score` is there to sort by."""

CHARTS = {"score": "score", "mean_compute_utilization": "C/B", "ratio_to_sampling": "ratio to sampling"}
"""The first charts of the chart view: metrics and their names."""
FRONT = ("mean_effective_compute", "final_layer_mse")
"""The axes of the fourth chart."""
FIRST = "Score"
"""The chart view's first section. MLflow puts the other metrics into sections below it."""

EXPERIMENT_NOTE = """\
`score` is the mean over MLPs with its standard error (lower is better). `mean_compute_utilization` is C/B, the
used share of the budget. `ratio_to_sampling` compares with plain sampling at the same compute: below 1 is better.
Scores are comparable if `protocol_hash` is the same. A run's description links to its page.
"""


def view_state() -> str:
    """The columns of MLflow's table of runs, from left to right; the newest run first; and the charts."""
    widths = {f"{kind}.`{name}`": width for kind, name, width in COLUMNS}
    return json.dumps(
        {
            "orderByKey": "attributes.start_time",
            "orderByAsc": False,
            "selectedColumns": list(widths),
            "columnOrder": list(widths),
            "columnWidths": widths,
            **chart_state(),
        }
    )


def chart_state() -> dict[str, Any]:
    """The charts of MLflow's chart view, in order. Left to itself, it sorts all metrics by name."""
    part = {"metricSectionId": "whest", "deleted": False, "isGenerated": False}
    bars = [
        {**part, "type": "BAR", "uuid": f"whest-{key}", "metricKey": key, "displayName": name, "runsCountToCompare": 10}
        for key, name in CHARTS.items()
    ]
    x, y = ({"key": key, "type": "METRIC"} for key in FRONT)
    front = {
        **part,
        "type": "SCATTER",
        "uuid": "whest-front",
        "displayName": "error against compute",
        "xaxis": x,
        "yaxis": y,
        "runsCountToCompare": 100,
    }
    section = {"uuid": "whest", "name": FIRST, "display": True, "isReordered": True, "deleted": False}
    return {
        "compareRunCharts": [*bars, front],
        "compareRunSections": [{**section, "isGenerated": False}],
        "isAccordionReordered": True,
    }


def set_view(client: "MlflowClient", experiment_id: str) -> None:
    """Store the view in the experiment. Changes that a person makes in the browser stay in the browser."""
    tags = {
        f"mlflow.sharedViewState.{VIEW}": view_state(),
        "mlflow.experimentKind": "custom_model_development",
        "mlflow.experiment.primaryMetric.name": "score",
        "mlflow.note.content": EXPERIMENT_NOTE,
    }
    known = client.get_experiment(experiment_id).tags
    for key, value in tags.items():
        if known.get(key) != value:
            client.set_experiment_tag(experiment_id, key, value)


def address(experiment_id: str, port: int, mode: Literal["TABLE", "CHART"] = "TABLE") -> str:
    """Where the table of runs is, or their charts."""
    query = f"workflowType=machine_learning&viewStateShareKey={VIEW}" + (f"&compareRunsMode={mode}" * (mode == "CHART"))
    return f"http://127.0.0.1:{port}/#/experiments/{experiment_id}/runs?{query}"


def open_store(tracking: Tracking) -> tuple[MlflowTracking, str]:
    """The local store of a config, with its view set, and the experiment's id."""
    if not isinstance(tracking, MlflowTracking):
        raise ConfigError("tracking=none stores no runs to show: job=ui needs tracking=mlflow")
    if not tracking.tracking_uri.startswith(SQLITE):
        raise ConfigError(
            f"tracking.uri={tracking.tracking_uri} is a server with its own pages: open it in a browser, "
            "or leave out tracking.uri for the local store"
        )
    client, experiment_id = tracking.connect()
    set_view(client, experiment_id)
    return tracking, experiment_id


def serve(tracking: MlflowTracking, port: int) -> int:
    """Run MLflow's server, which only this machine can reach, until it is stopped. Returns its exit code."""
    command = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", tracking.tracking_uri]
    with subprocess.Popen([*command, "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]) as server:
        try:
            return server.wait()
        except KeyboardInterrupt:
            server.terminate()  # the server got Ctrl-C too, but not a scheduler's stop
            server.wait()
            return 0
