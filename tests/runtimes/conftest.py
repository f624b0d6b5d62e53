"""The table that all the runtimes' tests hand their rows to, and whether all of them ran."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.runtimes import image, tools
from tests.runtimes.table import Table

# Outside of test modules a failed assertion would not show its values.
pytest.register_assert_rewrite("tests.runtimes.lab", "tests.runtimes.probes", "tests.runtimes.shown")

HERE = Path(__file__).parent
LAST = HERE / "test_table.py"

_TABLE = pytest.StashKey[Table]()
_PASSED = pytest.StashKey[set[str]]()
_DESELECTED = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def table(pytestconfig: pytest.Config) -> Table:
    return pytestconfig.stash.setdefault(_TABLE, Table())


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image for containers and for the pause container of a pod, which nothing has to be pulled for."""
    tools.need("runc", "busybox", "ip", "iptables", "ping", "unshare", "nsenter")
    return image.write_image(tmp_path_factory.mktemp("image") / "image.tar")


@pytest.fixture
def all_ran(request: pytest.FixtureRequest) -> bool:
    """Whether every test below this folder was selected, and passed, before the one that asks."""
    stash = request.config.stash
    items = [item for item in request.session.items if HERE in item.path.parents and item.path != LAST]
    return (
        {item.path for item in items} | {LAST} == set(HERE.glob("test_*.py"))
        and not any("::" in argument for argument in request.config.args)
        and not stash.get(_DESELECTED, False)
        and {item.nodeid for item in items} <= stash.get(_PASSED, set())
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The table is looked at when all the others have handed in their rows."""
    items.sort(key=lambda item: item.path == LAST)


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.config.stash[_DESELECTED] = True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and report.passed:
        item.config.stash.setdefault(_PASSED, set()).add(item.nodeid)
    return report
