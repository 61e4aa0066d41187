"""Tests of shuffled minibatches: each decision once per pass, in an order set by the seed."""

import shutil
from itertools import islice

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.errors import DatasetError, InputError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.policies.registry import behaviours

SMALL = 100_000  # bytes: a few row groups of the cut dataset


def keys(batches):
    """Return (episode, step) of every decision in the order of the minibatches."""
    found = []
    for batch in batches:
        of = batch.episodes["episode"].to_numpy()[batch.episode]
        found += list(zip(of.tolist(), batch.step.tolist(), strict=True))
    return found


def expected(dataset, split="train"):
    return [
        (row["episode"], step)
        for row in dataset.episodes(split).iter_rows(named=True)
        for step in range(row["steps"])
    ]


@pytest.mark.slow
@pytest.mark.parametrize("buffer", [1, SMALL, 1 << 30])
@pytest.mark.parametrize("transitions", [True, False])
def test_a_pass_has_every_decision_once(cut_dataset, buffer, transitions):
    dataset = ds.open(cut_dataset)
    found = keys(
        dataset.batches(64, np.random.default_rng(1), k=6, buffer=buffer, transitions=transitions)
    )
    assert found != expected(dataset)
    assert sorted(found) == expected(dataset)


@pytest.mark.slow
def test_only_the_last_minibatch_is_smaller(cut_dataset):
    dataset = ds.open(cut_dataset)
    sizes = [len(b) for b in dataset.batches(100, np.random.default_rng(1), k=2, buffer=SMALL)]
    assert set(sizes[:-1]) == {100}
    assert sizes[-1] == len(expected(dataset)) % 100


@pytest.mark.slow
def test_the_order_depends_on_the_seed_alone(cut_dataset):
    """The order is the same for any number of readers and differs between seeds; candidates too."""
    dataset = ds.open(cut_dataset)

    def run(seed, readers):
        return list(
            dataset.batches(50, np.random.default_rng(seed), k=3, buffer=SMALL, readers=readers)
        )

    one, many, other = run(5, 1), run(5, 4), run(6, 1)
    assert keys(one) == keys(many) != keys(other)
    for a, b in zip(one, many, strict=True):
        np.testing.assert_array_equal(a.candidates, b.candidates)
        np.testing.assert_array_equal(a.next_candidates, b.next_candidates)


@pytest.mark.slow
def test_what_is_drawn_from_the_generator_meanwhile_changes_nothing(cut_dataset):
    dataset = ds.open(cut_dataset)
    rng = np.random.default_rng(3)
    meddled = []
    for batch in dataset.batches(50, rng, k=3, buffer=SMALL):
        rng.random(7)
        meddled.append(batch)
    assert keys(meddled) == keys(dataset.batches(50, np.random.default_rng(3), k=3, buffer=SMALL))


