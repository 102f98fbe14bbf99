# Every target does its own set-up: Python 3.11 with pip, git and make are all it takes.
PYTHON ?= $(shell command -v python3.11 || echo python3)
BIN := .venv/bin
STAMP := .venv/.installed
SEEDS ?= 2000
KILLS ?= 200
MINUTES ?= 20
SEED ?=
PYTEST_ARGS ?=
BENCH_ARGS ?=
JOBS ?= 3
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist worksteal
QUIET := --quiet --disable-pip-version-check --root-user-action=ignore
COMPILE := $(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-header --no-config

# A machine that forbids Python its caches compiles all of Wakeful in each process, and all tests in each run.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo test browser screenshots check lint up down clean bench bench-peers simulate chaos chaos-slice chaos-tests lock

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-11s %s\n", $$1, $$2}' Makefile

install: $(STAMP)  ## create .venv with everything, from hash-locked requirements

$(STAMP): requirements/dev.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "wakeful needs python 3.11 or newer: set PYTHON=")'
	test -x $(BIN)/python || $(PYTHON) -m venv --without-pip .venv
	$(PYTHON) -m pip --python $(BIN)/python install $(QUIET) --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install $(QUIET) --no-deps --no-build-isolation -e .
	touch $(STAMP)

demo: install  ## run the refund desk over customers' messages, with three kills in the middle
	$(BIN)/wakeful demo

test: install  ## run all tests on a local stack of their own
	$(PYTEST) $(PYTEST_ARGS)

browser: install  ## try the console in the machine's own Chromium: the long form
	WAKEFUL_BROWSER=whole $(BIN)/python -m pytest -q tests/browser

screenshots: install  ## draw each page of the console into docs/screenshots
	WAKEFUL_BROWSER=whole WAKEFUL_SCREENSHOTS=docs/screenshots $(BIN)/python -m pytest -q tests/browser/test_screenshots.py

check: lint  ## lint and the pure tests
	$(PYTEST) -q -m "not kafka and not postgres and not slow"

lint: install  ## style, types, import contracts and the schema gate
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m wakeful.schemas.gate

up: install  ## start the local stack: Kafka, Postgres and Valkey
	$(BIN)/wakeful up

down: install  ## stop the local stack, keep its data
	$(BIN)/wakeful down

bench: install  ## measure durable turns: one JSON line per measure, and a table; BENCH_ARGS=--quick
	$(BIN)/python -m bench $(BENCH_ARGS)

bench-peers: install  ## measure the same beside Restate and DBOS, in rounds; BENCH_ARGS=--quick
	$(BIN)/python -m bench.peers $(BENCH_ARGS)

simulate: install  ## run the simulator: SEEDS=2000 schedules
	$(BIN)/python -m wakeful.deploy.simulation --seeds $(SEEDS)

chaos: install  ## inflict faults by seed on a cluster of its own under load, and write docs/chaos.md: MINUTES=20 SEED=…
	$(BIN)/python -m tests.chaos --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) --write docs/chaos.md

chaos-slice: install  ## the same for half a minute, with a fixed seed and the short faults
	$(BIN)/python -m tests.chaos --minutes 0.5 --seed 1 --short

chaos-tests: install  ## the tests of kills and outages in their long form, and 10,000 parked sessions: KILLS=200 SEED=…
	WAKEFUL_CHAOS_KILLS=$(KILLS) WAKEFUL_CHAOS_SEED=$(SEED) $(BIN)/python -m pytest -q tests/chaos tests/processors/test_memory.py
	WAKEFUL_ROLLING_SESSIONS=200 $(BIN)/python -m pytest -q tests/deploy/test_rolling_live.py
	WAKEFUL_CANCELLED_SESSIONS=5000 $(BIN)/python -m pytest -q tests/deploy/test_saga_live.py

clean:  ## stop what runs here, then remove .venv, state and caches
	if [ -x $(BIN)/wakeful ] && [ -d "$${WAKEFUL_HOME:-.wakeful}" ]; then $(BIN)/wakeful reset --yes; fi
	rm -rf "$${WAKEFUL_HOME:-.wakeful}/peers"
	rm -rf .venv .wakeful build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf src/*.egg-info

lock: install  ## refresh the hash-locked requirement files
	$(COMPILE) --upgrade -o requirements/dev.txt --all-extras pyproject.toml
	$(COMPILE) -c requirements/dev.txt -o requirements/service.txt --extra service pyproject.toml
	$(COMPILE) -c requirements/dev.txt -o requirements/base.txt pyproject.toml
	$(BIN)/python -m wakeful.deploy.stack.kafka_jars
