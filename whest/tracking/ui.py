"""MLflow's user interface with useful defaults: the important columns, and a link to each run's page.

MLflow stores a view in a tag of the experiment, as its "share" button does. The address contains the tag's key.
"""

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from whest.errors import ConfigError
from whest.tracking.runs import SQLITE, MlflowTracking, Tracking

if TYPE_CHECKING:
    from mlflow import MlflowClient

VIEW = "whest"

COLUMNS = (
    ("attributes", ("Description",)),
    ("metrics", ("score", "score_se", "mean_compute_utilization", "ratio_to_sampling", "n_failed_mlps")),
    ("params", ("flop_budget",)),
    ("tags", ("estimator", "round", "participant", "protocol_hash")),
)

WIDTHS = (330, 160, 160, 190, 160, 120, 130, 120, 90, 120, 150)

EXPERIMENT_NOTE = """\
`score` is the mean over MLPs (lower is better), `score_se` its standard error. `mean_compute_utilization` is C/B, the
used share of the budget. `ratio_to_sampling` compares with plain sampling at the same compute: below 1 is better.
Scores are comparable if `protocol_hash` is the same. A run's description links to its page.
"""


def view_state() -> str:
    """The columns of MLflow's table of runs, from left to right; the newest run first."""
    columns = [f"{kind}.`{name}`" for kind, names in COLUMNS for name in names]
    return json.dumps(
        {
            "orderByKey": "attributes.start_time",
            "orderByAsc": False,
            "selectedColumns": columns,
            "columnOrder": columns,
            "columnWidths": dict(zip(columns, WIDTHS, strict=True)),
        }
    )


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


def address(experiment_id: str, port: int) -> str:
    query = f"workflowType=machine_learning&viewStateShareKey={VIEW}"
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
