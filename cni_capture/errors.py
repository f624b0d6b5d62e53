"""The one exception that means "tell the user", with what to do about it."""

from __future__ import annotations


class UserError(Exception):
    """Something the user can mend: one line that says what and where, and a hint that says what to do."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
