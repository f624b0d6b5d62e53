# What the tests with real parts need of Debian, by the names of tests/need.sh.
REAL := ip plugins iptables nft ping podman conmon dnsname containerd runc busybox logrotate strace chattr

# Where `make install` puts things, and the Python that runs them.
PREFIX  ?= /opt/cni-capture
CNI_BIN ?= /opt/cni/bin
PYTHON  ?= python3
export PYTHON

VENV := .venv
RUN  := $(VENV)/bin/python -m
LINT := bin/capture-pre bin/capture-post bin/capture-wrap cni_capture tests examples/pretend

.PHONY: help demo test check test-soak bench install uninstall clean
.DEFAULT_GOAL := help

help:
	@echo "make demo       see what the probes record: ADD, CHECK and DEL over a chain"
	@echo "make test       everything: needs root for the parts with real plugins and runtimes"
	@echo "make check      the part of it that needs nothing but Python, in under a minute"
	@echo "make test-soak  ten minutes of load and hostile input, at random"
	@echo "make bench      what a probe costs, as ratios"
	@echo "make install    into PREFIX=$(PREFIX), the probes into CNI_BIN=$(CNI_BIN)"
	@echo "make uninstall  out of there again"

demo: $(VENV)/tool
	@tests/need.sh ip plugins || true
	@examples/demo.sh

check: $(VENV)/tests
	$(VENV)/bin/ruff check $(LINT)
	$(VENV)/bin/ruff format --check $(LINT)
	$(VENV)/bin/mypy
	ONE_PYTHON=1 $(RUN) pytest --numprocesses 4 --dist worksteal --ignore=tests/runtimes --ignore=tests/faults

test: $(VENV)/tests
	@tests/need.sh $(REAL) || true
	$(VENV)/bin/ruff check $(LINT)
	$(VENV)/bin/ruff format --check $(LINT)
	$(VENV)/bin/mypy
	$(RUN) pytest

test-soak: $(VENV)/tests
	$(RUN) tests.faults.soak 600

bench: $(VENV)/tests
	@tests/need.sh jq $(REAL) || true
	$(RUN) tests.bench
	$(RUN) tests.bench.bench_show

# The checkout's own Python: the tool alone for the demo, with test tools for the rest.
$(VENV)/tool: pyproject.toml
	@tests/need.sh venv
	@test -x $(VENV)/bin/pip || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --editable .
	@touch $@

$(VENV)/tests: $(VENV)/tool
	$(VENV)/bin/pip install --quiet --editable ".[dev]"
	@touch $@

install:
	@tests/need.sh venv
	$(PYTHON) -m venv $(PREFIX)/venv
	rm -rf build
	$(PREFIX)/venv/bin/pip install --quiet --upgrade .
	mkdir -p $(PREFIX)/bin
	ln -sf ../venv/bin/cni-capture $(PREFIX)/bin/cni-capture
	$(PREFIX)/bin/cni-capture install --prefix $(PREFIX) --cni-bin $(CNI_BIN)

uninstall:
	$(PREFIX)/bin/cni-capture uninstall --prefix $(PREFIX) --cni-bin $(CNI_BIN)
	rm -rf $(PREFIX)/venv $(PREFIX)/bin
	-rmdir $(PREFIX)

clean:
	rm -rf $(VENV) .cache build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
