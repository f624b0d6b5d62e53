"""Loading a network: what libcni makes of a file, and one clear line about a file that it would refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cni_capture.errors import UserError
from cni_capture.libcni.network import Network, Plugin, load

LOOKS = 'a network looks like {"cniVersion": "1.0.0", "name": "mynet", "plugins": [{"type": "bridge", ...}]}'
REFUSED = "every runtime built on libcni refuses this file"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "FILE, line 1: not JSON: unexpected end of JSON input", LOOKS),
        ('{\n"name": "x",\n}', "FILE, line 3: not JSON: invalid character '}' looking for ", LOOKS),
        ("[" * 300 + "]" * 300, "FILE, line 1: not JSON: exceeded max depth", LOOKS),
        ("[]", "FILE: not a JSON object: json: cannot unmarshal array into Go value of type map[", LOOKS),
        ('{"plugins": [{"type": "a"}]}', "FILE: no name", 'a network needs a name of its own: "name": "mynet"'),
        ('{"name": ""}', "FILE: no name", 'a network needs a name of its own: "name": "mynet"'),
        ('{"name": "x"}', "FILE: no plugins", LOOKS),
        ('{"name": "x", "plugins": []}', "FILE: no plugins", LOOKS),
        ('{"name": "x", "plugins": {}}', 'FILE: "plugins" is no list', LOOKS),
        (
            '{"name": "x", "plugins": [{"type": "a"}, {}]}',
            "FILE, plugin 2: no type",
            'every plugin names its program: "type": "bridge"',
        ),
        ('{"name": "x", "plugins": ["a"]}', "FILE, plugin 1: not a JSON object: json: cannot unmarshal string", LOOKS),
        (
            '{"name": "x", "plugins": [{"type": "a", "capabilities": {"mac": "yes"}}]}',
            "FILE, plugin 1: json: cannot unmarshal string into Go struct field PluginConf.capabilities of type bool",
            REFUSED,
        ),
        (
            '{"name": "x", "cniVersion": 1, "plugins": [{"type": "a"}]}',
            'FILE: "cniVersion" is no string',
            'write it in quotes: "cniVersion": "1.0.0"',
        ),
        (
            '{"name": "x", "cniVersions": "1.0.0", "plugins": [{"type": "a"}]}',
            'FILE: "cniVersions" is no list of strings',
            '"cniVersions": ["0.4.0", "1.0.0"]',
        ),
        (
            '{"name": "x", "cniVersions": ["one"], "plugins": [{"type": "a"}]}',
            'FILE: failed to convert major version part "one"',
            'versions look like "1.0.0"',
        ),
        (
            '{"name": "x", "disableGC": "no", "plugins": [{"type": "a"}]}',
            'FILE: "disableGC" is neither true nor false',
            '"disableGC": true',
        ),
    ],
)
def test_a_bad_file_gets_one_clear_line_and_a_hint(tmp_path: Path, text: str, message: str, hint: str) -> None:
    """The line names the file and the place in it, the hint says how it should be."""
    file = tmp_path / "x.conflist"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        load(file)
    assert message == caught.value.message.replace(str(file), "FILE")[: len(message)]
    assert hint == caught.value.hint


def test_a_missing_file_is_said_so(tmp_path: Path) -> None:
    """The usual place of conflists is the hint."""
    with pytest.raises(UserError) as caught:
        load(tmp_path / "x")
    expected = (f"cannot read {tmp_path}/x: No such file or directory", "runtimes keep theirs in /etc/cni/net.d")
    assert expected == (caught.value.message, caught.value.hint)


def test_a_single_plugin_is_a_network_of_one(tmp_path: Path) -> None:
    """A .conf is taken for a list with that one plugin, as libcni upgrades it; folders are for lists."""
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "1.conf").write_text('{"type": "b"}')
    config = {"cniVersion": "0.4.0", "name": "x", "type": "a", "capabilities": {"mac": True, "ips": False}}
    (tmp_path / "x.conf").write_text(json.dumps(config))
    source = (
        '{"cniVersion":"0.4.0","name":"x","plugins":'
        '[{"capabilities":{"ips":false,"mac":true},"cniVersion":"0.4.0","name":"x","type":"a"}]}'
    )
    expected = Network("x", "0.4.0", (Plugin("a", "x", ("mac",), config),), False, False, source.encode())
    assert expected == load(tmp_path / "x.conf")


@pytest.mark.parametrize(
    ("keys", "version"),
    [
        ({}, ""),
        ({"cniVersion": "0.4.0"}, "0.4.0"),
        ({"cniVersions": ["0.4.0", "1.0.0", "0.3.1"]}, "1.0.0"),
        ({"cniVersion": "1.1.0", "cniVersions": ["0.4.0"]}, "1.1.0"),
        ({"cniVersions": ["1.0.0", "9.0.0"]}, "1.0.0"),
        ({"cniVersion": "9.0.0", "cniVersions": []}, "9.0.0"),
    ],
)
def test_the_newest_version_that_both_sides_know_is_used(tmp_path: Path, keys: dict[str, object], version: str) -> None:
    """cniVersions offers a choice; versions newer than 1.1.0 are not ours to choose."""
    (tmp_path / "x").write_text(json.dumps({"name": "x", "plugins": [{"type": "a"}], **keys}))
    assert version == load(tmp_path / "x").cni_version


@pytest.mark.parametrize(("inlined_only", "types"), [(False, ["a", "b", "c"]), (True, ["a"])])
def test_plugins_of_the_folder_beside_the_file_come_last(tmp_path: Path, inlined_only: bool, types: list[str]) -> None:
    """libcni 1.3 adds `<name>/*.conf`, by file name, unless the file says loadOnlyInlinedPlugins."""
    (tmp_path / "net").mkdir()
    for file, plugin in (("2.conf", "c"), ("1.conf", "b"), ("3.json", "d")):
        (tmp_path / "net" / file).write_text(json.dumps({"type": plugin}))
    whole = {"name": "net", "plugins": [{"type": "a"}], "loadOnlyInlinedPlugins": inlined_only}
    (tmp_path / "x").write_text(json.dumps(whole))
    assert types == [plugin.type for plugin in load(tmp_path / "x").plugins]
