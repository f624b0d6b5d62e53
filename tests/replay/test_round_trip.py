"""From a plugin's call through capture-wrap and the log into a script, and from there to the plugin again."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cni_capture.commands import main
from tests.node import BIN, Node

CONFIGS = {
    "compact": '{"cniVersion":"1.0.0","name":"net","type":"capture-wrap","capture":{"type":"keeper"},"mtu":1400}',
    "indented": '{\n  "cniVersion": "1.0.0",\n  "name": "net",\n  "type": "capture-wrap",\n  "capture": {\n    '
    '"type": "keeper"\n  },\n\t"big": 12345678901234567890.10, "big": 1e400\n}',
    "with CRLF": '{"cniVersion": "1.0.0",\r\n"name": "net",\r\n"type": "capture-wrap","capture": {"type": "keeper"}}\n',
    "with words": '{"name":"net\'s $(id) `id` é \\u00e9","type":"capture-wrap","capture":{"type":"keeper"}} \n\n',
}  # fmt: skip


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_the_plugin_gets_the_same_call_twice(
    config: str, form: str, node: Node, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Stdin byte for byte, and every CNI variable; both log formats."""
    keeper = tmp_path / "keeper"
    keeper.write_text(f'#!/bin/bash\ncat >{tmp_path}/stdin\nenv -0 >{tmp_path}/environ\necho "{{}}"\n')
    keeper.chmod(0o755)

    def kept() -> tuple[bytes, set[bytes]]:
        environ = (tmp_path / "environ").read_bytes().split(b"\0")
        return (tmp_path / "stdin").read_bytes(), {each for each in environ if each.startswith((b"CNI_", b"TRACE"))}

    environ = {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": "web",
        "CNI_IFNAME": "eth0",
        "CNI_ARGS": 'A=it\'s;B="b" $c\n',
        "CNI_PATH": f"/none:{tmp_path}",
        "CNI_EMPTY": "",
        "CNI_CAPTURE_LOG_FORMAT": form,
        "TRACEPARENT": "00-0af7-b7ad-01",
        "PATH": os.defpath,
    }
    node.execute([BIN / "capture-wrap"], environ, config.encode())
    stdin, variables = kept()
    assert 0 == main(["replay", str(node.log)])
    script = capfd.readouterr().out
    subprocess.run(["sh"], input=script.encode("utf-8", "surrogateescape"), env={"PATH": os.defpath}, check=True)
    again, marked = kept()
    assert stdin == again
    assert [b"CNI_CAPTURE_REPLAY"] == [each.partition(b"=")[0] for each in marked - variables]
    assert set() == variables - marked
