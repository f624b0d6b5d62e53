"""`python -m cni_capture` is `cni-capture`."""

from __future__ import annotations

import sys

from cni_capture.commands import main


def run() -> None:
    """The console script."""
    sys.exit(main())


if __name__ == "__main__":
    run()
