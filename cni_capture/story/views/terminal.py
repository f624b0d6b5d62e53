"""What a terminal shows, and what it would obey: colours, and text that is safe for one."""

from __future__ import annotations

import re

# What a terminal obeys instead of showing it: control characters of both sets, surrogates, line separators, and what
# turns the direction of writing.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

GREEN, RED, YELLOW, CYAN, BOLD, DIM = 32, 31, 33, 36, 1, 2


def printable(text: str) -> str:
    """Text without what a terminal would obey; that is spelled as JSON would (`\\u001b`)."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def paint(text: str, color: int, wanted: bool) -> str:
    return f"\x1b[{color}m{text}\x1b[0m" if wanted and text else text


def shorten(text: str, width: int) -> str:
    """At most `width` characters; what is left out is in the middle, since names tend to differ at their ends."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"
