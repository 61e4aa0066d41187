"""Tests of minibatches for PyTorch: each decision once for any workers and shards, and resuming."""

import copy
import pickle
import subprocess
import sys
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset import torch_batches
from hindcast.pipeline.decisions.conversion import convert
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.errors import DatasetError, InputError
from tests.pipeline.decisions.decision_cases import ROWS, long_table
from tests.sample_datasets import KINDS

SMALL = 60_000  # bytes: a few row groups of the cut dataset
SPLIT = "validation"  # the smaller one
LIMIT = 200  # seconds that a worker may take for a minibatch
pytestmark = pytest.mark.filterwarnings(
    "ignore:This DataLoader will create", "ignore:.*multi-threaded, use of fork"
)


def keys(batches):
    """Return (episode, step) of every decision by minibatch."""
    return [list(zip(b["episode"].tolist(), b["step"].tolist(), strict=True)) for b in batches]


def flat(batches):
    return [key for batch in keys(batches) for key in batch]


def expected(dataset, split=SPLIT):
    return [
        (row["episode"], step)
        for row in dataset.episodes(split).iter_rows(named=True)
        for step in range(row["steps"])
    ]


def load(data, workers, method=None, **options):
    """Yield minibatches of a DataLoader, which fails if a worker gives none within the limit."""
    method = method or ("fork" if workers else None)
    yield from DataLoader(
        data, batch_size=None, num_workers=workers, multiprocessing_context=method,
        timeout=LIMIT if workers else 0, **options,
    )  # fmt: skip


def minibatches(dataset, size, **options):
    return dataset.torch(size, **{"split": SPLIT, **options})


@pytest.fixture
def dataset(cut_dataset):
    return ds.open(cut_dataset)


@pytest.fixture
def of_worker(monkeypatch):
    """Return a function that lists the minibatches of one of several workers, in this process."""

    def run(data, worker, workers, seed=1000):
        info = SimpleNamespace(id=worker, num_workers=workers, seed=seed + worker)
        with monkeypatch.context() as patch:
            patch.setattr(torch_batches, "get_worker_info", lambda: info)
            return list(copy.copy(data))

    return run


