#!/bin/sh
# need.sh WHAT...: see to it that Debian or Ubuntu has what these names stand for: as root install it, else name it.
# The Makefile calls it; exit status 1 means that something is still missing.
set -eu

python=${PYTHON:-python3}
missing=""
lacks() { missing="$missing $*"; }
program() { PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1; }

for what in "$@"; do
    case $what in
    venv) "$python" -c "import ensurepip, venv" 2>/dev/null || lacks python3-venv ;;
    ip) program ip || lacks iproute2 ;;
    plugins) [ -x /usr/lib/cni/bridge ] || lacks containernetworking-plugins ;;
    iptables) program iptables || lacks iptables ;;
    nft) program nft || lacks nftables ;;
    ping) program ping || lacks iputils-ping ;;
    podman) program podman || lacks podman ;;
    containerd) program containerd || lacks containerd ;;
    runc) program runc || lacks runc ;;
    busybox) dpkg -s busybox-static >/dev/null 2>&1 || lacks busybox-static ;;
    jq) program jq || lacks jq ;;
    conmon) program conmon || lacks conmon ;;
    dnsname) [ -x /usr/lib/cni/dnsname ] || lacks golang-github-containernetworking-plugin-dnsname ;;
    logrotate) program logrotate || lacks logrotate ;;
    chattr) program chattr || lacks e2fsprogs ;;
    strace) program strace || lacks strace ;;
    *) echo "need.sh: what is $what?" >&2 && exit 2 ;;
    esac
done

[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "missing packages:$missing" >&2
    echo "hint: sudo apt-get install$missing" >&2
    exit 1
fi
echo "installing missing packages:$missing" >&2
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 # packages with a service do not start it
apt-get update -qq >/dev/null && apt-get install -qq -y --no-install-recommends $missing >/dev/null
