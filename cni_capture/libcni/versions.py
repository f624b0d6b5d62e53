"""Versions of the CNI spec, compared as libcni compares them (pkg/version/plugin.go)."""

from __future__ import annotations

import re

from cni_capture.libcni.gojson import GoError, quote

CURRENT = "1.1.0"
"""The newest version that this project and libcni 1.3 speak."""

_PARTS = ("major", "minor", "micro")


def parse(version: str) -> tuple[int, int, int]:
    """A version as numbers; missing ones are 0, and no version at all is 0.1.0. Raises GoError."""
    if version == "":
        return 0, 1, 0
    parts = version.split(".")
    if len(parts) > 3:
        raise GoError(f"invalid version {_quoted(version)}: too many parts")
    numbers = [_number(part, name) for part, name in zip(parts, _PARTS, strict=False)] + [0, 0]
    return numbers[0], numbers[1], numbers[2]


def at_least(version: str, other: str) -> bool:
    """Whether `version` is `other` or newer. Raises GoError."""
    return parse(version) >= parse(other)


def _number(text: str, part: str) -> int:
    digits = re.fullmatch("([+-]?)0*([0-9]+)", text)
    if digits is None:
        fault = "invalid syntax"
    elif len(digits[2]) > 19 or not -(2**63) <= int(digits[1] + digits[2]) < 2**63:
        fault = "value out of range"
    else:
        return int(digits[1] + digits[2])
    raise GoError(
        f"failed to convert {part} version part {_quoted(text)}: strconv.Atoi: parsing {_quoted(text)}: {fault}"
    )


def _quoted(text: str) -> str:
    return quote(text.encode())
