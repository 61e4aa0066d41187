"""Tests that compiled functions are kept on disk and that a kept function never stops a program."""

import importlib.util
import os
import subprocess
import sys
from typing import NamedTuple

import numba
import pytest
from numba import types

from hindcast.pipeline.simulation.kernel import INTS, ROWS, Ints, Rows, signature_of

MODULE = """
from typing import NamedTuple

from hindcast.pipeline.simulation.kernel import compiled


class NAME(NamedTuple):
    count: int
    share: float


@compiled()
def product(group: NAME) -> float:
    return group.count * group.share


print(product(NAME(2, 1.5)), sum(product.stats.cache_hits.values()))
"""


def run(folder, module):
    """Return what a module of the folder prints, whose compiled functions are kept there."""
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "NUMBA_CACHE_DIR": str(folder / "kept")}
    command = [sys.executable, "-c", f"import {module}"]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout.split()


@pytest.mark.nightly
def test_a_named_tuple_is_kept_and_one_that_was_renamed_is_compiled_again(tmp_path):
    """What is printed is a product, and whether the compiled function came from disk."""
    found = []
    for name in ("Pair", "Pair", "Couple", "Couple"):
        (tmp_path / "grouped.py").write_text(MODULE.replace("NAME", name))
        found.append(run(tmp_path, "grouped"))
    assert found == [["3.0", "0"], ["3.0", "1"], ["3.0", "0"], ["3.0", "1"]]


class Mixed(NamedTuple):
    count: int
    rows: Rows


class Inner(NamedTuple):
    first: Mixed
    second: Mixed


def annotated(chosen: bool, group: Inner, ints: Ints) -> float:
    raise NotImplementedError


def test_annotations_state_the_signature():
    mixed = types.NamedTuple([types.int64, ROWS], Mixed)
    expected = types.float64(types.boolean, types.NamedUniTuple(mixed, 2, Inner), INTS)
    assert signature_of(annotated) == expected


TOLD = """
from numba import types

from hindcast.pipeline.notes import telling
from hindcast.pipeline.simulation import kernel

kernel._SAID.clear()
lines = []


def half(x):
    return x / 2.0


def twice(x):
    return 2.0 * x


def third(x):
    return x / 3.0


kernel.compiled(types.float64(types.float64))(third)  # nobody reads lines
with telling(lines.append):
    for function in (half, twice):
        kernel.compiled(types.float64(types.float64))(function)
print(len(lines), *lines)
"""


@pytest.mark.slow
def test_a_line_says_that_simulators_are_compiled_once(tmp_path):
    (tmp_path / "told.py").write_text(TOLD)
    said = [run(tmp_path, "told") for _ in range(2)]
    assert said[0][:3] == ["1", "compiling", "simulators"]
    assert said[1] == ["0"]


def test_each_closure_has_a_cache_of_its_own(tmp_path, monkeypatch):
    """Numba gives all closures of a function one index, which two processes can confuse."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kept"))
    path = tmp_path / "rules.py"
    path.write_text(
        "from hindcast.pipeline.simulation.kernel import INTS, compiled\n"
        "from numba import types\n\n"
        "def adding(value):\n"
        "    @compiled(types.int64(types.int64))\n"
        "    def add(x):\n"
        "        return x + value\n"
        "    return add\n"
    )
    spec = importlib.util.spec_from_file_location("rules", path)
    rules = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rules)
    assert [rules.adding(value)(1) for value in (1, 2)] == [2, 3]
    indices = sorted(file.name.split("-")[0] for file in tmp_path.rglob("*.nbi"))
    assert indices == ["rules.adding.locals.add_1", "rules.adding.locals.add_2"]


SORTING = r"""
import re

import numpy as np
from hindcast.pipeline.simulation.kernel import INTS, compiled
from numba import types


@compiled(types.int64(INTS), cache=False)
def smallest(x):
    return np.sort(x)[0] + np.argsort(x)[0]


text = next(iter(smallest.inspect_llvm().values()))
print(*{name for name in re.findall(r'@"?([\w.]+)', text) if "quicksort" in name})
"""


@pytest.mark.nightly
def test_two_processes_give_their_copies_of_a_function_of_numba_different_names(tmp_path):
    """Files of two processes could else be loaded with one name for its sort and its argsort."""
    (tmp_path / "sorting.py").write_text(SORTING)
    first, second = (set(run(tmp_path, "sorting")) for _ in range(2))
    assert first
    assert second
    assert not first & second


INNER = """
from numba import types

from hindcast.pipeline.simulation.kernel import compiled

RATE = {rate}


@compiled(types.{kind}(types.float64), forceinline=True)
def grown(x):
    return x + {step}
"""

OUTER = """
from numba import types

import inner
from inner import RATE, grown
from hindcast.pipeline.simulation.kernel import compiled


@compiled(types.float64(types.float64))
def value(x):
    return RATE * grown(x) + inner.RATE


print(value(0.0), sum(value.stats.cache_hits.values()))
"""


@pytest.mark.nightly
def test_a_function_is_compiled_again_if_what_it_uses_has_changed_in_another_file(tmp_path):
    (tmp_path / "outer.py").write_text(OUTER)
    found = []
    for rate, step, kind in (
        (2.0, 1.0, "float64"), (2.0, 1.0, "float64"), (2.0, 3.5, "float64"), (5.0, 3.5, "float64"),
        (5.0, 3.5, "int64"), (5.0, 3.5, "int64"),
    ):  # fmt: skip
        (tmp_path / "inner.py").write_text(INNER.format(rate=rate, step=step, kind=kind))
        found.append(run(tmp_path, "outer"))
    assert found == [
        ["4.0", "0"], ["4.0", "1"], ["9.0", "0"], ["22.5", "0"], ["20.0", "0"], ["20.0", "1"],
    ]  # fmt: skip
    assert len(list((tmp_path / "kept").rglob("outer.value-*.nbi"))) == 1
