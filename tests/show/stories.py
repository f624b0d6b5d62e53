"""A log as probes would write it, with a clock of its own: what a runtime does is told call by call."""

from __future__ import annotations

import json
from typing import Any

from cni_capture.call import CNIError, quote, read_config
from cni_capture.record import LINES, Record, quoted

START = 1_796_040_224_118_000_000  # nanoseconds since the epoch: 2026-11-30T12:03:44.118Z
BOOT = START - 86_400_000_000_000

VERSION = "1.0.0"
NETWORK = "podnet"


class Story:
    """Records, one after the other; `milliseconds` is how far the clock goes before each."""

    def __init__(self) -> None:
        self.now = START
        self.pid = 4000
        self.records: list[Record] = []

    def record(
        self,
        probe: str,
        side: str,
        verb: str,
        container: str,
        body: dict[str, Any] | bytes,
        *,
        what: str = "input",
        pod: str = "",
        ifname: str = "eth0",
        network: str = NETWORK,
        version: str = VERSION,
        milliseconds: float = 1,
        env: dict[str, str] | None = None,
        pid: int | None = None,
        **facts: Any,
    ) -> None:
        """One record. `pod` is NAMESPACE/NAME; `body` bytes are taken as the probe does: a JSON object, or quoted."""
        self.now += int(milliseconds * 1e6)
        self.pid += pid is None
        environ = {"CNI_COMMAND": verb}
        if container:
            environ |= {"CNI_CONTAINERID": container, "CNI_IFNAME": ifname, "CNI_NETNS": f"/run/netns/{container[:6]}"}
        if pod:
            namespace, _, name = pod.rpartition("/")
            args = {"IgnoreUnknown": "1", "K8S_POD_NAMESPACE": namespace, "K8S_POD_NAME": name}
            environ["CNI_ARGS"] = ";".join(f"{key}={value}" for key, value in args.items() if value)
        environ |= {"CNI_PATH": "/opt/cni/bin"} | (env or {})
        told = {"side": quote(side), "monotonic": f"{(self.now - BOOT) / 1e9:.6f}", "ppid": "1187"}
        told |= {"parent": '"containerd"', "network": quote(network), "cniVersion": quote(version)}
        named = {"took": "milliseconds"}  # which is the clock's, here
        told |= {
            named.get(key, key): json.dumps(value, separators=(",", ":"))
            for key, value in facts.items()
            if value is not None
        }
        raw = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
        try:
            read_config(raw)
        except CNIError:
            raw = quoted(raw)
        self.records.append(Record(probe, self.pid if pid is None else pid, self.now, environ, told, what, raw))

    def enter(self, verb: str, container: str = "", result: Any = None, **more: Any) -> None:
        """The entry: capture-pre, on DEL capture-post; `result` is the prevResult."""
        probe = "capture-post" if verb == "DEL" else "capture-pre"
        self.record(probe, "entry", verb, container, _config(probe, more, result), **more)

    def leave(self, verb: str, container: str = "", result: Any = None, **more: Any) -> None:
        """The exit; of an ADD `result` is what came out, else the prevResult."""
        probe = "capture-pre" if verb == "DEL" else "capture-post"
        if verb == "ADD":
            self.record(probe, "exit", verb, container, result, what="output", **more)
        else:
            self.record(probe, "exit", verb, container, _config(probe, more, result), **more)

    def wrapped_entry(self, verb: str, container: str, plugin: str, config: Any = None, **more: Any) -> int:
        """capture-wrap sees what the plugin gets. Returns its process, for the exit."""
        path = more.pop("path", f"/opt/cni/bin/{plugin}")
        told: dict[str, Any] = {**more, "plugin": plugin, "path": path}
        config = {"cniVersion": VERSION, "name": NETWORK, "type": plugin} if config is None else config
        self.record("capture-wrap", "entry", verb, container, config, **told)
        return self.pid

    def wrapped_exit(
        self,
        verb: str,
        container: str,
        plugin: str,
        pid: int,
        output: Any = b"",
        stderr: bytes = b"",
        *,
        took: float | None = None,
        **more: Any,
    ) -> None:
        """capture-wrap sees how the plugin ended, after `took` milliseconds; with 0, unless `more` says otherwise."""
        ended: dict[str, Any] = {"plugin": plugin, "path": more.pop("path", f"/opt/cni/bin/{plugin}")}
        if "error" not in more:
            ended |= {"signal": more.pop("signal")} if "signal" in more else {"exitStatus": more.pop("exitStatus", 0)}
            ended |= {"took": took, "stderrBytes": more.pop("stderrBytes", len(stderr))}
            ended |= {"redacted": more.pop("redacted", None), "stderr": stderr.decode("utf-8", "surrogateescape")}
        self.record("capture-wrap", "exit", verb, container, output, what="output", pid=pid, **more, **ended)

    def lines(self, form: str) -> list[bytes]:
        return [b"".join(LINES[form](record)) for record in self.records]


