"""Tests of behaviour models: choice sets, coefficients, propensities, collapsed weights."""

import itertools
import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from hindcast.flows import cli
from hindcast.pipeline import dataset as datasets
from hindcast.pipeline.dataset.estimated import ESTIMATES, FOLDER, MODEL, read_estimates
from hindcast.pipeline.dataset.verification.verify import verify
from hindcast.pipeline.errors import DatasetError, InputError
from hindcast.pipeline.scenarios.queue.instances import Log, read_log
from hindcast.policies.ope.behaviour.choice_sets import ChoiceSets, choices_of_log
from hindcast.policies.ope.behaviour.logit import fit_logit, log_probabilities
from hindcast.policies.ope.behaviour.model import in_words, model_of_choices, model_of_log
from hindcast.policies.ope.behaviour.propensities import support
from tests.pipeline.scenarios.queue.test_golden import workload as golden_log
from tests.pipeline.scenarios.queue.test_queue import workload

NAMES = ("log_waited", "log_requested", "age_rank", "log_processors")
TRUE = np.array([1.5, -1.0, 0.0, 0.0])


def drawn(size: int, rng: np.random.Generator) -> ChoiceSets:
    """Return choices drawn from a conditional logit of four features."""
    sizes = rng.integers(2, 8, size)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = rng.normal(size=(int(offsets[-1]), 4))
    sets = ChoiceSets(
        NAMES, rows, offsets, offsets[:-1], np.arange(size) // 5,
        np.arange(size),
    )  # fmt: skip
    likely = np.exp(log_probabilities(rows @ TRUE, sets))
    chosen = [
        int(a + rng.choice(b - a, p=likely[a:b])) for a, b in itertools.pairwise(offsets.tolist())
    ]
    return ChoiceSets(sets.names, rows, offsets, np.array(chosen), sets.cluster, sets.place)


@pytest.mark.slow
def test_coefficients_of_a_known_logit_are_recovered():
    """Over 60 logs, 95 % intervals hold the true coefficients about as often as they say."""
    inside = np.zeros(4)
    for seed in range(60):
        found = fit_logit(drawn(400, np.random.default_rng(seed)))
        true = TRUE * found.scale
        inside += (found.low <= true) & (true <= found.high)
    assert (inside >= 50).all(), inside
    found = fit_logit(drawn(4000, np.random.default_rng(7)))
    np.testing.assert_allclose(found.weights, TRUE * found.scale, atol=0.12)


def test_choices_of_one_day_have_no_interval():
    sets = replace(drawn(200, np.random.default_rng(3)), cluster=np.zeros(200, np.int64))
    rows = list(in_words(fit_logit(sets)))
    assert {row[2:] for row in rows} == {(None, None, "no clear sign")}


def test_the_test_is_on_later_choices_and_words_follow_the_sign():
    sets = drawn(1000, np.random.default_rng(3))
    model = model_of_choices(sets)
    assert (model.fitted, model.tested, model.clusters) == (600, 300, "episode")
    late = sets.part(700, 1000)
    best = [
        a + int(np.argmax(late.rows[a:b] @ TRUE))
        for a, b in itertools.pairwise(late.offsets.tolist())
    ]
    possible = float(np.mean(late.chosen == best))
    assert model.score("logit").top_1 == pytest.approx(possible, abs=0.03)
    assert model.score("logit").log_likelihood > model.score("uniform").log_likelihood
    said = {name: words for name, *_, words in in_words(model.logit)}
    assert said["log_waited"] == "prefers jobs that have waited long"
    assert said["log_requested"] == "prefers short requests"
    assert said["age_rank"] == "no clear sign"


def log_of(*jobs: tuple[int, int, int, int, int, int]) -> Log:
    return read_log(workload(*jobs))


def test_candidates_are_the_waiting_jobs_that_fit():
    """Eight processors; the first job leaves three free, and two of the three others fit."""
    log = log_of(
        (0, 5, 100, 200, 0, 1), (10, 4, 10, 20, 95, 1), (20, 3, 10, 30, 10, 2),
        (25, 2, 10, 40, 15, 2),
    )  # fmt: skip
    sets = choices_of_log(log, np.arange(4))
    assert sets.place.tolist() == [1]  # the third job starts at 30, beside the fourth
    assert sets.chosen.tolist() == [0]
    np.testing.assert_allclose(np.exp(sets.column("log_requested")), [30, 40])
    np.testing.assert_allclose(np.exp(sets.column("log_waited")), [70, 65])
    np.testing.assert_allclose(sets.column("user_waiting"), np.log(3))
    assert sets.column("first_of_user").tolist() == [1, 0]
    assert sets.column("new").tolist() == [1, 1]
    # The oldest waiting job gets its processors at 200; both end before that.
    assert sets.column("safe").tolist() == [1, 1]


