"""Tests of cutting and padding candidate sets, against a few lines of Python."""

import numpy as np
import pytest

from hindcast.pipeline.dataset.padding import pad, pick
from tests.sample_datasets import make_padded

FEATURES = 3
DRAWS = 4000


@pytest.fixture
def sets():
    """Return sets of 1 to 40 candidates with a feasible choice each."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 41, 60)
    offsets = np.cumsum([0, *sizes])
    feasible = rng.random(offsets[-1]) < 0.7
    choice = np.array([rng.integers(n) for n in sizes])
    feasible[offsets[:-1] + choice] = True
    candidates = rng.random((offsets[-1], FEATURES), dtype=np.float32)
    return offsets, candidates, feasible, choice


@pytest.mark.parametrize("k", [1, 7, 40, 64])
def test_what_is_kept_is_a_subsequence_with_the_choice(sets, k):
    offsets, candidates, feasible, choice = sets
    rows = np.random.default_rng(1).permutation(len(choice))
    out = make_padded(len(rows), k, FEATURES)
    pad(offsets, candidates, feasible, rows, choice[rows], np.random.default_rng(2), out)
    for d, row in enumerate(rows):
        own = candidates[offsets[row] : offsets[row + 1]]
        may = feasible[offsets[row] : offsets[row + 1]]
        assert out.drawn[d] == may.sum()
        assert (out.candidates[d, out.choice[d]] == own[choice[row]]).all()
        assert out.mask[d, out.choice[d]]
        if len(own) <= k:
            assert (out.candidates[d, : len(own)] == own).all()
            assert (out.mask[d, : len(own)] == may).all()
            padding = slice(len(own), None)
        else:
            used = min(k, may.sum())
            places = [int(np.flatnonzero((own == c).all(1))[0]) for c in out.candidates[d, :used]]
            assert (np.diff(places) > 0).all()
            assert may[places].all()
            assert out.mask[d, :used].all()
            padding = slice(used, None)
        assert not out.candidates[d, padding].any()
        assert not out.mask[d, padding].any()


@pytest.mark.slow
def test_every_other_feasible_candidate_stays_equally_often():
    """Of ten candidates, two are infeasible and one is chosen: 3 of the 7 others stay."""
    feasible = np.ones(10, np.bool_)
    feasible[[2, 5]] = False
    rows = np.zeros(DRAWS, np.int64)
    index = np.empty((DRAWS, 4), np.int64)
    position, drawn = np.empty(DRAWS, np.int64), np.empty(DRAWS, np.int64)
    choice = np.full(DRAWS, 7)
    rng = np.random.default_rng(0)
    pick(np.array([0, 10]), feasible, rows, choice, rng, index, position, drawn)
    share = np.bincount(index.ravel(), minlength=10) / DRAWS
    assert share[7] == 1.0
    assert share[[2, 5]].max() == 0.0
    others = share[[0, 1, 3, 4, 6, 8, 9]]
    assert np.abs(others - 3 / 7).max() < 4 * np.sqrt(3 / 7 * 4 / 7 / DRAWS)
    assert (index[np.arange(DRAWS), position] == 7).all()


def test_nothing_chosen_gives_feasible_candidates_only():
    """Next observations have no choice, so any feasible candidates may stay.

    An empty set is all padding.
    """
    out = make_padded(2, 2, 1)
    candidates = np.arange(4, dtype=np.float32)[:, None]
    feasible = np.array([True, False, True, True])
    none = np.full(2, -1)
    offsets, rows = np.array([0, 4, 4]), np.array([0, 1])
    pad(offsets, candidates, feasible, rows, none, np.random.default_rng(0), out)
    assert set(out.candidates[0, :, 0].tolist()) < {0.0, 2.0, 3.0}
    assert out.mask.tolist() == [[True, True], [False, False]]
    assert out.choice.tolist() == [-1, -1]
    assert out.drawn.tolist() == [3, 0]


def test_no_draw_is_made_for_sets_that_fit(sets):
    offsets, candidates, feasible, choice = sets
    rng = np.random.default_rng(5)
    pad(
        offsets, candidates, feasible, np.arange(len(choice)), choice, rng,
        make_padded(len(choice), 40, FEATURES),
    )  # fmt: skip
    assert rng.random() == np.random.default_rng(5).random()