def _config(probe: str, more: dict[str, Any], result: Any) -> dict[str, Any]:
    config = {"cniVersion": more.get("version", VERSION), "name": more.get("network", NETWORK), "type": probe}
    return config if result is None else {**config, "prevResult": result}


def result(address: str = "10.1.0.7/24", **more: Any) -> dict[str, Any]:
    """A result as bridge gives it, with one address on eth0 in the container."""
    return {
        "cniVersion": VERSION,
        "interfaces": [
            {"name": "cni0", "mac": "0a:58:0a:01:00:01"},
            {"name": "eth0", "mac": "0a:58:0a:01:00:07", "sandbox": "/run/netns/3f9c1a"},
        ],
        "ips": [{"interface": 1, "address": address, "gateway": "10.1.0.1"}],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dns": {},
        **more,
    }


WEB, DNS, TUNED, ODD = "3f9c1a" * 10 + "abcd", "77b0e2" * 10 + "abcd", "a10b2c" * 10 + "abcd", "e5d4c3" * 10 + "abcd"


def minimal() -> Story:
    """One pod comes and goes."""
    story = Story()
    story.enter("ADD", WEB, pod="default/web-5d9c", milliseconds=0)
    story.leave("ADD", WEB, result(), pod="default/web-5d9c", milliseconds=41)
    story.enter("DEL", WEB, result(), pod="default/web-5d9c", milliseconds=367_743)
    story.leave("DEL", WEB, result(), pod="default/web-5d9c", milliseconds=12)
    return story


