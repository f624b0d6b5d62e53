"""What an examination found: a verdict, a line about it, and what to do."""

from __future__ import annotations

from typing import NamedTuple

OK, WARN, FAIL = "ok", "warn", "FAIL"


class Finding(NamedTuple):
    """`status` is OK, WARN or FAIL; `hint` is what to do, empty for OK."""

    status: str
    what: str
    hint: str = ""
