"""Places for a log and its lock."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "cni.log"


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "cni.lock"


@pytest.fixture
def sticky() -> Iterator[Path]:
    """A directory like /tmp: everybody may make files in it, and remove none but his own."""
    folder = Path(tempfile.mkdtemp(prefix="cni-capture-", dir="/tmp"))  # pytest's own is closed to other users
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)
