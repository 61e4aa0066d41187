# Needs Python 3.11 or newer and make; everything else is installed into .venv.
PYTHON ?= python3
DEMO ?= demo
GYMNASIUM := 1.4.0
BIN := .venv/bin
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal
NEWER := .venv/gymnasium-$(GYMNASIUM)
LIBRARIES := .venv/libraries
# Tests are imported by several processes and by every command, so compiled modules are kept.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-engines test-libraries check lint types kernels unit quick night gymnasium docs bench size \
  same-bytes clean release-check nightly newest pythons mutants

# What the demonstration needs, and what the tests need. Whichever is second adds to the first.
.venv/demo: .venv/made pyproject.toml constraints.txt
	@$(call install,train,400 MB)
	@touch $@

.venv/installed: .venv/made pyproject.toml constraints.txt
	@$(call install,dev,900 MB)
	@touch $@

.venv/made:
	@$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed"'
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet uv || echo "there is no uv here: pip takes minutes"
	@touch $@

# $(call install,EXTRA,SIZE) installs the checkout with an extra: by uv in seconds, else by pip in
# minutes. uv reads no configuration of pip, so folders of wheels are passed on to it. Without such
# folders, uv takes the build of PyTorch that suits the machine, from another index than the usual
# one; UV_TORCH_BACKEND=cpu takes the small one whatever the machine has.
define install
	echo "installing Hindcast [$(1)] into .venv; the first time, about $(2) are downloaded (more with CUDA)"; \
	links=$$($(BIN)/python -m pip config list | sed -n "s/\\\\n/,/g; s/.*\.find-links='\(.*\)'/\1/p" \
	  | tr ' ' , | sort -u | paste -s -d , -); \
	export UV_FIND_LINKS="$${UV_FIND_LINKS:-$$links}"; \
	by_uv() { $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt -e '.[$(1)]' "$$@"; }; \
	{ test -z "$$UV_FIND_LINKS" && by_uv --torch-backend "$${UV_TORCH_BACKEND:-auto}" 2>/dev/null; } \
	|| by_uv || { echo "uv could not install it; pip does, in some minutes"; \
	  $(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e '.[$(1)]' && \
	  { $(BIN)/python -m compileall -qq -j 0 .venv/lib || true; }; }
endef

demo: .venv/demo
	$(BIN)/hindcast run slots-demo-v1 --direct --workers 2 --out $(DEMO)

# What must hold before a change lands. Types are checked beside the tests.
test: lint
	$(MAKE) --jobs=2 types unit

# Ray is large, so its tests install it. One process: a cluster has four.
test-engines: .venv/ray
	$(BIN)/python -m pytest -q -n 0 -m ray tests/engines

.venv/ray: .venv/installed
	@$(call install,ray,70 MB)
	@touch $@

# Pages and tests of libraries that the other tests do without. They have a folder of their own, of
# 430 MB, which has none of the packages of .venv.
test-libraries: $(LIBRARIES)/installed
	PYTHONPATH=$(LIBRARIES) $(BIN)/python -m pytest -q -n 0 \
	  -k "torchrl or jax or tianshou or torchdata" tests/test_documentation.py tests/pipeline/dataset

$(LIBRARIES)/installed: .venv/installed tests/libraries.txt
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(LIBRARIES) \
	  -r tests/libraries.txt
	touch $@

# The same without the tests that are marked slow; for between two edits.
check: lint
	$(MAKE) --jobs=2 types quick

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# The package as a wheel has it, of links into the checkout.
types: .venv/installed
	@mkdir -p .venv/types/hindcast
	@ln -sfn ../../../hindcast.py .venv/types/hindcast/__init__.py
	@for each in pipeline policies flows py.typed; do \
	  ln -sfn ../../../$$each .venv/types/hindcast/$$each; done
	$(BIN)/mypy

kernels: .venv/installed
	$(BIN)/python -m tests.compile_kernels

unit: kernels
	$(PYTEST) -m "not ray and not nightly" tests

quick: .venv/installed
	$(PYTEST) -m "not slow and not ray and not nightly" tests

# All tests but those of Ray. One that takes more CPU seconds than a test without a mark may fails.
night: kernels
	$(PYTEST) -p tests.cpu_times --cpu-times out/cpu_times.tsv --cpu-limit .5 -m "not ray" tests

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
	$(BIN)/python -m sphinx -b html -W --keep-going -j 2 docs docs/_build/html

bench: .venv/installed
	$(BIN)/python -m tests.benchmarks

# Lines by room, and what the working tree adds and removes; `BASE=v0.2.0` compares with a tag.
BASE ?= main
size:
	$(PYTHON) -m tests.size $(BASE)

# What the working tree builds, trains and answers, byte by byte beside another commit.
same-bytes: .venv/installed
	rm -f out/base.json out/change.json
	-git worktree remove --force out/base 2>/dev/null
	git worktree add --force --detach out/base $(BASE)
	$(BIN)/python -m tests.same_bytes small out/base out/base.json
	$(BIN)/python -m tests.same_bytes small . out/change.json
	$(BIN)/python -m tests.same_bytes compare out/base.json out/change.json

# Small faults in the code, which the tests of `make test` must find.
mutants: kernels
	$(BIN)/python -m tests.mutants --commit HEAD --out out/mutants.json

clean:
	rm -rf .venv $(DEMO) docs/_build docs/generated

# Wheel and sdist in dist/, and what a release needs. `TAG=v0.3.0` checks them as that release's.
release-check:
	$(PYTHON) -m venv .venv-release
	.venv-release/bin/python -m pip install --quiet build==1.6.1
	.venv-release/bin/python -m tests.release --out dist --tag "$(TAG)"

# Everything, and what other people's machines have: the newest packages, and other Pythons.
nightly: lint
	$(MAKE) --jobs=2 types night
	$(MAKE) gymnasium docs test-engines test-libraries mutants
	$(MAKE) newest
	$(MAKE) pythons

# The newest version of every package that pyproject.toml admits, instead of constraints.txt.
newest:
	$(PYTHON) -m venv --clear .venv-newest
	.venv-newest/bin/python -m pip install --quiet uv
	.venv-newest/bin/uv pip install --quiet --python .venv-newest/bin/python -e '.[dev]'
	$(MAKE) quick BIN=.venv-newest/bin --assume-old=.venv/installed

# `make check` by every interpreter that is found, each in a clone of the last commit.
pythons:
	for python in python3.11 python3.12 python3.13 python3.14; do \
	  $$python --version || continue; rm -rf out/$$python; \
	  git clone --quiet . out/$$python && $(MAKE) -C out/$$python check PYTHON=$$python \
	    HINDCAST_TRACES="$${HINDCAST_TRACES:-$(abspath ../shared/traces)}" || exit 1; \
	done