@pytest.mark.parametrize(
    ("shards", "workers"), [(1, 1), (1, 4), (2, 3), pytest.param(5, 2, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("buffer", [1, SMALL])
def test_each_decision_is_in_one_minibatch_of_one_worker(
    shards, workers, buffer, dataset, of_worker
):
    found, count = [], 0
    for shard in range(shards):
        data = minibatches(dataset, 64, shard=(shard, shards), buffer=buffer, k=4)
        given = [of_worker(data, worker, workers) for worker in range(workers)]
        assert sum(map(len, given)) == len(data)
        found += [key for batches in given for key in flat(batches)]
        count += len(data)
    assert found != sorted(found)
    assert sorted(found) == expected(dataset)
    assert count == -(-len(found) // 64)


FORKED = """
import sys
import numpy as np
from torch.utils.data import DataLoader
from hindcast.pipeline import dataset as ds

dataset = ds.open(sys.argv[1])
for _ in zip(range(2), dataset.batches(64, np.random.default_rng(0))):
    pass  # the threads of polars and Arrow have run
data = dataset.torch(64, seed=3, split=sys.argv[2], buffer=int(sys.argv[3]))
loader = DataLoader(
    data, batch_size=None, num_workers=4, multiprocessing_context="fork", persistent_workers=True
)
orders = []
for epoch in (0, 1, 0):
    data.set_epoch(epoch)
    orders.append([
        key for batch in loader
        for key in zip(batch["episode"].tolist(), batch["step"].tolist(), strict=True)
    ])
assert orders[0] == orders[2] != orders[1]
for key in orders[1]:
    print(*key)
"""


@pytest.mark.slow
def test_four_forked_workers_give_each_decision_once(dataset):
    """A process of its own forks, so that nothing but its own threads has run; a hang ends."""
    words = [sys.executable, "-c", FORKED, str(dataset.folder), SPLIT, str(SMALL)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr
    found = sorted(tuple(map(int, line.split())) for line in done.stdout.splitlines())
    assert found == expected(dataset)


@pytest.mark.nightly
def test_workers_and_shards_give_each_decision_once(dataset):
    whole = []
    for shard in range(2):
        data = minibatches(
            dataset, 64, shard=(shard, 2), seed=3, buffer=SMALL, columns=["return_to_go"]
        )
        found = list(load(data, 4, "spawn"))
        assert len(found) == len(data)
        whole += flat(found)
    assert sorted(whole) == expected(dataset)


@pytest.mark.nightly
def test_persistent_workers_see_the_epoch(dataset):
    data = minibatches(dataset, 64, seed=3)
    loader = DataLoader(
        data, batch_size=None, num_workers=2, persistent_workers=True, timeout=LIMIT,
        multiprocessing_context="spawn",
    )  # fmt: skip
    orders = []
    for epoch in (0, 1, 0):
        data.set_epoch(epoch)
        orders.append(flat(loader))
    assert orders[0] == orders[2] != orders[1]
    assert sorted(orders[1]) == expected(dataset)


@pytest.mark.slow
def test_a_pickled_dataset_gives_the_same_minibatches(dataset):
    """Workers that are spawned get such a copy."""
    data = minibatches(dataset, 64, seed=3, buffer=SMALL, columns=["discounted_return"])
    assert keys(pickle.loads(pickle.dumps(data))) == keys(data)


@pytest.mark.slow
def test_the_order_follows_from_seed_and_epoch(dataset):
    data = minibatches(dataset, 64, seed=3, buffer=SMALL)
    first = keys(data)
    assert keys(data) == first == keys(minibatches(dataset, 64, seed=3, buffer=SMALL))
    data.set_epoch(1)
    assert keys(data) != first != keys(minibatches(dataset, 64, seed=4, buffer=SMALL))


@pytest.mark.slow
def test_minibatches_hold_what_batches_holds(dataset):
    """Every column of every decision, whole and with what is added on request."""
    columns = ["return_to_go", "discounted_return", "behaviour_probabilities", "truncated",
               "time_s", "reward_terms"]  # fmt: skip
    ours = {}
    for batch in minibatches(dataset, 50, k=64, buffer=SMALL, columns=columns, discount=0.9):
        for i, key in enumerate(flat([batch])):
            ours[key] = {name: values[i].numpy() for name, values in batch.items()}
    names = set(next(iter(ours.values()))) - {"episode"}
    assert set(columns) < names
    found = dataset.batches(
        50, np.random.default_rng(0), k=64, split=SPLIT, columns=columns, discount=0.9
    )
    for batch in found:
        episode = batch.episodes["episode"].to_numpy()[batch.episode]
        for i, key in enumerate(zip(episode.tolist(), batch.step.tolist(), strict=True)):
            for name in names:
                np.testing.assert_array_equal(ours[key][name], getattr(batch, name)[i], name)


def test_what_a_worker_sends_is_what_it_made(dataset):
    """A minibatch travels as one tensor and arrives as views of it."""
    for batch in minibatches(dataset, 33, k=5):
        there = pickle.loads(pickle.dumps(batch))
        assert type(there) is dict
        assert list(there) == list(batch)
        for name, values in batch.items():
            assert there[name].dtype == values.dtype
            assert torch.equal(there[name], values)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("position", [0, 1, 7, 20])
def test_a_pass_goes_on_where_it_was_left(workers, position, dataset, of_worker):
    """Minibatches, and the candidates that were cut, are those of a pass that was not left."""

    def in_turn(data):
        lists = [of_worker(data, worker, workers) for worker in range(workers)]
        return [batches[turn] for turn in range(len(data) + 1) for batches in lists
                if turn < len(batches)]  # fmt: skip

    data = minibatches(dataset, 40, seed=3, k=2, buffer=SMALL)
    data.set_epoch(2)
    whole = in_turn(data)
    resumed = minibatches(dataset, 40, seed=3, k=2, buffer=SMALL)
    resumed.load_state_dict({"epoch": 2, "position": position})
    lists = [of_worker(resumed, worker, workers) for worker in range(workers)]
    rest = {key: batch for batches in lists for batch in batches for key in [tuple(flat([batch]))]}
    assert len(rest) == len(whole) - position
    for batch in whole[position:]:
        again = rest[tuple(flat([batch]))]
        assert all(torch.equal(batch[name], again[name]) for name in batch)


@pytest.mark.slow
def test_only_the_pass_after_loading_leaves_minibatches_out(dataset, of_worker):
    """A DataLoader makes workers from the same copy for every pass; their seed tells passes."""
    data = minibatches(dataset, 40, seed=3)
    data.load_state_dict({"epoch": 1, "position": 5})
    assert len(of_worker(data, 1, 2, seed=7)) + len(of_worker(data, 0, 2, seed=7)) == len(data) - 5
    assert len(of_worker(data, 0, 2, seed=8)) + len(of_worker(data, 1, 2, seed=8)) == len(data)
    data.load_state_dict({"epoch": 1, "position": 5})
    assert len(list(data)) == len(data) - 5
    assert len(list(data)) == len(data)
    data.load_state_dict({"epoch": 1, "position": 5})
    data.set_epoch(1)  # as a loop over epochs does
    assert len(list(data)) == len(data) - 5
    data.load_state_dict({"epoch": 1, "position": 5})
    data.set_epoch(2)
    assert len(list(data)) == len(data)


@pytest.mark.slow
def test_the_state_counts_the_minibatches_that_were_given(dataset):
    data = minibatches(dataset, 40, seed=3)
    data.set_epoch(4)
    passing = iter(data)
    given = [next(passing) for _ in range(6)]
    state = pickle.loads(pickle.dumps(data.state_dict()))
    assert (state["epoch"], state["position"]) == (4, 6)
    resumed = minibatches(dataset, 40, seed=3)
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    data.set_epoch(4)
    assert keys(given) + keys(resumed) == keys(data)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torchdata
@pytest.mark.parametrize("workers", [0, 3])
def test_a_stateful_loader_of_torchdata_goes_on_where_it_was_left(workers, dataset):
    """It keeps the state of each worker; the epoch after the one that is finished is whole."""
    reason = "torchdata is not installed; make test-libraries installs it"
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason=reason)

    def loader():
        data = minibatches(dataset, 40, seed=3, buffer=SMALL)
        return data, stateful.StatefulDataLoader(
            data, batch_size=None, num_workers=workers, timeout=LIMIT if workers else 0,
            multiprocessing_context="fork" if workers else None,
        )  # fmt: skip

    data, whole = loader()
    epochs = []
    for epoch in (0, 1):
        data.set_epoch(epoch)
        epochs.append(keys(whole))
    data, left = loader()
    begun = iter(left)
    given = keys([next(begun) for _ in range(10)])
    state = left.state_dict()
    data, resumed = loader()
    resumed.load_state_dict(state)
    assert given + keys(resumed) == epochs[0]
    data.set_epoch(1)
    assert keys(resumed) == epochs[1]


@pytest.mark.slow
def test_the_state_before_the_first_minibatch_is_of_the_epoch_that_begins(dataset):
    """A worker that persists has the end of the last epoch behind it."""
    data = minibatches(dataset, 400, seed=3)
    assert len(list(data)) == data.state_dict()["position"]
    data._epoch[0] = 1  # as the main process sets it for its workers
    begun = iter(data)
    assert (data.state_dict()["epoch"], data.state_dict()["position"]) == (1, 0)
    next(begun)
    assert (data.state_dict()["epoch"], data.state_dict()["position"]) == (1, 1)
    data.set_epoch(2)
    assert (data.state_dict()["epoch"], data.state_dict()["position"]) == (2, 0)


def test_a_state_of_another_order_is_refused(dataset):
    state = minibatches(dataset, 40, seed=3).state_dict()
    for other, said in (
        (minibatches(dataset, 40, seed=4), "seed 3, but it is 4"),
        (minibatches(dataset, 41, seed=3), "batch 40, but it is 41"),
        (minibatches(dataset, 40, seed=3, shard=(1, 2)), r"shard \[0, 1\], but it is \[1, 2\]"),
        (minibatches(dataset, 40, seed=3, split="train"), "decisions"),
    ):
        with pytest.raises(InputError, match=said):
            other.load_state_dict(state)
    with pytest.raises(InputError, match="lacks an epoch and a position"):
        minibatches(dataset, 40).load_state_dict({"epoch": 1})
    with pytest.raises(InputError, match="a position from 0 to"):
        minibatches(dataset, 40, seed=3).load_state_dict({"epoch": 0, "position": 10_000})


def test_a_state_of_another_number_of_workers_is_refused(dataset, monkeypatch):
    for workers in (2, 3):
        info = SimpleNamespace(id=0, num_workers=workers, seed=1)
        monkeypatch.setattr(torch_batches, "get_worker_info", lambda info=info: info)
        data = minibatches(dataset, 40)
        if workers == 2:
            state = data.state_dict()
    with pytest.raises(InputError, match="workers 2, but it is 3"):
        data.load_state_dict(state)


@pytest.mark.slow
def test_shards_of_equally_many_whole_minibatches(dataset):
    """`drop_last` leaves out fewer decisions than one minibatch for every shard."""
    shards = [minibatches(dataset, 60, shard=(i, 4), drop_last=True) for i in range(4)]
    found = [list(shard) for shard in shards]
    assert len({len(batches) for batches in found}) == 1
    assert {len(b["choice"]) for batches in found for b in batches} == {60}
    given = [key for batches in found for key in flat(batches)]
    assert len(set(given)) == len(given) > len(expected(dataset)) - 4 * 60


def test_a_row_group_of_several_splits(dataset):
    """Windows that are left out lie in the same row groups as those that are not."""
    view = dataset.without(dataset.episodes(SPLIT)["window"].unique()[::2])
    data = minibatches(view, 64, buffer=SMALL)
    assert sorted(flat(data)) == expected(view) != expected(dataset)


@pytest.mark.slow
def test_a_log_of_single_decisions_without_closing_rows(tmp_path, of_worker):
    """A row that is a whole episode is its own next observation."""
    log = ds.open(convert(read_log(long_table(90), ROWS), tmp_path / "log", "log").folder)
    assert not log.spec.closing_rows
    for split in log.episodes()["split"].unique():
        for transitions in (True, False):
            data = log.torch(7, split=split, transitions=transitions)
            given = [of_worker(data, worker, 3) for worker in range(3)]
            assert sorted(key for b in given for key in flat(b)) == expected(log, split)
            for batch in (b for batches in given for b in batches if transitions):
                assert torch.equal(batch["candidates"], batch["next_candidates"])
                assert batch["terminated"].all()
                assert not batch["next_mask"].any()


def test_settings_that_cannot_be_used(dataset):
    for shard in ((2, 2), (-1, 3), (0, 0)):
        with pytest.raises(InputError, match=r"expected \(i, n\) with 0 <= i < n"):
            minibatches(dataset, 64, shard=shard)
    with pytest.raises(InputError, match="drop_last leaves nothing of"):
        minibatches(dataset, 9000, shard=(0, 3), drop_last=True)
    with pytest.raises(InputError, match="seed is -1"):
        minibatches(dataset, 64, seed=-1)
    with pytest.raises(InputError, match="size is 0"):
        minibatches(dataset, 0)
    with pytest.raises(InputError, match="did you mean 'time_s'"):
        minibatches(dataset, 64, columns=["times"])
    with pytest.raises(DatasetError, match="split 'tets' has no episodes"):
        minibatches(dataset, 64, split="tets")
    with pytest.raises(InputError, match="epoch is -1"):
        minibatches(dataset, 64).set_epoch(-1)


def test_parts_that_hold_other_decisions_are_refused(dataset):
    """The table of episodes says how many decisions of the split a row group has."""
    data = minibatches(dataset, 64)
    data._wanted[dataset.episodes(SPLIT)["episode"][0]] = False
    with pytest.raises(DatasetError, match="the parts hold fewer decisions"):
        list(data)
    steps = dataset.episodes().with_columns(steps=dataset.episodes()["steps"] + 1)
    with pytest.raises(DatasetError, match="the parts hold fewer decisions"):
        replace(dataset, _episodes=steps).torch(64)


class Repeating(IterableDataset):
    """Minibatches of `Dataset.batches` in a worker, as people wrote before `Dataset.torch`."""

    def __init__(self, dataset) -> None:
        self.dataset = dataset

    def __iter__(self):
        for batch in self.dataset.batches(64, np.random.default_rng(0)):
            yield batch.reward


def test_batches_in_a_worker_is_refused(dataset):
    """It would hang in polars if the worker was forked, and repeat all decisions otherwise."""
    with warnings.catch_warnings(), pytest.raises(InputError, match=r"dataset\.torch\("):
        list(load(Repeating(dataset), 1))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pods", "grid", "starts"])
def test_minibatches_of_other_problems_are_their_rows(kind, tmp_path):
    """Counts, masks and rewards are those of the Parquet files."""
    dataset = ds.open(KINDS[kind](tmp_path))
    parts = [dataset.folder / part.path for part in dataset.manifest.parts]
    rows = pl.read_parquet(parts, glob=False).filter(pl.col("choice").is_not_null())
    rows = rows.filter(pl.col("episode").is_in(dataset.episodes("train")["episode"].to_list()))
    batches = list(load(dataset.torch(32), 0))
    assert sorted(flat(batches)) == sorted(rows.select("episode", "step").rows())
    assert sum(int(b["mask"].sum()) for b in batches) == rows["feasible"].list.sum().sum()
    assert sum(float(b["reward"].sum()) for b in batches) == pytest.approx(rows["reward"].sum())
    for b in batches:
        assert b["mask"][torch.arange(len(b["choice"])), b["choice"]].all()
