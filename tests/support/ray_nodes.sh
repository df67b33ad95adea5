# A Ray cluster of two nodes that share a disk, in namespaces of its own: loopback only, a token, all of it ends with this
# script. Then a command of whest, through that cluster.
#   unshare -num --pid --fork --kill-child --mount-proc sh ray_nodes.sh BIN words of the command…
set -eu
bin=$1
shift
. "$(dirname "$0")/ray.sh"

start_head
"$bin/ray" start --address=127.0.0.1:6379 --node-ip-address=127.0.0.2 --num-cpus=1 --object-store-memory=100000000 \
  --block > "$logs/node.log" 2>&1 &
await_both
"$bin/python" -m whest "$@" hydra/launcher=cluster hydra.launcher.ray.init.address=127.0.0.1:6379