@pytest.mark.parametrize("seed", range(3))
def test_choice_sets_equal_those_of_a_plain_loop(seed):
    rng = np.random.default_rng(seed)
    size = 120
    jobs = [
        (int(s), int(n), int(r), int(r + e), int(w), int(u))
        for s, n, r, e, w, u in zip(
            np.sort(rng.integers(0, 2000, size)), rng.integers(1, 5, size),
            rng.integers(1, 90, size), rng.integers(0, 50, size), rng.integers(0, 400, size),
            rng.integers(1, 6, size), strict=True,
        )
    ]  # fmt: skip
    log = log_of(*jobs)
    sets = choices_of_log(log, np.arange(size))
    order = sorted(range(size), key=lambda j: (log.start[j], j))
    expected = []
    for k, job in enumerate(order):
        now = log.start[job]
        before = order[:k]
        held = sum(int(log.cpu[j]) for j in before if log.start[j] + log.run[j] > now)
        free = log.processors - held
        waiting = [j for j in range(size) if log.submit[j] <= now and j not in before]
        fit = [j for j in waiting if log.cpu[j] <= free or j == job]
        if len(fit) > 1:
            expected.append((k, [int(log.requested[j]) for j in fit], fit.index(job)))
    assert sets.place.tolist() == [k for k, *_ in expected]
    for s, (_, requested, chosen) in enumerate(expected):
        a, b = sets.offsets[s : s + 2]
        np.testing.assert_allclose(np.exp(sets.column("log_requested")[a:b]), requested)
        assert sets.chosen[s] - a == chosen


def test_a_log_without_starts_or_with_few_choices_is_refused():
    with pytest.raises(InputError, match="does not say when jobs started"):
        model_of_log(log_of((0, 1, 5, 5, None, 1), (1, 1, 5, 5, None, 1)))
    with pytest.raises(InputError, match="choices with two or more candidates are too few"):
        model_of_log(log_of((0, 1, 5, 5, 3, 1), (1, 1, 5, 5, 3, 1), (1, 1, 5, 5, 3, 1)))


@pytest.mark.slow
def test_a_real_log_is_predicted_far_better_than_by_rules():
    model = model_of_log(read_log(golden_log("KTH-SP2")))
    assert model.score("logit").top_1 >= 0.70
    assert model.score("sjf").top_1 < model.score("logit").top_1 - 0.05


def test_weights_that_collapse_are_named_with_their_numbers():
    good = support(np.random.default_rng(0).normal(0.0, 0.3, 40))
    assert not good.collapsed
    bad = support(np.random.default_rng(0).normal(0.0, 15.0, 40))
    assert bad.collapsed
    assert "of 40 episodes" in bad.reason
    assert support(np.full(12, -np.inf)).collapsed


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return a dataset of the decisions of a log's scheduler, and its estimates."""
    golden_log("KTH-SP2")  # skips where the traces are not there
    out = tmp_path_factory.mktemp("behaviour") / "d"
    small = (
        "config.jobs=64", "config.follow=0", 'split.train="0..11"', 'split.validation="12..23"',
        'split.test="24..24"',
    )  # fmt: skip
    words = [word for each in small for word in ("--set", each)]
    assert cli.main(["build", "queue-kth-recorded-v1", *words, "--out", str(out), "--direct"]) == 0
    return out


@pytest.mark.slow
def test_estimates_stand_beside_the_data_and_support_little(recorded, capsys):
    assert "propensities are not known" in (recorded / "README.md").read_text()
    assert cli.main(["ope", str(recorded), "--policy", "saf_easy", "--direct"]) == 2
    assert "estimate them with `hindcast behaviour" in capsys.readouterr().err
    before = datasets.open(recorded).manifest.digest
    assert cli.main(["behaviour", str(recorded)]) == 0
    assert str(recorded / FOLDER) in capsys.readouterr().out
    manifest = datasets.open(recorded).manifest
    assert manifest.digest == before
    table = read_estimates(recorded, manifest)
    assert table.height == manifest.counts["decisions"]
    known = table["propensity"].drop_nulls()
    assert known.len() < table.height  # waiting is not modelled
    assert known.is_between(0.0, 1.0).all()
    from hindcast.policies.registry import recorded_behaviours

    verify(recorded, recorded_behaviours(recorded))
    command = ["ope", str(recorded), "--propensities", "estimated", "--no-truth", "--direct"]
    command += ["--estimators", "snis", "--policy", "saf_easy"]
    assert cli.main([*command, "--epsilon", "0.1"]) == 2
    said = capsys.readouterr().err
    assert "saf_easy is refused: the weights leave" in said


@pytest.mark.slow
def test_estimates_of_another_dataset_are_refused(recorded, tmp_path):
    import shutil

    shutil.copytree(recorded, tmp_path / "d")
    manifest = datasets.open(tmp_path / "d").manifest
    place = tmp_path / "d" / FOLDER
    shutil.rmtree(place, ignore_errors=True)
    with pytest.raises(DatasetError, match="hindcast behaviour"):
        read_estimates(tmp_path / "d", manifest)
    place.mkdir()
    pl.DataFrame({"episode": [0]}).write_parquet(place / ESTIMATES)
    (place / MODEL).write_text(json.dumps({"dataset": "other"}))
    with pytest.raises(DatasetError, match="estimated for another dataset"):
        read_estimates(tmp_path / "d", manifest)
    (place / MODEL).write_text(json.dumps({"dataset": manifest.digest}))
    with pytest.raises(DatasetError, match="the columns are episode"):
        read_estimates(tmp_path / "d", manifest)
