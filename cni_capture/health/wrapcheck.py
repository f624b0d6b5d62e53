"""The wraps of a chain, examined: is the real plugin there, and do our settings stand where capture-wrap reads them?"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from cni_capture.conf.wraps import Unwrapped
from cni_capture.health.verdicts import FAIL, WARN, Finding
from cni_capture.standin import WRAP

# Of our settings those that hardly any plugin has for itself; multus has two of them.
_OURS = {"logFile", "lockFile", "logFormat", "lockTimeout", "logOptions"}
_OF_THE_PLUGIN = {"multus": {"logFile", "logOptions"}}


def examine_wraps(plugins: Iterable[Unwrapped], plugin_dir: Path) -> Iterator[Finding]:
    """Findings about the wraps around these plugins and their IPAM plugins; `plugin_dir` is the runtime's."""
    for real, settings, ipam_settings in plugins:
        for kind, entry, wrap in (
            (real.type, real.config, settings),
            (real.ipam_type, real.ipam, ipam_settings),
        ):
            if not (entry and wrap):
                continue
            if not os.path.lexists(plugin_dir / kind):
                yield Finding(
                    FAIL,
                    f"{real.where}: there is no {kind} in {plugin_dir}, and {WRAP} stands in for it",
                    'put it there, or correct its name in "capture"',
                )
            if beside := sorted(_OURS.intersection(entry.spans) - _OF_THE_PLUGIN.get(kind, set())):
                yield Finding(
                    WARN,
                    f'{real.where}: {", ".join(beside)} beside "capture": {kind} gets that, and {WRAP} does not',
                    'our settings stand in "capture"; cni-capture splice writes them there',
                )
