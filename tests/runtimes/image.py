"""The one container image that the container runtimes here run, written on the spot: no registry is asked.

The static busybox of the machine and a greeting to serve, packed as an OCI image layout (image-spec, image-layout.md
and manifest.md). `podman load` and `ctr images import` both read it. It is the pods' sandbox ("pause") image as well.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import shutil
import tarfile
from pathlib import Path

from tests.runtimes.host import Host
from tests.runtimes.waiting import until

NAME = "localhost/cni-capture-test:1"
"""The name under which a runtime knows the image, once imported."""

# A CGI program, RFC 3875, section 4.1: httpd runs it with these variables.
_GREETING = """#!/bin/sh
printf 'Content-Type: text/plain\\r\\n\\r\\n%s at %s, hello %s\\n' "$(hostname)" "$HTTP_HOST" "$REMOTE_ADDR"
"""

_CLIENT = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())"

SLEEP = ["/bin/sleep", "3600"]
SERVE = ["/bin/httpd", "-f", "-p", "80", "-h", "/www"]
"""Greets each client at port 80 with its own host name and what the connection looks like from there."""

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def greeting(host: Host, netns: str, address: str, port: int) -> str:
    """What a container that runs `SERVE` answers a client in the namespace; asked until it is up."""
    url = f"http://{address}:{port}/cgi-bin/greeting"
    ask = ["ip", "netns", "exec", netns, "/usr/bin/python3", "-I", "-S", "-c", _CLIENT, url]
    return until(lambda: host.run(ask, check=False).stdout, f"{url} answers {netns}").strip()


def write_image(archive: Path) -> Path:
    """Write the image as an OCI layout in a tar file; returns the same path."""
    layer = _layer(Path(shutil.which("busybox") or "/bin/busybox"))
    architecture = _MACHINES.get(platform.machine(), platform.machine())
    config = _json(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {"Cmd": SLEEP, "Env": ["PATH=/bin"], "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _descriptor("application/vnd.oci.image.config.v1+json", config),
            "layers": [_descriptor("application/vnd.oci.image.layer.v1.tar", layer)],
        }
    )
    # Each runtime has its own annotation for the name: containerd the first, podman the second.
    names = {"io.containerd.image.name": NAME, "org.opencontainers.image.ref.name": NAME}
    index = _descriptor("application/vnd.oci.image.manifest.v1+json", manifest) | {
        "platform": {"architecture": architecture, "os": "linux"},
        "annotations": names,
    }
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(tar, "index.json", _json({"schemaVersion": 2, "manifests": [index]}))
        for blob in (config, manifest, layer):
            _add(tar, "blobs/sha256/" + _digest(blob).removeprefix("sha256:"), blob)
    return archive


def _layer(busybox: Path) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        _add(tar, "bin/busybox", busybox.read_bytes(), mode=0o755)
        for applet in ("hostname", "httpd", "ip", "nslookup", "sh", "sleep"):
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        _add(tar, "www/cgi-bin/greeting", _GREETING.encode(), mode=0o755)
    return held.getvalue()


def _add(tar: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), mode
    tar.addfile(member, io.BytesIO(data))


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _digest(blob: bytes) -> str:
    return "sha256:" + hashlib.sha256(blob).hexdigest()


def _descriptor(media_type: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}
