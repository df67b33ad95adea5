# A Ray cluster of two nodes, and an MLflow server, in namespaces of their own: loopback only, a token, everything ends
# with this script. The second node has another hostname and a disk of its own where the first has its outputs.
#   unshare -rnum --pid --fork --kill-child --mount-proc sh two_nodes.sh BIN OUTPUTS words of the sweep…
set -eu
bin=$1 outputs=$2
shift 2
. "$(dirname "$0")/ray.sh"
mkdir -p "$outputs"

"$bin/mlflow" server --backend-store-uri "sqlite:///$logs/mlflow.db" --artifacts-destination "$logs/artifacts" \
  --host 127.0.0.1 --port 5000 --workers 1 > "$logs/mlflow.log" 2>&1 &
hostname node-a
start_head
unshare -um sh -c 'hostname node-b && mount -t tmpfs tmpfs "$3" && exec "$1/ray" start --address=127.0.0.1:6379 \
  --node-ip-address=127.0.0.2 --num-cpus=1 --object-store-memory=100000000 --block > "$2/node.log" 2>&1' \
  node "$bin" "$logs" "$outputs" &
await_both
patiently "$bin/python" -c 'import urllib.request; urllib.request.urlopen("http://127.0.0.1:5000/health")'
if env -u RAY_AUTH_TOKEN RAY_AUTH_TOKEN=wrong "$bin/ray" status --address 127.0.0.1:6379 > "$logs/asked" 2>&1; then
  echo "a wrong token was let in"
  exit 9
fi
"$bin/python" -m whest "$@" "outputs_dir=$outputs" tracking=mlflow tracking.uri=http://127.0.0.1:5000 \
  hydra/launcher=cluster hydra.launcher.ray.init.address=127.0.0.1:6379
case " $* " in *" job=bake "*) exit 0 ;; esac  # it leaves a dataset and no runs
"$bin/python" - <<'PYTHON'
from mlflow import MlflowClient
from whest.tracking.recorded import find_runs
client = MlflowClient("http://127.0.0.1:5000")
runs = find_runs(client, [client.get_experiment_by_name("whest").experiment_id])
print("nodes", *(run.report["run_meta"]["host"]["hostname"] for run in runs))
print("problems", *(run.problem for run in runs if run.problem))
PYTHON