@pytest.mark.slow
def test_repeating_begins_another_order(cut_dataset):
    dataset = ds.open(cut_dataset)
    one_pass = expected(dataset)
    batches = -(-len(one_pass) // 64)
    found = keys(
        islice(dataset.batches(64, np.random.default_rng(1), k=2, repeat=True), 2 * batches)
    )
    first, second = found[: len(one_pass)], found[len(one_pass) :]
    assert sorted(first) == sorted(second) == one_pass
    assert first != second


@pytest.mark.slow
def test_minibatches_are_rows_of_the_dataset(cut_dataset):
    """Values, masks and next observations match the files, also across the ends of row groups."""
    dataset = ds.open(cut_dataset)
    rows = pl.read_parquet(cut_dataset / "data" / "*.parquet").sort("episode", "step")
    index = {key: i for i, key in enumerate(rows.select("episode", "step").rows())}
    table = rows.to_dicts()
    for batch in dataset.batches(64, np.random.default_rng(2), buffer=SMALL):
        for i, key in enumerate(keys([batch])):
            row, after = table[index[key]], table[index[key] + 1]
            n, m = len(row["candidates"]), len(after["candidates"])
            assert batch.context[i].tolist() == list(row["context"].values())
            assert batch.candidates[i, :n].tolist() == [list(c.values()) for c in row["candidates"]]
            assert not batch.candidates[i, n:].any()
            assert batch.mask[i].tolist() == [
                *row["feasible"],
                *[False] * (batch.mask.shape[1] - n),
            ]
            assert (batch.choice[i], batch.drawn[i]) == (row["choice"], sum(row["feasible"]))
            assert batch.propensity[i] == np.float32(row["propensity"])
            assert (batch.reward[i], batch.elapsed_s[i]) == (row["reward"], row["elapsed_s"])
            assert batch.next_context[i].tolist() == list(after["context"].values())
            assert batch.next_candidates[i, :m].tolist() == [
                list(c.values()) for c in after["candidates"]
            ]
            assert batch.next_mask[i].sum() == (0 if row["terminated"] else sum(after["feasible"]))
        assert batch.mask.shape == batch.next_mask.shape


@pytest.mark.slow
def test_a_split_that_fits_is_shuffled_uniformly(cut_dataset):
    """The position of a decision in a pass does not depend on its position in the files."""
    dataset = ds.open(cut_dataset)
    place = {key: i for i, key in enumerate(expected(dataset))}
    n = len(place)
    correlation = [
        np.corrcoef(
            np.arange(n),
            [place[k] for k in keys(dataset.batches(256, np.random.default_rng(s), k=1))],
        )[0, 1]
        for s in range(3)
    ]
    assert np.abs(correlation).max() < 4 / np.sqrt(n)


@pytest.mark.slow
def test_a_larger_split_is_mixed_by_row_groups(cut_dataset):
    """A minibatch has episodes from many places even where the buffer holds few row groups."""
    dataset = ds.open(cut_dataset)
    batches = list(dataset.batches(64, np.random.default_rng(0), k=1, buffer=SMALL))
    mixed = np.mean([len(np.unique(batch.episode)) for batch in batches[:-1]])
    in_order = np.mean(
        [len({e for e, _ in chunk}) for chunk in np.array_split(expected(dataset), len(batches))]
    )
    assert mixed > 3 * in_order


@pytest.mark.slow
def test_other_splits_stay_out(cut_dataset):
    dataset = ds.open(cut_dataset)
    found = keys(dataset.batches(64, np.random.default_rng(0), split="validation", k=2))
    assert sorted(found) == expected(dataset, "validation")


@pytest.mark.slow
def test_images_and_values_come_with_it(tmp_path):
    """Minibatches have the images and values of a decision, and those of the next row."""
    recipe = load_recipe(
        "slots-deeprm-v1",
        (
            'config.observation="image"',
            'split.train="0..1"',
            'split.validation="2..2"',
            'split.test="3..3"',
        ),
    )
    build(recipe, behaviours(recipe), tmp_path / "d")
    dataset = ds.open(tmp_path / "d")
    block = next(dataset.blocks(0))
    place = {k: i for i, k in enumerate(zip(block.episode, block.step, strict=True))}
    batch = next(dataset.batches(32, np.random.default_rng(0), images=True))
    for i, key in enumerate(keys([batch])):
        if key in place:
            np.testing.assert_array_equal(batch.image[i], block.image[place[key]])
            np.testing.assert_array_equal(batch.next_image[i], block.image[place[key] + 1])
    without = next(dataset.batches(32, np.random.default_rng(0)))
    assert without.image is None
    np.testing.assert_array_equal(without.candidates, batch.candidates)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 0}, "size is 0"),
        ({"k": 0}, "k is 0"),
        ({"readers": 0}, "readers is 0"),
        ({"buffer": 0}, "buffer is 0"),
    ],
)
def test_settings_that_cannot_be_are_refused_at_once(tiny_dataset, settings, message):
    given = {"size": 4, "rng": np.random.default_rng(0), **settings}
    with pytest.raises(InputError, match=message):
        ds.open(tiny_dataset).batches(**given)


def test_an_unknown_split_is_refused_at_once(tiny_dataset):
    with pytest.raises(DatasetError, match="split 'tests' has no episodes; known: train, valid"):
        ds.open(tiny_dataset).batches(4, np.random.default_rng(0), split="tests")


def test_a_damaged_part_is_named(cut_dataset, tmp_path):
    """The error names the damaged part, whichever reader meets it."""
    shutil.copytree(cut_dataset, tmp_path / "copy")
    path = tmp_path / "copy" / "data" / "part-00000.parquet"
    path.write_bytes(path.read_bytes()[:-9] + b"\0" * 9)
    with pytest.raises(DatasetError, match=r"part-00000\.parquet"):
        list(ds.open(tmp_path / "copy").batches(64, np.random.default_rng(0), k=2))


@pytest.mark.slow
@pytest.mark.parametrize("what", ["fewer", "more"])
def test_parts_that_hold_other_episodes_are_told(cut_dataset, tmp_path, what):
    """More or fewer decisions than in the table of episodes are an error, not another pass."""
    shutil.copytree(cut_dataset, tmp_path / "copy")
    path = tmp_path / "copy" / "data" / "part-00000.parquet"
    table = pq.read_table(path)
    size = table["episode"].to_pylist().count(table["episode"][0].as_py())
    changed = [table.slice(size)] if what == "fewer" else [table.slice(0, size), table]
    pq.write_table(pa.concat_tables(changed), path, row_group_size=97)
    with pytest.raises(DatasetError, match=f"{what} decisions of the split"):
        list(ds.open(tmp_path / "copy").batches(64, np.random.default_rng(0), k=2))


