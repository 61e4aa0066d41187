"""Tests of records of JSON as columns of features."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindcast.pipeline.decisions.batch import Reading
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.decisions.shapes import records
from hindcast.pipeline.decisions.shapes.dsjson import read_dsjson
from hindcast.pipeline.decisions.shapes.records import Sparse
from tests.pipeline.decisions.decision_cases import NESTED, long_table, nested_records

KEYS = st.sampled_from(["a", "b", "c.d", "c", "_hidden"])
PLAIN = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-2, 2) | st.sampled_from("xyz")
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
)


def one_after_another(objects):
    """Return the features of objects by name: {owner: value}, numbers and texts apart."""
    numbers, texts = {}, {}

    def flatten(owner, values, prefix):
        for key, value in values.items():
            name = prefix + key
            if key.startswith("_"):
                continue
            if isinstance(value, bool):
                if value:
                    numbers.setdefault(name, {})[owner] = 1.0
            elif isinstance(value, int | float):
                numbers.setdefault(name, {})[owner] = float(value)
            elif isinstance(value, str):
                texts.setdefault(name, {})[owner] = value
            elif isinstance(value, dict):
                flatten(owner, value, f"{name}.")
            elif isinstance(value, list):
                for place, item in enumerate(value):
                    if isinstance(item, dict):
                        flatten(owner, item, f"{name}.")
                    elif isinstance(item, str):
                        numbers.setdefault(f"{name}={item}", {})[owner] = 1.0
                    elif isinstance(item, int | float):
                        numbers.setdefault(f"{name}.{place}", {})[owner] = float(item)

    for owner, values in enumerate(objects):
        flatten(owner, values, "")
    return numbers, texts


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(objects=st.lists(st.dictionaries(KEYS, VALUES, max_size=4), min_size=1, max_size=12))
def test_objects_together_are_the_features_of_one_after_another(objects):
    """Names stand in the order of their first owners; of two values of a name the last counts."""
    sparse = Sparse()
    for owner, values in enumerate(objects):
        sparse.flatten(owner, [values])
        if owner % 5 == 4:
            sparse.settle()
    frame = sparse.frame(len(objects), 0.0)
    numbers, texts = one_after_another(objects)
    assert frame.columns == [*(n for n in numbers if n not in texts), *texts]
    for name in frame.columns:
        if name not in texts:
            right = [numbers[name].get(owner, 0.0) for owner in range(len(objects))]
            assert frame[name].to_list() == right
            continue
        both = texts[name] | {k: f"{v:g}" for k, v in numbers.get(name, {}).items()}
        assert frame[name].cast(pl.String).to_list() == [both.get(k) for k in range(len(objects))]


def test_an_integer_beyond_all_floats_is_infinite():
    sparse = Sparse()
    sparse.flatten(0, [{"x": 10**400}, {"x": -(10**400)}, {"x": 2**70}])
    assert np.array_equal(sparse.frame(3, 0.0)["x"], [np.inf, -np.inf, 2.0**70])


def line(event, **more):
    return json.dumps({
        "_label_cost": -1.0, "_label_probability": 0.5, "_labelIndex": 0, "EventId": event,
        "a": [1, 2], "p": [0.5, 0.5], "c": {"_multi": [{"i": {"x": 1.0}}, {"i": {"x": 2.0}}]},
    } | more)  # fmt: skip


def read(tmp_path, *lines):
    path = tmp_path / "log.dsjson"
    path.write_text("\n".join(lines))
    (batch,) = read_dsjson([path], "UTC", Reading())
    return batch


def test_ids_beyond_64_bits_stay_apart(tmp_path):
    ids = [10**25, 10**25 + 1]
    batch = read(tmp_path, *map(line, ids))
    assert batch.decisions["id"].to_list() == [str(i) for i in ids]


@pytest.mark.parametrize("multi", [[{"i": {"x": 1.0}}, 3], 3, {}])
def test_candidates_that_are_no_objects_are_a_reason_also_in_slots(tmp_path, multi):
    slots = line("s", c={"_multi": multi, "_slots": [{}]}, _outcomes=[{"_a": [0], "_p": [1.0]}])
    batch = read(tmp_path, line("one"), slots, line("two", c={"_multi": multi}), line("three"))
    assert [reason is None for reason in batch.decisions["reason"]] == [True, False, False, True]
    assert batch.lengths.tolist() == [2, 0, 0, 2]


def test_columns_do_not_depend_on_how_many_objects_are_held(tmp_path, monkeypatch):
    lines = [line(str(k), c={"_multi": [{f"f{k % 3}": k, "g": "x"}, {"g": k}]}) for k in range(9)]
    whole = read(tmp_path, *lines)
    monkeypatch.setattr(records, "_HELD", 1)
    single = read(tmp_path, *lines)
    assert single.features.columns == whole.features.columns
    assert single.features.cast({"g": pl.String}).equals(whole.features.cast({"g": pl.String}))


@pytest.mark.parametrize("value", [10**400, float("inf"), "much"], ids=["huge", "inf", "text"])
def test_a_number_that_is_none_in_a_nested_record_is_a_reason(value):
    records = nested_records(long_table())
    records[3]["arms"][1]["x"] = value
    log = read_log(records, NESTED)
    assert log.quarantine["id"].to_list() == ["d3"]
    assert "x is" in log.quarantine["reason"][0]


def test_records_are_the_same_whatever_the_order_of_their_keys():
    records = nested_records(long_table())
    again = [dict(reversed(record.items())) for record in records[:3]]
    huge = {**records[4], "trace": 10**30}
    log = read_log([*records[:4], huge, *records[5:], *again, dict(reversed(huge.items()))], NESTED)
    assert log.counts["repeated_decisions"] == 4
    assert log.counts["decisions"] == 12
