# Two commands matter: `make demo` and `make test`. Both build .venv once and are quick the second time.

# The system's python3 first: an interpreter below a closed home folder cannot be run by other users.
PYTHON ?= $(shell for p in /usr/bin/python3 python3; do $$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
BENCHMARKS := graphs.py monitors.py archives.py sizes.py clusters.py ranks.py queues.py packs.py engines.py starts.py runs.py serving.py on_slurm.py

.PHONY: help demo test test-all coverage lint docs bench bench-quick reproduce soak slurm clean

help:
	@echo "make demo       see Tonnage work on this machine"
	@echo "make test       run the tests, in minutes"
	@echo "make test-all   run what make test leaves out: clusters, browsers, long forms, documentation, benchmarks"
	@echo "make coverage   run the tests of make test, and print how much of the code they run"
	@echo "make lint       ruff and mypy"
	@echo "make docs       build the documentation into docs/_build/html"
	@echo "make bench      print speeds as ratios against named peers"
	@echo "make reproduce  print published figures next to ours"
	@echo "make soak       look for trouble for an hour: random workflows, damaged files"
	@echo "make slurm      start a Slurm cluster of eight nodes on this machine to try runs on, until Ctrl-C"
	@echo "make clean      remove what make built"

# Installed in two steps, so that the demo does not wait for the test tools.
$(VENV)/installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or newer with venv and ensurepip is needed (Debian: apt-get install python3-venv)"; exit 2; }
	@echo "Setting up $(VENV) (once; about half a minute) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fast,parquet,postgres,report,serve]'
	@$(BIN)/python -m compileall -q src  # watch starts in 20 ms only where Python need not compile it
	@touch $@

$(VENV)/installed-%: $(VENV)/installed pyproject.toml
	@echo "Installing what '$*' needs (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group $*
	@touch $@

demo: $(VENV)/installed
	@$(BIN)/python examples/demo.py

test: $(VENV)/installed-test $(VENV)/installed-docs
	@tests/install-services
	@$(BIN)/python tests/suite.py

test-all: $(VENV)/installed-test $(VENV)/installed-docs $(VENV)/installed-bench
	@tests/install-services
	@$(BIN)/python tests/suite.py rest

coverage: $(VENV)/installed-test $(VENV)/installed-docs
	@tests/install-services
	@$(BIN)/python tests/suite.py coverage

lint: $(VENV)/installed-test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

docs: $(VENV)/installed-docs
	@$(BIN)/sphinx-build --fail-on-warning --quiet -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(VENV)/installed-test $(VENV)/installed-bench
	@for one in $(BENCHMARKS); do $(BIN)/python benchmarks/$$one || exit 1; done

bench-quick: $(VENV)/installed-test $(VENV)/installed-bench
	@printf '%s\n' $(BENCHMARKS) "reproduce ranking" | xargs -P 3 -I{} sh -c '$(BIN)/python benchmarks/{} --quick >/dev/null || exit 255'

reproduce: $(VENV)/installed
	@$(BIN)/python benchmarks/reproduce sizing
	@$(BIN)/python benchmarks/reproduce ranking
	@$(BIN)/python benchmarks/reproduce packing
	@$(BIN)/python benchmarks/reproduce running

soak: $(VENV)/installed-test
	@TONNAGE_HYPOTHESIS=soak TONNAGE_SOAK=1000 $(BIN)/python -m pytest -n auto -q tests/workflow tests/logs tests/archive tests/size tests/rank tests/watch/test_robust.py tests/run/test_chaos.py tests/serve/test_chaos.py tests/serve/test_interface.py tests/slurm tests/htcondor tests/test_units.py

# make slurm SLURM="--nodes 2 --accounting"
slurm: $(VENV)/installed
	@tests/install-services
	@$(BIN)/python -m tests.slurm.cluster $(SLURM)

clean:
	rm -rf $(VENV) docs/_build demo build dist
