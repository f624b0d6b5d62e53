"""Plugins to be called plain and wrapped: by the program of the checkout, and by those that each Python installed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.node import BIN, Node
from tests.pythons import pythons
from tests.wrap.plugins import Plugins


@pytest.fixture(params=["bin", *pythons()], ids=os.path.basename)
def plugins(request: pytest.FixtureRequest, node: Node, tmp_path: Path, installed: Callable[[str], Path]) -> Plugins:
    folder = BIN if request.param == "bin" else installed(request.param)
    return Plugins(node, tmp_path / "plugins", (folder / "capture-wrap",))


@pytest.fixture
def checkout(node: Node, tmp_path: Path) -> Plugins:
    """The same for what does not depend on the Python: wrapped by the program of the checkout only."""
    return Plugins(node, tmp_path / "plugins")
