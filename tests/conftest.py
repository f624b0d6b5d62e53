"""What all tests share: a node to call probes on, and no skipping where everything must run."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests import pythons
from tests.node import Node


def pytest_configure() -> None:
    """Processes of the tests are to start as a runtime's do: `nohup` and a shell's `&` have them ignore signals."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with an empty log."""
    return Node(tmp_path)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function from a Python to a plugin directory that it installed the probes into, once."""
    return functools.cache(lambda python: pythons.install(python, tmp_path_factory.mktemp("installed")))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With CI in the environment a skipped test is a failed one: what cannot run there is found out there."""
    report = yield
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.longrepr = f"not to be skipped in CI: {why}"
    return report
