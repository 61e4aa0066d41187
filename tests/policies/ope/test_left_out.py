"""Tests of behaviours that are left out of their log, and of logs without exploration."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from hindcast.flows.cli import main
from hindcast.pipeline import dataset as datasets
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.estimators import LoggedEpisodes, estimate
from hindcast.pipeline.estimators.verdicts import CANNOT, Held
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import BehaviourRecipe
from hindcast.policies.ope import ope
from hindcast.policies.ope.answers import described_answers
from hindcast.policies.ope.episodes import read_episodes
from hindcast.policies.ope.left_out import can_be_left_out, held_of, own_return
from hindcast.policies.ope.probabilities import mixture_propensities
from hindcast.policies.registry import behaviours

SMALL = ("config.steps=6", 'split.train="0..1"', 'split.validation="2..9"', 'split.test="10..10"')
EXPLORING = (
    BehaviourRecipe("random_linear", epsilon=0.1, episodes=2),
    BehaviourRecipe("random", episodes=2),
    BehaviourRecipe("sjf_now", epsilon=0.2),
    BehaviourRecipe("packer_now", epsilon=0.2),
)
CERTAIN = (BehaviourRecipe("sjf_now"), BehaviourRecipe("packer_now"))
ASKED = ["snis", "gp", "tempered", "mwl"]
FAST = ope.OPESettings(
    truth_seeds=1, estimators=tuple(ASKED), intervals=replace(ope.Settings(), resamples=200)
)


def built(behaving, folder):
    recipe = replace(load_recipe("slots-deeprm-v1", SMALL), behaviours=behaving)
    build(recipe, behaviours(recipe), folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return built(EXPLORING, tmp_path_factory.mktemp("left-out") / "dataset")


@pytest.fixture(scope="module")
def certain(tmp_path_factory):
    return built(CERTAIN, tmp_path_factory.mktemp("certain") / "dataset")


@pytest.mark.slow
def test_the_mixture_without_a_behaviour_is_that_of_a_log_without_it(folder):
    """A log from which the episodes were removed has the same propensities in the others."""
    opened = datasets.open(folder)
    known = behaviours(opened.recipe)
    log = read_episodes(opened, "validation", limit=100_000)
    assert sorted(can_be_left_out(log, known)) == ["packer_now+eps0.2", "random", "sjf_now+eps0.2"]
    name = "sjf_now+eps0.2"
    without = mixture_propensities(log, known, [name]).without[name]
    own = log.table["behaviour"].to_numpy() == name
    keep = np.repeat(~own, np.diff(log.offsets))
    rows = np.repeat(keep, np.diff(log.rows))
    small = replace(
        log, offsets=np.concatenate([[0], np.cumsum(np.diff(log.offsets)[~own])]),
        rows=np.concatenate([[0], np.cumsum(np.diff(log.rows)[keep])]),
        table=log.table.filter(pl.Series(~own)),
        **{n: getattr(log, n)[rows] for n in ("candidates", "feasible", "probabilities")},
        **{n: getattr(log, n)[keep] for n in ("context", "choice", "propensity", "reward",
                                              "elapsed_s")},
    )  # fmt: skip
    assert without[keep] == pytest.approx(mixture_propensities(small, known).behaviour, rel=1e-9)


def test_taken_episodes_have_the_same_estimate_as_a_log_of_them():
    rng = np.random.default_rng(0)
    e = LoggedEpisodes(
        np.array([0, 2, 3, 6]), np.full(6, 0.5), rng.random(6), rng.random(6),
        group=np.array([4, 4, 9]), q=rng.random(6), v=rng.random(6),
    )  # fmt: skip
    part = e.take(np.array([True, False, True]))
    assert part.offsets.tolist() == [0, 2, 5]
    assert part.group.tolist() == [4, 9]
    assert part.returns == pytest.approx(e.returns[[0, 2]])
    assert part.log_weights == pytest.approx(e.log_weights[[0, 2]])
    assert part.features is None


def test_the_own_return_weighs_windows_as_the_others_do():
    """Window 4 has one other episode and window 9 two: (1 * 10 + 2 * 40) / 3."""
    e = LoggedEpisodes(
        np.arange(6), np.ones(5), np.ones(5), np.array([10.0, 0.0, 40.0, 0.0, 0.0]),
        group=np.array([4, 4, 9, 9, 9]),
    )  # fmt: skip
    assert own_return(e, np.array([True, False, True, False, False])) == pytest.approx(30.0)


def test_both_intervals_have_to_hold():
    """An estimate without an interval is not counted."""
    rng = np.random.default_rng(0)
    e = estimate("snis", LoggedEpisodes(np.arange(101), np.full(100, 0.5), np.full(100, 0.5),
                                        rng.random(100)))  # fmt: skip
    made = [(e, e.value, 0.0), (e, e.value + 9.0, 0.0), (e, e.value, 9.0),
            (replace(e, verdict=CANNOT), e.value, 0.0)]  # fmt: skip
    assert held_of(made) == Held(3, 1)


@pytest.mark.slow
def test_each_behaviour_is_left_out_once_and_told(folder, capsys):
    line = ["ope", str(folder), "--policy", "sjf_now", "fcfs_now", "--estimators", *ASKED,
            "--no-truth"]  # fmt: skip
    assert main(line) == 0
    printed = capsys.readouterr().out
    [told] = [row for row in printed.splitlines() if row.startswith("held: behaviours")]
    assert "gp " in told
    assert "of 3" in told
    for row in printed.splitlines():
        if row.startswith(("  gp ", "  tempered ", "  mwl ")):
            assert "beside, held" in row
            assert "[" not in row


@pytest.mark.slow
def test_a_left_out_behaviour_gives_nothing_to_its_own_estimate(folder, monkeypatch):
    """With other returns of a behaviour, the estimates of it from the others stay."""
    seen = []
    monkeypatch.setattr(ope, "held_of", lambda made: (seen.append(made), held_of(made))[1])
    ope.evaluate_offline(folder, ["sjf_now"], replace(FAST, truth_seeds=0))
    before, seen[:] = [[e.value for e, _, _ in made] for made in seen], []
    assert len(before) == len(ASKED)
    real = ope.read_episodes

    def changed(*arguments, **settings):
        log = real(*arguments, **settings)
        own = pl.col("behaviour") == "sjf_now+eps0.2"
        return replace(log, reward=np.where(
            np.repeat(log.table.select(own).to_series().to_numpy(), np.diff(log.offsets)),
            log.reward * 7.0, log.reward), table=log.table.with_columns(
                pl.when(own).then(pl.col("return") * 7.0).otherwise(pl.col("return"))
                .alias("return")))  # fmt: skip

    monkeypatch.setattr(ope, "read_episodes", changed)
    ope.evaluate_offline(folder, ["sjf_now"], replace(FAST, truth_seeds=0))
    names = [*can_be_left_out(real(datasets.open(folder), "validation", limit=100_000),
                              behaviours(datasets.open(folder).recipe))]  # fmt: skip
    at = names.index("sjf_now+eps0.2")
    for old, made in zip(before, seen, strict=True):
        assert made[at][0].value == pytest.approx(old[at])
        assert [e.value for e, _, _ in made] != pytest.approx(old)


@pytest.mark.slow
def test_a_deterministic_log_has_no_answer_but_for_its_own_rules(certain, capsys):
    """Of a log without exploration nothing is known of what its rules did not do."""
    line = ["ope", str(certain), "--policy", "sjf_now", "fcfs_now", "--estimators", *ASKED]
    assert main(line) == 0
    printed = capsys.readouterr().out
    for policy in ("sjf_now", "fcfs_now"):  # both explore here, which no rule of the log did
        assert f"Cannot answer for {policy}: every one of the " in printed
    assert "was certain (p = 1)" in printed
    assert "order by" not in printed
    found = ope.evaluate_offline(certain, ["sjf_now", "fcfs_now"], replace(FAST, epsilon=0.0))
    own = found.rows.filter(policy="sjf_now", estimator="snis").row(0, named=True)
    assert own["value"] == pytest.approx(own["truth"])
    other = found.rows.filter(policy="fcfs_now")
    assert other["value"].null_count() == other.height == len(ASKED)
    assert found.description["answerable"]["fcfs_now"] is False


def rows_of(verdict, **held):
    """Return a row per estimator with (left out, held), all with one verdict."""
    return pl.DataFrame(
        [{"policy": "p", "estimator": name, "verdict": verdict, "value": 2.0, "low": 1.0,
          "high": 3.0, "difference": 1.0, "difference_low": 0.5, "difference_high": 1.5,
          "left_out": left, "left_out_held": kept, "warnings": []}
         for name, (left, kept) in held.items()]
    )  # fmt: skip


def test_the_reader_is_the_first_estimator_that_is_neither_biased_nor_refuted():
    found = described_answers(rows_of("answers", gp=(3, 3), snis=(2, 2), paired_snis=(2, 2)))
    assert found["reader"] == "snis"
    assert found["sentences"] == {
        "p": "p: answers: snis 2 (1 .. 3), to the log 1 (0.5 .. 1.5)."
    }  # fmt: skip
    refuted = rows_of("answers", snis=(2, 0), paired_snis=(2, 1), gp=(3, 3))
    assert described_answers(refuted)["reader"] == "paired_snis"
    alone = described_answers(rows_of("beside", gp=(3, 3)))
    assert (alone["reader"], alone["answerable"]) == (None, {"p": False})
    assert alone["sentences"]["p"].startswith("Cannot answer for p: every estimator")
