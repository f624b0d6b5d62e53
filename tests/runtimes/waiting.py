"""Waiting for something to become so, with a deadline instead of a sleep for luck."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], what: str, seconds: float = 30) -> T:
    """The first true answer of `condition`, asked 20 times a second; TimeoutError names `what` was waited for."""
    deadline = time.monotonic() + seconds
    while True:
        if answer := condition():
            return answer
        if time.monotonic() > deadline:
            raise TimeoutError(f"not so after {seconds} s: {what}")
        time.sleep(0.05)
