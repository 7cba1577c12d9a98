# Every target makes the virtual environment first, when it is missing or pyproject.toml has changed.
#
#   make demo      the main job on real data: three bookies, a kill -9, a takeover, a proof, a Spark query
#   make test      the test suite; first, once, the jars it needs   (TESTS="tests/unit -k name" narrows it)
#   make check     lint, types, unit tests and the rules of the layout: before each commit
#   make lint      ruff: rules and layout   make format   let ruff rewrite
#   make types     mypy --strict            make bench    the benchmarks, a table and a plot
#   make simulate  seeds of the whole cluster under faults            (SEEDS=1..1000)
#   make fuzz      everything that reads foreign bytes                (TARGET=frames SECONDS=600)
#   make nemesis   real processes under faults, seed after seed      (SECONDS=1800 METADATA=zookeeper)
#   make spark-versions  the core of the Spark tests with each PySpark   (VERSIONS="4.0 4.3")
#   make spark-kafka  what the Spark source has in common with Spark's Kafka source, on a Kafka broker
#   make evidence  what docs/reliability.md lacks on this code: seeds, crash images  (SEEDS=20000; MUTATIONS=1: planted bugs)
#
# PYTHON=python3.12 chooses the interpreter; ARGS="--no-spark" goes to the demonstration or the benchmarks.

SHELL := /bin/bash
# Tests start processes by the hundred: without bytecode in files, each would compile every module once more.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= $(firstword $(shell command -v python3.11 python3.12 python3.13 python3))
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CLASSES := $(VENV)/spark-classes.jsa
TESTS ?=
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(os.cpu_count() + 1)') # many tests wait for other processes
CHECKED := tests/unit $(wildcard tests/test_*.py)
ARGS ?=
SEEDS ?= 1..300
TARGET ?=
SECONDS ?= 60
METADATA ?= sqlite
VERSIONS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test check lint format types simulate fuzz nemesis spark-versions spark-kafka evidence bench clean venv

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | sed -n '3,13p'

$(READY): pyproject.toml tools/make-venv
	@tools/make-venv "$(PYTHON)" $(VENV)
	@touch $@

venv: $(READY)

demo: $(READY)
	@echo "make demo: the main job end to end on a temporary cluster ($(strip dlog demo $(ARGS)))"
	@$(BIN)/dlog demo $(ARGS)

$(CLASSES): $(READY)
	@echo "make test: an archive of Spark's classes, so that its JVMs start quickly (python -m tests.helpers.spark_classes)"
	@$(BIN)/python -m tests.helpers.spark_classes $@

test: $(READY) $(if $(strip $(TESTS)),,$(CLASSES))
	@$(if $(strip $(TESTS)),,tools/fetch-java-libs --if-possible)
	@echo "make test: the whole suite, real bookie processes included (pytest $(TESTS))"
	@PYSPARK_PYTHON="$(CURDIR)/$(BIN)/python" $(BIN)/python -m pytest -n $(WORKERS) \
		--dist loadfile --no-loadscope-reorder $(TESTS)

check: lint types
	@echo "make check: unit tests, layout, documents (pytest $(CHECKED))"
	@$(BIN)/python -m pytest -q -n auto --dist loadfile $(CHECKED)

lint: $(READY)
	@echo "make lint: ruff, rules and layout"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

format: $(READY)
	@echo "make format: ruff rewrites imports and layout"
	@$(BIN)/ruff check --fix --select I .
	@$(BIN)/ruff format .

types: $(READY)
	@echo "make types: mypy --strict over every package"
	@$(BIN)/mypy

simulate: $(READY)
	@echo "make simulate: one simulated cluster per seed (python -m dlog.testing --seeds $(SEEDS) -j 2 $(ARGS))"
	@$(BIN)/python -m dlog.testing --seeds $(SEEDS) -j 2 $(ARGS)

fuzz: $(READY)
	@echo "make fuzz: $(if $(TARGET),$(TARGET),all targets), $(SECONDS) s (python -m tests.helpers.fuzz --list names them)"
	@$(BIN)/python -c 'import atheris' 2>/dev/null \
		|| $(BIN)/python -m pip install --quiet --config-settings editable_mode=compat --editable '.[fuzz]' \
		|| echo "make fuzz: atheris has no wheel for this Python; inputs are mutated without coverage"
	@$(BIN)/python -m tests.helpers.fuzz --target "$(TARGET)" --seconds $(SECONDS) $(ARGS)

nemesis: $(READY)
	@$(if $(filter zookeeper,$(METADATA)),tools/fetch-java-libs)
	@echo "make nemesis: $(SECONDS) s of faults of real processes on $(METADATA) (python -m tests.helpers.nemesis $(ARGS))"
	@$(BIN)/python -m tests.helpers.nemesis --seconds $(SECONDS) --metadata $(METADATA) $(ARGS)

spark-versions:
	@tools/spark-versions "$(PYTHON)" $(VERSIONS)

spark-kafka: $(READY)
	@tools/fetch-java-libs --kafka
	@echo "make spark-kafka: both sources in one session, the same messages (pytest tests/spark/test_kafka_parity.py $(ARGS))"
	@PYSPARK_PYTHON="$(CURDIR)/$(BIN)/python" $(BIN)/python -m pytest -q tests/spark/test_kafka_parity.py $(ARGS)

evidence: SEEDS = 1..20000
evidence: $(READY)
	@echo "make evidence: writes docs/reliability.md (python -m tests.helpers.evidence --tables --seeds $(SEEDS) $(ARGS))"
	@if [ -n "$(MUTATIONS)" ]; then $(BIN)/python -m tests.helpers.mutations --whole -j 2 || true; fi
	@$(BIN)/python -m tests.helpers.evidence --tables --seeds $(SEEDS) -j 2 $(ARGS)

bench: $(READY)
	@echo "make bench: each question as a ratio to a floor measured in the same run ($(strip python -m benchmarks $(ARGS)))"
	@$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .fuzz .mutants
