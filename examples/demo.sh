#!/bin/sh
# ADD, CHECK and DEL over a conflist with both probes around a plugin, and the log that comes of it.
#
# As root with the reference plugins: a real bridge, in namespaces that go away with this script. Else the plugin
# `pretend`, which needs no privilege. Nothing outside a temporary folder is touched.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
plugins=${CNI_PATH:-/usr/lib/cni}

if [ "$(id -u)" = 0 ] && [ -x "$plugins/bridge" ] && [ -x "$plugins/host-local" ] && [ -z "${DEMO_INSIDE:-}" ]; then
    # A network and a mount namespace of its own, so that the bridge is not seen by anybody else.
    DEMO_INSIDE=1 exec unshare --net --mount --propagation private "$0"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run() {
    printf '\n\033[1m$ cni-capture run %s demo.conflist\033[0m\n' "$1"
    verb=$1
    shift
    "$here/.venv/bin/cni-capture" run "$verb" "$work/demo.conflist" --container-id demo \
        --args "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web" \
        --cache-dir "$work/cache" --path "$here/bin:$here/examples:$plugins" "$@"
}

if [ -n "${DEMO_INSIDE:-}" ]; then
    mkdir -p /run/netns
    mount -t tmpfs tmpfs /run/netns
    ip link set lo up
    middle='{"type": "bridge", "bridge": "demo0", "isGateway": true,
     "ipam": {"type": "host-local", "subnet": "10.9.8.0/24", "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "'$work/ipam'"}}'
    namespace="--new-netns"
    echo "A real bridge between the probes, in namespaces of its own:"
else
    middle='{"type": "pretend", "address": "10.9.8.7/24"}'
    namespace="--netns /proc/self/ns/net"
    echo "No root, or no plugins in $plugins: examples/pretend between the probes, which only says that it made an interface:"
fi

cat >"$work/demo.conflist" <<CONFLIST
{
  "cniVersion": "1.0.0",
  "name": "demo",
  "plugins": [
    {"type": "capture-pre", "logFile": "$work/cni.log", "lockFile": "$work/cni.lock"},
    $middle,
    {"type": "capture-post", "logFile": "$work/cni.log", "lockFile": "$work/cni.lock"}
  ]
}
CONFLIST
echo
cat "$work/demo.conflist"

# shellcheck disable=SC2086
run add $namespace
run check
run del

printf '\n\033[1m$ cni-capture show cni.log\033[0m\n'
"$here/.venv/bin/cni-capture" show "$work/cni.log"

printf '\n\033[1m$ cat cni.log\033[0m\n'
cat "$work/cni.log"
