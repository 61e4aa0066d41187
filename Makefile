# Needs Python 3.11 or newer and make; everything else is installed into .venv.
PYTHON ?= python3
DEMO ?= demo
BIN := .venv/bin

.PHONY: demo test lint types unit bench clean

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed"'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

demo: .venv/installed
	$(BIN)/hindcast run binpack-synthetic-v1 --workers 2 --out $(DEMO)

test: lint types unit

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed
	$(BIN)/mypy

unit: .venv/installed
	$(BIN)/python -m pytest -q -n 2 --dist worksteal tests

bench: .venv/installed
	$(BIN)/python -m tests.benchmarks

clean:
	rm -rf .venv $(DEMO)
