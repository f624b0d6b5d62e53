"""`cni-capture run` against the cnitool whose libcni it follows, on answers that nobody thought of."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.libcni import generated
from tests.libcni.engines import cnitool, ours
from tests.libcni.scenarios import Bench, Scenario
from tests.runtimes import tools


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(scenario=generated.scenarios())
def test_a_real_cnitool_does_the_same(tmp_path_factory: pytest.TempPathFactory, scenario: Scenario) -> None:
    """Results, exit codes, words, what is remembered and what the plugins were given differ in nothing."""
    tools.need("ip")
    root = tmp_path_factory.mktemp("bench")
    bench = Bench(root, root / "cache")
    real = cnitool(tools.go_folder("cnitool-1.3.0") / "cnitool")
    assert bench.play(scenario, real) == bench.play(scenario, ours)
