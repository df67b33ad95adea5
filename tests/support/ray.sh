# What the scripts with Ray clusters share; $bin is the folder of ray and python.
"$bin/python" -c 'import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh", b"lo", 0x41))'  # lo, up and running
RAY_AUTH_MODE=token
RAY_AUTH_TOKEN=$("$bin/python" -c 'import secrets; print(secrets.token_hex(32))')
RAY_USAGE_STATS_ENABLED=0
export RAY_AUTH_MODE RAY_AUTH_TOKEN RAY_USAGE_STATS_ENABLED
logs=$(mktemp -d)  # short: a socket's path may have a hundred characters
trap 'rm -rf "$logs" || true' EXIT
patiently() { for _ in $(seq 120); do "$@" > "$logs/asked" 2>&1 && return 0; sleep 1; done; cat "$logs"/*.log; return 1; }

start_head() {
  "$bin/ray" start --head --node-ip-address=127.0.0.1 --port=6379 --num-cpus=1 --include-dashboard=false \
    --temp-dir="$logs/ray" --object-store-memory=100000000 --block > "$logs/head.log" 2>&1 &
  patiently "$bin/ray" status --address 127.0.0.1:6379
}
await_both() {
  patiently sh -c '"$1/ray" status --address 127.0.0.1:6379 | grep -q "/2.0 CPU"' both "$bin"
}
