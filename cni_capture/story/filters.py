"""Which operations somebody asked for: all conditions have to hold. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from cni_capture.reading.records import decode
from cni_capture.story.changes import results, words
from cni_capture.story.operations import Operation

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True)
class Filter:
    """The conditions; one that is None (or False) asks for nothing."""

    pod: str | None = None  # [NAMESPACE/]NAME; the name may be the beginning of one
    namespace: str | None = None
    network: str | None = None
    verbs: frozenset[str] = frozenset()
    container: str | None = None  # the beginning of an ID
    label: str | None = None
    failed: bool = False
    changed: bool = False
    slower_than: float | None = None  # milliseconds
    since: datetime | None = None
    until: datetime | None = None

    def __call__(self, operation: Operation) -> bool:
        """The cheap conditions first: most operations of a large log are turned down."""
        if self.failed and not operation.is_failure:
            return False
        record = operation.first
        return (
            (not self.verbs or record.env.command in self.verbs)
            and (self.since is None or record.time >= self.since)
            and (self.until is None or record.time <= self.until)
            and (self.container is None or record.env.container.startswith(self.container))
            and (self.network is None or record.network == self.network)
            and (self.label is None or self.label in (record.label, record.plugin))
            and (self.slower_than is None or (operation.milliseconds or 0) > self.slower_than)
            and (self.pod is None or self._is_pod(operation))
            and (self.namespace is None or operation.pod[0] == self.namespace)
            and (not self.changed or self._has_changed(operation))
        )

    def _is_pod(self, operation: Operation) -> bool:
        assert self.pod is not None
        namespace, slash, name = self.pod.rpartition("/")
        there = operation.pod
        return bool(there[1]) and there[1].startswith(name) and (not slash or there[0] == namespace)

    @staticmethod
    def _has_changed(operation: Operation) -> bool:
        before, after = results(operation)
        return before != after and bool(words(decode(before), decode(after)))


def moment(text: str, now: datetime) -> datetime:
    """A point in time: `42m` (ago; s, m, h, d, w), or RFC 3339; without a zone it is UTC, as in the log.

    Raises ValueError.
    """
    ago = re.fullmatch(r"([0-9]{1,9})([smhdw])", text)
    try:
        if ago:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        # fromisoformat() of Python 3.10 takes neither Z nor fractions of other than 3 or 6 digits.
        plain = re.sub(r"[zZ]$", "+00:00", text)
        plain = re.sub(r"\.([0-9]+)", lambda found: f".{found[1]:0<6.6}", plain)
        found = datetime.fromisoformat(plain)
        return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is neither a time ago, as 42m, nor RFC 3339, as 2026-11-30T18:40:00Z") from None
