"""A plugin that refuses one verb."""

from __future__ import annotations

from pathlib import Path

from tests.runtimes.host import Host

REFUSAL = '{"code": 100, "msg": "not today", "details": "said the plugin"}'


def add_refusing(host: Host, folder: str, verb: str, plugins: Path) -> str:
    """Add to a folder of the host a plugin that is the tuning of `plugins` but for the verb; returns its type."""
    name = f"refusing-{verb}"
    program = f"#!/bin/sh\n[ $CNI_COMMAND = {verb} ] && echo '{REFUSAL}' && exit 1\nexec {plugins}/tuning\n"
    host.write(f"{folder}/{name}", program, mode=0o755)
    return name