@pytest.mark.slow
def test_a_pass_can_be_left(cut_dataset):
    """The readers end when the iterator is closed."""
    batches = ds.open(cut_dataset).batches(8, np.random.default_rng(0), k=2, buffer=1)
    next(batches)
    batches.close()
    with pytest.raises(StopIteration):
        next(batches)


ADDED = (
    "return_to_go", "discounted_return", "behaviour_probabilities", "truncated", "time_s",
    "reward_terms",
)  # fmt: skip


def by_key(batches, *names):
    """Return the values of these columns by (episode, step)."""
    found = {}
    for batch in batches:
        values = zip(*(getattr(batch, name) for name in names), strict=True)
        found |= dict(zip(keys([batch]), values, strict=True))
    return found


@pytest.mark.slow
def test_columns_on_request_are_those_of_the_episodes(cut_dataset):
    """Sums of rewards go on across the ends of row groups."""
    dataset = ds.open(cut_dataset)
    found = by_key(
        dataset.batches(
            64, np.random.default_rng(2), split="validation", buffer=1, columns=ADDED, discount=0.9
        ),
        *ADDED,
    )
    assert sorted(found) == expected(dataset, "validation")
    for episode in dataset.iter_episodes("validation"):
        to_go = discounted = 0.0
        for step in reversed(range(len(episode))):
            reward = episode.reward[step]
            to_go, discounted = reward + to_go, reward + 0.9 * discounted
            of = found[episode.about["episode"], step]
            assert of[:2] == (pytest.approx(to_go), pytest.approx(discounted))
            cells = slice(*episode.offsets[step : step + 2])
            n = cells.stop - cells.start
            np.testing.assert_allclose(of[2][:n], episode.probabilities[cells], rtol=1e-6)
            assert not of[2][n:].any()
            assert of[3:5] == (episode.truncated[step], episode.time_s[step])
            np.testing.assert_array_equal(of[5], episode.terms[step])


@pytest.mark.slow
def test_columns_on_request_are_the_same_for_any_number_of_readers(cut_dataset):
    """They change neither the order nor the other columns."""
    dataset = ds.open(cut_dataset)

    def run(readers, columns=ADDED):
        rng = np.random.default_rng(5)
        return list(
            dataset.batches(
                50, rng, split="validation", k=3, buffer=1, readers=readers, columns=columns
            )
        )

    plain = run(1, ())
    for one, many, without in zip(run(1), run(4), plain, strict=True):
        for name in ADDED:
            assert getattr(one, name).tobytes() == getattr(many, name).tobytes()
            assert getattr(without, name) is None
        sums = one.behaviour_probabilities.sum(axis=1)
        np.testing.assert_allclose(sums, 1.0, rtol=1e-5)
        assert not one.behaviour_probabilities[~one.mask].any()
    assert plain[0].return_to_go is None


@pytest.mark.slow
def test_a_discount_per_second_counts_simulated_time(cut_dataset):
    dataset = ds.open(cut_dataset)
    names = ("discounted_return", "time_s", "reward")
    found = by_key(
        dataset.batches(
            99, np.random.default_rng(0), split="validation", columns=names, discount=0.99,
            per_second=True,
        ),
        *names,
    )  # fmt: skip
    for episode in dataset.iter_episodes("validation"):
        weights = 0.99 ** (episode.time_s[:-1] - episode.time_s[0])
        first = found[episode.about["episode"], 0]
        assert first[0] == pytest.approx(weights @ episode.reward)


def test_the_discount_is_the_spec_s_by_default(tiny_dataset):
    dataset = ds.open(tiny_dataset)
    assert dataset.spec.discount == 1.0
    columns = ["discounted_return", "return_to_go", "terminated"]
    batch = next(dataset.batches(50, np.random.default_rng(0), columns=columns))
    np.testing.assert_array_equal(batch.discounted_return, batch.return_to_go)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": ["returns_to_go"]}, "column 'returns_to_go'; did you mean 'return_to_go'"),
        ({"columns": ["behaviour_probability"]}, "did you mean 'behaviour_probabilities'"),
        ({"columns": ["truncate"]}, "did you mean 'truncated'"),
        ({"columns": "truncated"}, r"expected a list of names: \['truncated'\]"),
        ({"columns": ["value"]}, "unknown column 'value'"),
        ({"discount": 0.9}, 'add "discounted_return" to columns'),
        ({"columns": ["discounted_return"], "discount": 1.1}, "discount is 1.1, expected 0 to 1"),
    ],
)  # fmt: skip
def test_columns_that_do_not_exist_are_refused_at_once(tiny_dataset, arguments, message):
    with pytest.raises(InputError, match=message):
        ds.open(tiny_dataset).batches(10, np.random.default_rng(0), **arguments)
