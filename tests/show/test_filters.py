"""Conditions on operations, all of which have to hold."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from cni_capture.reading.records import read_record
from cni_capture.story.filters import Filter, moment
from cni_capture.story.operations import operations
from tests.show.stories import full

NOW = datetime(2026, 11, 30, 13, 0, tzinfo=timezone.utc)
ALL = list(operations(map(read_record, full().lines("json"))))


def chosen(**conditions: Any) -> list[int]:
    return [number for number, operation in enumerate(ALL) if Filter(**conditions)(operation)]


@pytest.mark.parametrize(
    ("expected", "conditions"),
    [
        (list(range(18)), {}),
        ([1, 6, 12, 13], {"pod": "default/web-5d9c"}),
        ([1, 6, 11, 12, 13], {"pod": "web"}),
        ([2, 3], {"namespace": "kube-system"}),
        ([14, 15], {"network": "lonely"}),
        ([0, 6, 16], {"verbs": frozenset({"STATUS", "CHECK", "GC"})}),
        ([2, 3], {"container": "77b0"}),
        ([5], {"label": "tuning"}),
        ([2, 9, 10, 17], {"failed": True}),
        ([1, 4, 5, 7, 8, 11], {"changed": True}),
        ([1, 4], {"slower_than": 29.5}),
        ([16, 17], {"since": datetime(2026, 11, 30, 12, 11, tzinfo=timezone.utc)}),
        ([0], {"until": datetime(2026, 11, 30, 12, 3, 44, 120_000, tzinfo=timezone.utc)}),
        ([7], {"pod": "odd", "changed": True, "until": ALL[7].first.time}),
        ([], {"failed": True, "network": "lonely"}),
    ],
)
def test_each_condition_chooses(expected: list[int], conditions: dict[str, Any]) -> None:
    """By number in the full log."""
    assert expected == chosen(**conditions)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("2026-11-30T12:18:00+00:00", "42m"),
        ("2026-11-30T12:59:30+00:00", "30s"),
        ("2026-11-23T13:00:00+00:00", "1w"),
        ("2026-11-30T18:40:28.123456+00:00", "2026-11-30T18:40:28.123456Z"),
        ("2026-11-30T18:40:28.500000+00:00", "2026-11-30T18:40:28.5z"),
        ("2026-11-30T18:40:28.123456+00:00", "2026-11-30T20:40:28.123456789+02:00"),
        ("2026-11-30T18:40:00+00:00", "2026-11-30 18:40"),
        ("2026-11-30T00:00:00+00:00", "2026-11-30"),
    ],
)
def test_a_time_is_so_long_ago_or_rfc_3339(expected: str, text: str) -> None:
    """Without a zone it is UTC, as the times in the log and on the screen are."""
    assert expected == moment(text, NOW).isoformat()


@pytest.mark.parametrize(
    "text", ["", "yesterday", "5", "m", "-5m", "999999999w", "2026-13-01", "0001-01-01T00:00+12:00"]
)
def test_any_other_time_is_refused(text: str) -> None:
    """The message says what a time looks like."""
    with pytest.raises(ValueError, match="neither a time ago, as 42m, nor RFC 3339"):
        moment(text, NOW)