def full() -> Story:
    """Everything that a log of version 1 may have."""
    story = Story()
    web, dns, tuned = (
        {"pod": "default/web-5d9c"},
        {"pod": "kube-system/coredns-abc"},
        {"pod": "shop/a-very-long-name-7"},
    )
    story.enter("STATUS", milliseconds=0)
    story.leave("STATUS", milliseconds=2)
    story.enter("ADD", WEB, **web)
    story.leave("ADD", WEB, result(), milliseconds=41, **web)
    # A plugin fails, and the runtime cleans up.
    story.enter("ADD", DNS, milliseconds=18_259, **dns)
    story.enter("DEL", DNS, milliseconds=203, **dns)
    story.leave("DEL", DNS, milliseconds=9, **dns)
    # Two pairs, one after the other: bridge in the first, tuning in the second.
    story.enter("ADD", TUNED, label="bridge", milliseconds=5_000, **tuned)
    story.leave("ADD", TUNED, result("10.1.0.9/24"), label="bridge", milliseconds=30, **tuned)
    changed = result("10.1.0.9/24")
    changed["interfaces"][1]["mtu"] = 1400
    story.enter("ADD", TUNED, result("10.1.0.9/24"), label="tuning", **tuned)
    story.leave("ADD", TUNED, changed, label="tuning", milliseconds=7, **tuned)
    story.enter("CHECK", WEB, result(), milliseconds=1_000, **web)
    story.leave("CHECK", WEB, result(), milliseconds=5, **web)
    # The result breaks the spec, and the address is not what is there.
    broken = result("10.1.0.11")
    broken["ips"][0]["version"] = "4"
    found = {
        "host": ["lo", "cni0"],
        "netns": [{"name": "eth0", "mac": "", "addresses": ["10.1.0.12/24", "fe80::1/64"]}],
    }
    story.enter("ADD", ODD, milliseconds=2_000, pod="default/odd", interfaces={"host": ["lo"], "netns": []})
    story.leave("ADD", ODD, broken, milliseconds=15, pod="default/odd", interfaces=found)
    moved = result("10.1.0.11/24")
    story.enter("ADD", ODD, ifname="eth1", milliseconds=10, pod="default/odd")
    story.leave("ADD", ODD, moved, ifname="eth1", milliseconds=15, pod="default/odd", interfaces=found)
    # Not a call: the probe refuses.
    wrong = {"code": 4, "msg": "required env variables [CNI_CONTAINERID] missing"}
    story.enter("ADD", milliseconds=100, error=wrong)
    error = {"code": 6, "msg": "network configuration is not a JSON object", "details": "value expected at character 1"}
    story.record(
        "capture-pre",
        "entry",
        "ADD",
        ODD,
        b'{\xff "a": \x1b[31m',
        pod="default/odd",
        network="",
        milliseconds=50,
        error=error,
    )
    # podman: no namespace; a name that a terminal would obey; later keys; no lock; secrets cut out.
    story.enter("ADD", "podman-1", pod="web\x1b[2J", milliseconds=500, later={"key": [1, "two"]}, redacted=["token"])
    story.leave(
        "ADD", "podman-1", result("fd00::5/64"), pod="web\x1b[2J", milliseconds=3, unlocked="it was locked for 2 s"
    )
    story.enter("DEL", WEB, result(), milliseconds=367_743, **web)
    story.leave("DEL", WEB, result(), milliseconds=12, **web)
    story.enter("DEL", WEB, milliseconds=4_000, env={"CNI_NETNS": ""}, **web)
    story.leave("DEL", WEB, milliseconds=4, env={"CNI_NETNS": ""}, **web)
    # Another network, on which only capture-pre was spliced in.
    story.enter("ADD", "b" * 64, network="lonely", milliseconds=10_000, env={"TRACEPARENT": "00-0af7-b7ad-01"})
    story.leave("DEL", "b" * 64, network="lonely", milliseconds=2_000)
    story.enter("GC", milliseconds=60_000)
    story.leave("GC", milliseconds=1)
    story.enter("ADD", "c" * 64, pod="default/late", milliseconds=90_000_000)
    return story


