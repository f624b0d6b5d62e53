from __future__ import annotations

import pytest

from tests.runtimes import tools


def test_what_a_machine_lacks_is_skipped_by_name() -> None:
    """A person without the program sees which one was needed, and goes on."""
    with pytest.raises(pytest.skip.Exception, match=r"needs no-such-program|needs root"):
        tools.need("sh", "no-such-program")
