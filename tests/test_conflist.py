"""What a conflist says: its plugins, in whatever spelling, and whether ours are among them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cni_capture.conf.conflist import chain, has_probes
from cni_capture.errors import UserError


def types(data: bytes) -> list[str]:
    return [plugin.type for plugin in chain(data)]


def conflist(*types: str, **keys: Any) -> bytes:
    plugins = [{"type": name, **keys} for name in types]
    return json.dumps({"cniVersion": "1.0.0", "name": "x", "plugins": plugins}).encode()


def test_members_are_found_as_go_finds_them() -> None:
    """By their exact name first, else in any case (encoding/json, Unmarshal); of two the last one counts."""
    plugins = '{"Type": "a"}, {"type": "b", "TYPE": "x"}, {"TYPE": "x", "type": "c"}, {"type": "x", "type": "d"}'
    assert ["a", "b", "c", "d"] == types(f'{{"plugins": [{plugins}]}}'.encode())


def test_a_single_plugin_is_a_chain_of_one() -> None:
    """With the white space around it as its own."""
    (plugin,) = chain(b' {"name": "x", "type": "bridge"}\n')
    assert ("bridge", 0, 33) == (plugin.type, plugin.start, plugin.end)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"plugins": [{"type": "a"}] // mine\n}', "x: network configuration is not a JSON object: "),
        (b'{"plugins": [{"type": "\xff"}]}', "x: network configuration is not UTF-8: "),
        (b"[]", "x: network configuration is not a JSON object: "),
        (b'{"name": "x"}', "x: no list of plugins"),
        (b'{"plugins": {}}', "x: no list of plugins"),
        (b'{"plugins": []}', "x: no plugins"),
        (b'{"plugins": [1]}', "x, plugin 1: network configuration is not a JSON object: "),
        (b'{"plugins": [{"type": "a"}, {"name": "a"}]}', "x, plugin 2: no type"),
        (b'{"plugins": [{"a": ' + b"[" * 9000 + b"]" * 9000 + b"}]}", "x: nested too deep"),
    ],
)
def test_what_is_no_conflist_is_refused(data: bytes, message: str) -> None:
    """With the name of the file and what is wrong."""
    with pytest.raises(UserError) as caught:
        chain(data, "x")
    assert caught.value.message.startswith(message)
    assert caught.value.hint


def test_probes_and_wraps_are_found() -> None:
    """As a plugin, in the place of one or of its IPAM plugin; in a file that is broken wherever it mentions them."""
    ipam = conflist("bridge", ipam={"type": "capture-wrap", "capture": {"type": "host-local"}})
    wrap = conflist("capture-wrap", capture={"type": "bridge"})
    single = b'{"name": "x", "Type": "capture-wrap"}'
    files = [conflist("capture-pre", "bridge"), ipam, wrap, single, b'{"plugins": [{"type": "capture-pre"']
    assert [True] * 5 == [has_probes(data) for data in files]
    assert [False] * 3 == [has_probes(data) for data in (conflist("bridge"), conflist("bridge", ipam=[]), b"{")]
