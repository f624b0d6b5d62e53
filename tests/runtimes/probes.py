"""Probes around the plugins of a chain, and what they logged, read without the project's own reader."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.runtimes.host import Host

LOG = "/run/capture.log"
"""Of the host; with a path of its own here no run can see what another one logged."""

Entry = dict[str, Any]
"""One plugin of a conflist."""

_TEXT = re.compile(
    r"^\S+Z (?P<probe>capture-[a-z]+)\[\d+\] (?P<words>.*) "
    r"CNI_COMMAND=(?P<verb>[A-Z]+),CNI_CONTAINERID=(?P<container>[^,]*),(?P<what>input|output)=(?P<body>\{.*\})$"
)


def around(plugins: Sequence[Entry], log_format: str, first: int = 0) -> list[Entry]:
    """The plugins with the pair of probes: the pre in front of plugin number `first`, the post last."""
    pre, post = ({"type": f"capture-{side}", "logFile": LOG, "logFormat": log_format} for side in ("pre", "post"))
    return [*plugins[:first], pre, *plugins[first:], post]


@dataclass(frozen=True)
class Seen:
    """What a record says of a call, less what differs from run to run; `what` is input or output."""

    probe: str
    verb: str
    side: str
    what: str
    container: str
    network: str


def expected(verbs: str, container: str, network: str) -> list[Seen]:
    """The records, in order, of a pair around plugins for `verbs` ("ADD CHECK! DEL"); ! when a plugin between fails."""
    records = []
    for word in verbs.split():
        verb = word.rstrip("!")
        probes = ["capture-post", "capture-pre"] if verb == "DEL" else ["capture-pre", "capture-post"]
        for probe, side in list(zip(probes, ("entry", "exit"), strict=True))[: 1 if word.endswith("!") else 2]:
            what = "output" if (verb, side) == ("ADD", "exit") else "input"
            attached = "" if verb in ("GC", "STATUS") else container
            records.append(Seen(probe, verb, side, what, attached, network))
    return records


def logged(host: Host) -> list[tuple[Seen, Any]]:
    """What each record of the log says, and the JSON that it holds; a line that is not one whole record is an error."""
    if not host.path(LOG).exists():
        return []
    text = host.read(LOG)
    assert text.endswith("\n"), "the last line of the log is torn"
    return [_json_record(line) if line.startswith("{") else _text_record(line) for line in text[:-1].split("\n")]


def _json_record(line: str) -> tuple[Seen, Any]:
    record = json.loads(line)
    what = "output" if "output" in record else "input"
    env = record["env"]
    container = env.get("CNI_CONTAINERID", "")
    seen = Seen(record["probe"], env["CNI_COMMAND"], record["side"], what, container, record["network"])
    return seen, record[what]


def _text_record(line: str) -> tuple[Seen, Any]:
    match = _TEXT.search(line)
    assert match, f"not a record: {line}"
    words = dict(word.split("=", 1) for word in match["words"].split(" ") if "=" in word)
    container = match["container"].strip('"')  # an empty value stands as ""
    seen = Seen(match["probe"], match["verb"], words["side"], match["what"], container, words["network"])
    return seen, json.loads(match["body"])
