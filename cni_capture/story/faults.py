"""Why a call of a wrapped plugin counts as failed."""

from __future__ import annotations

from typing import Any, NamedTuple

# How a plugin ended that did well, in the words of Go (os.ProcessState).
SUCCESS = "exit status 0"


class Fault(NamedTuple):
    """What the plugin said, how it ended, and what libcni makes of it.

    `said` is the plugin's CNI error object, empty where it printed none; `ended` is "exit status 3" or "killed by
    SIGKILL", "" for a plugin that could not be run. Where libcni does not see what the plugin meant, `reason` says why
    in a phrase, `libcni` has the very words that reach the user ("" where the log has not all that it takes to know
    them), and `at` is the byte of stdout at which it stumbles.
    """

    said: dict[str, Any]
    ended: str = ""
    reason: str = ""
    libcni: str = ""
    at: int | None = None
