"""Every call that real runtimes were seen to make, replayed through both probes.

tests/captures/ has a file per runtime or library, a call per line: the whole environment, stdin, and where it was seen.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.node import BIN, PROBES, Answer, Node

FILES = sorted(Path(__file__).with_name("captures").glob("*.jsonl"))
SUPPORTED = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]


def _calls(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.open()]


def _check(call: dict[str, Any], answer: Answer) -> None:
    """The answer is the one that the specification asks for, by another parser than the probes'."""
    verb, config = call["env"]["CNI_COMMAND"], json.loads(call["stdin"])
    text = answer.stdout.decode()
    assert (0, b"") == (answer.code, answer.stderr), call["path"]
    if verb == "VERSION":
        assert SUPPORTED == json.loads(text)["supportedVersions"], call["path"]
    elif verb != "ADD":
        assert text == "", call["path"]
    elif config.get("prevResult") is None:
        assert {"cniVersion": config["cniVersion"]} == json.loads(text), call["path"]
    else:
        assert (config["prevResult"], True) == (json.loads(text), text in call["stdin"]), call["path"]


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_call_of_a_real_runtime_is_answered_and_recorded(
    node: Node, file: Path, probe: str, log_format: str
) -> None:
    """Each is answered as the specification asks, and its record says what the call was, to the byte."""
    node.environ["CNI_CAPTURE_LOG_FORMAT"] = log_format
    recorded = []
    for call in _calls(file):
        answer = node.call(probe, call["env"], call["stdin"].encode())
        _check(call, answer)
        verb, config = call["env"]["CNI_COMMAND"], json.loads(call["stdin"])
        cni = {name: value for name, value in call["env"].items() if name.startswith("CNI_")}
        seen = ("output", answer.stdout) if (probe, verb) == (PROBES[1], "ADD") else ("input", call["stdin"].encode())
        if verb != "VERSION":
            recorded.append((probe, {**node.environ, **cni}, config["name"], config["cniVersion"], *seen))
    assert recorded == [
        (record.probe, record.env, record.facts["network"], record.facts["cniVersion"], record.what, record.body)
        for record in node.records()
    ]


@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_call_of_each_verb_of_a_real_runtime_is_answered_by_the_program(node: Node, file: Path, probe: str) -> None:
    """The last call of each verb, given to the program with that runtime's whole environment."""
    for call in {call["env"]["CNI_COMMAND"]: call for call in _calls(file)}.values():
        _check(call, node.execute([BIN / probe], call["env"], call["stdin"].encode()))