def wrapped() -> Story:
    """Plugins behind capture-wrap, and whatever may become of them."""
    story = Story()
    web: dict[str, Any] = {"pod": "shop/web-7f9c"}
    ipam = {"cniVersion": VERSION, "ips": [{"address": "10.1.0.7/24", "gateway": "10.1.0.1"}], "dns": {}}
    bridge = {"cniVersion": VERSION, "name": NETWORK, "type": "bridge", "ipam": {"type": "host-local"}}

    def run(verb: str, plugin: str, output: Any = b"", stderr: bytes = b"", **ended: Any) -> None:
        """One plugin, begun a second after what was before."""
        pid = story.wrapped_entry(verb, WEB, plugin, bridge if plugin == "bridge" else None, milliseconds=1000, **web)
        story.wrapped_exit(verb, WEB, plugin, pid, output, stderr, milliseconds=14, took=12.345, **ended, **web)

    # All goes well: the IPAM plugin within its caller, a log line on stderr, a chained plugin with a label.
    outer = story.wrapped_entry("ADD", WEB, "bridge", bridge, milliseconds=0, **web)
    inner = story.wrapped_entry("ADD", WEB, "host-local", bridge, milliseconds=9, **web)
    story.wrapped_exit("ADD", WEB, "host-local", inner, ipam, milliseconds=6, took=4.2, **web)
    story.wrapped_exit(
        "ADD", WEB, "bridge", outer, result(), b"level=info msg=ready\n", milliseconds=20, took=33.1, **web
    )
    tuned = result()
    tuned["interfaces"][1]["mtu"] = 1400
    config = {"cniVersion": VERSION, "name": NETWORK, "type": "tuning", "prevResult": result()}
    tuning = story.wrapped_entry("ADD", WEB, "tuning", config, label="last", **web)
    story.wrapped_exit("ADD", WEB, "tuning", tuning, tuned, milliseconds=5, took=3.5, label="last", **web)
    # The plugin says why it failed.
    error = {"cniVersion": VERSION, "code": 11, "msg": "no address", "details": "range 10.1.0.0/24 is full"}
    run("ADD", "bridge", error, b'level=error msg="range is full"\n', exitStatus=1)
    # It does not: a panic, a signal, words.
    trace = b"".join(b"main.f%d()\n\t/src/main.go:%d\n" % (line, line) for line in range(12))
    run("ADD", "bridge", b"", b"setting up\npanic: nil map\n\ngoroutine 1 [running]:\n" + trace, exitStatus=2)
    run("ADD", "bridge", b"", b"waiting for the lock\n", signal="SIGKILL")
    run("ADD", "bridge", b"Usage: bridge [OPTIONS]\n", exitStatus=64)
    run("ADD", "bridge", b"x" * 900 + b"\n" + b"y\n" * 30, b"z" * 600 + b"\n", stderrBytes=70_000, exitStatus=1)
    # It means well, and libcni does not understand it.
    run("ADD", "bridge", b"level=info msg=\x1b[31m\xff\n" + json.dumps(result()).encode())
    run("ADD", "bridge", json.dumps(ipam).encode() + b"\n" + json.dumps(result()).encode() + b"\n")
    run("ADD", "bridge", b"", b"done\n")
    run("ADD", "bridge", json.dumps(result("10.1.0.7"), indent=2).encode())
    run("ADD", "bridge", {**error, "code": "11"}, exitStatus=1)
    run("ADD", "bridge", error)
    run("DEL", "bridge", error)
    run("ADD", "bridge", b'{"cniVersion": "1.0.0", "token[redacted]', redacted=["token"])
    # It is not there.
    missing = {"code": 999, "msg": 'failed to find plugin "bridge" in path [/opt/cni/bin]'}
    run("ADD", "bridge", {"cniVersion": VERSION, **missing}, error=missing)
    # It hangs; the runtime gives up and deletes. What it prints on DEL nobody reads.
    story.wrapped_entry("ADD", WEB, "bridge", bridge, milliseconds=1000, **web)
    story.now += 240_000_000_000
    run("DEL", "bridge", b"deleted\n")
    # Somebody tries again by hand, and two STATUS overlap.
    again: dict[str, Any] = {"env": {"CNI_CAPTURE_REPLAY": "2026-11-30T12:03:44.118000Z"}}
    replay = story.wrapped_entry("ADD", WEB, "bridge", bridge, milliseconds=1000, **web, **again)
    story.wrapped_exit("ADD", WEB, "bridge", replay, result(), milliseconds=30, took=28, **web, **again)
    first, second = (story.wrapped_entry("STATUS", "", "bridge", milliseconds=5) for _ in range(2))
    story.wrapped_exit("STATUS", "", "bridge", first, milliseconds=5, took=8)
    busy = {"cniVersion": VERSION, "code": 50, "msg": "not ready"}
    story.wrapped_exit("STATUS", "", "bridge", second, busy, milliseconds=5, took=8, exitStatus=1)
    return story
