# Needs Python 3.11 or newer and make; everything else is installed into .venv.
PYTHON ?= python3
DEMO ?= demo
GYMNASIUM := 1.4.0
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest -q -n 2 --dist worksteal
NEWER := .venv/gymnasium-$(GYMNASIUM)

.PHONY: demo test test-engines check lint types kernels unit quick gymnasium docs bench clean

# Files are compiled by all processors; pip would compile one after the other.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed"'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e '.[dev]'
	$(BIN)/python -m compileall -qq -j 0 .venv/lib || true
	touch $@

demo: .venv/installed
	$(BIN)/hindcast run slots-demo-v1 --direct --workers 2 --out $(DEMO)

# All that must hold. Types are checked while kernels are compiled.
test: lint
	$(MAKE) --jobs=2 types kernels
	$(MAKE) unit
	$(MAKE) gymnasium
	$(MAKE) docs

# Ray is large, so its tests install it. One process: a cluster has four.
test-engines: .venv/ray
	$(BIN)/python -m pytest -q -n 0 -m ray tests/engines

.venv/ray: .venv/installed
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e '.[ray]'
	touch $@

# The same but for tests that are marked slow; for between two edits.
check: lint
	$(MAKE) --jobs=2 types quick

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed
	$(BIN)/mypy

kernels: .venv/installed
	$(BIN)/python -m tests.compile_kernels

unit: .venv/installed
	$(PYTEST) -m "not ray" tests

quick: .venv/installed
	$(PYTEST) -m "not slow and not ray" tests

# d3rlpy asks for Gymnasium 1.0.0. These tests run with a newer one, which has a folder of its own
# that comes before the packages of .venv.
gymnasium: $(NEWER)/installed
	PYTHONPATH=$(NEWER) $(BIN)/python -c \
	  'import gymnasium, d3rlpy; assert gymnasium.__version__ == "$(GYMNASIUM)"'
	PYTHONPATH=$(NEWER) $(PYTEST) tests/pipeline/gymnasium_env

$(NEWER)/installed: .venv/installed
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(NEWER) \
	  gymnasium==$(GYMNASIUM)
	touch $@

# Warnings are errors; needs no network. The start page is docs/_build/html/index.html.
docs: .venv/installed
	$(BIN)/python -m sphinx -b html -W --keep-going -q docs docs/_build/html

bench: .venv/installed
	$(BIN)/python -m tests.benchmarks

clean:
	rm -rf .venv $(DEMO) docs/_build docs/generated
