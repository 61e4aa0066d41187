"""Tests of off-policy evaluation of a dataset: probabilities, mixtures, truth, output files."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hindcast.flows.cli import main
from hindcast.flows.commands import report
from hindcast.pipeline import dataset as datasets
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.errors import DatasetError, InputError, StorageError, UnknownName
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import BehaviourRecipe
from hindcast.pipeline.storage.provenance import commit
from hindcast.policies.entrants import entrants
from hindcast.policies.ope import ope, results
from hindcast.policies.ope.episodes import read_episodes, whole_windows
from hindcast.policies.ope.probabilities import (
    logged_propensities,
    mixture_propensities,
    policy_probabilities,
)
from hindcast.policies.registry import behaviours
from tests.pipeline.dataset.building.test_build import write_log
from tests.policies.networks.test_rules import damaged

SMALL = (
    "config.steps=8",
    'split.train="0..5"',
    'split.validation="6..11"',
    'split.test="12..13"',
)
FAST = ope.OPESettings(fqe_steps=20, truth_seeds=2, intervals=replace(ope.Settings(), resamples=50))
POLICIES = ["random", "sjf_now", "packer_now"]


BEHAVIOURS = (  # 15 episodes per window, as the recipe's numbers may be tuned
    BehaviourRecipe("random_linear", epsilon=0.1, episodes=6),
    BehaviourRecipe("random"),
    BehaviourRecipe("sjf_now", epsilon=0.2, episodes=2),
    BehaviourRecipe("sjf_reserve", epsilon=0.2),
    BehaviourRecipe("packer_now", epsilon=0.2),
    BehaviourRecipe("no_short_visible", epsilon=0.2, episodes=2),
    BehaviourRecipe("hold_5", epsilon=0.2, episodes=2),
)


@pytest.fixture(scope="module")
def recipe():
    return replace(load_recipe("slots-deeprm-v1", SMALL), behaviours=BEHAVIOURS)


@pytest.fixture(scope="module")
def folder(recipe, tmp_path_factory):
    out = tmp_path_factory.mktemp("ope") / "dataset"
    build(recipe, behaviours(recipe), out)
    return out


@pytest.fixture(scope="module")
def opened(folder):
    return datasets.open(folder)


@pytest.fixture(scope="module")
def log(opened):
    return read_episodes(opened, "validation", limit=10_000)


@pytest.fixture(scope="module")
def result(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("ope") / "out"
    return ope.evaluate_offline(folder, POLICIES, FAST, out=out), out


@pytest.mark.slow
def test_propensities_that_are_not_the_stored_probabilities_are_refused(folder, tmp_path):
    """Both are stored: `ope` compares them before it weighs anything."""
    copy = tmp_path / "log"
    shutil.copytree(folder, copy)
    for path in copy.glob("data/*.parquet"):
        table = pq.read_table(path)
        at = table.schema.get_field_index("propensity")
        halves = pc.multiply(table["propensity"], pa.scalar(0.5, pa.float32()))
        pq.write_table(table.set_column(at, table.schema.field(at), halves), path)
    with pytest.raises(DatasetError, match=r"propensities are not the behaviour_probabilities"):
        read_episodes(datasets.open(copy), "validation", limit=10_000)


@pytest.mark.slow
def test_episodes_are_whole(opened, log):
    """Rewards of every episode sum to its return, and every choice is feasible."""
    table = opened.episodes("validation")
    assert log.table["episode"].to_list() == table["episode"].to_list()
    sums = np.add.reduceat(log.reward, log.offsets[:-1])
    assert sums == pytest.approx(table["return"].to_numpy())
    assert log.feasible[log.chosen].all()
    assert log.propensity == pytest.approx(log.probabilities[log.chosen])


def test_limits_keep_whole_windows():
    """Of four windows of ten decisions, a limit of 25 keeps two. One is always read."""
    table = pl.DataFrame({"window": [3, 3, 4, 5, 6], "steps": [4, 6, 10, 10, 10]})
    assert whole_windows(table, 100) == [3, 4, 5, 6]
    assert whole_windows(table, 25) == [4, 6]
    assert whole_windows(table, 5) == [5]


def test_large_windows_at_the_ends_do_not_crowd_out_the_others():
    """The windows at both ends exceed the limit, and three windows in between fit."""
    steps = [90, 10, 10, 10, 10, 10, 90]
    table = pl.DataFrame({"window": range(7), "steps": steps})
    assert whole_windows(table, 40) == [1, 3, 5]


def test_a_log_that_would_lead_a_rule_out_of_bounds_is_refused(recipe, folder, tmp_path):
    """Compiled rules use some values as indices and lengths."""
    opened = datasets.open(damaged(folder, tmp_path / "log", offset=1e9))
    rule = behaviours(recipe)["sjf_now+eps0.2"]
    with pytest.raises(DatasetError, match=r"log: offset is 1e\+09, expected 0 to 20"):
        policy_probabilities(rule, read_episodes(opened, "validation", limit=100))


def test_unknown_split_is_named(opened):
    with pytest.raises(InputError, match="split 'tset' has no episodes"):
        read_episodes(opened, "tset", limit=100)


def test_probabilities_of_a_behaviour_are_the_logged_ones(recipe, log):
    """Computed probabilities equal the stored ones for every behaviour without drawn parameters."""
    known = behaviours(recipe)
    compared = 0
    for e, name in enumerate(log.table["behaviour"]):
        if name.startswith("random_linear"):
            continue
        rows = slice(int(log.offsets[e]), int(log.offsets[e + 1]))
        found = policy_probabilities(known[name], log, decisions=rows)
        stored = log.probabilities[log.rows[rows.start] : log.rows[rows.stop]]
        assert found == pytest.approx(stored, abs=1e-6)
        compared += len(found)
    assert compared > 1000


def test_probabilities_of_a_stretch_are_those_of_the_whole(recipe, log):
    rule = behaviours(recipe)["sjf_now+eps0.2"]
    every = policy_probabilities(rule, log)
    assert np.add.reduceat(every, log.rows[:-1]) == pytest.approx(np.ones(log.decisions))
    part = policy_probabilities(rule, log, decisions=slice(40, 90))
    assert np.array_equal(part, every[log.rows[40] : log.rows[90]])


def test_mixture_is_the_mean_over_the_windows_behaviours(recipe, log):
    """Products of the mixture's conditional probabilities are means of the behaviours' products."""
    known = behaviours(recipe)
    found = mixture_propensities(log, known)
    assert (found.kind, found.note) == ("mixture", "")
    assert found.possible[log.feasible].all()
    window = np.flatnonzero(log.group == log.group[0])
    e = int(window[3])
    rows = slice(int(log.offsets[e]), int(log.offsets[e + 1]))
    chosen = log.chosen[rows] - log.rows[rows.start]
    products = []
    for other in window:
        parameters = np.array(log.table["behaviour_parameters"][int(other)].to_list(), float)
        rule = known[log.table["behaviour"][int(other)]]
        products.append(
            np.cumprod(policy_probabilities(rule, log, parameters, decisions=rows)[chosen])
        )
    expected = np.mean(products, axis=0)
    assert np.cumprod(found.behaviour[rows]) == pytest.approx(expected, rel=1e-4)


def test_no_weight_exceeds_the_windows_episodes_for_one_of_its_behaviours(recipe, log):
    """For the logged behaviour, weights are at most the number of a window's episodes."""
    rule = behaviours(recipe)["sjf_reserve+eps0.2"]
    mixture = mixture_propensities(log, behaviours(recipe))
    ratio = policy_probabilities(rule, log)[log.chosen] / mixture.behaviour
    weights = np.multiply.reduceat(ratio, log.offsets[:-1])
    assert weights.max() <= 15.0 * (1 + 1e-3)
    assert weights.mean() == pytest.approx(1.0, abs=0.25)
    logged = policy_probabilities(rule, log)[log.chosen] / logged_propensities(log).behaviour
    assert np.multiply.reduceat(logged, log.offsets[:-1]).max() > 15.0


def test_unknown_behaviours_fall_back_to_what_is_logged(log):
    found = mixture_propensities(log, {})
    assert found.kind == "logged"
    assert "not a known behaviour" in found.note
    assert np.array_equal(found.behaviour, log.propensity)


def test_policies_explore_as_much_as_the_logs_rules(recipe):
    assert ope.default_epsilon(recipe) == 0.2
    rule, plain = entrants(recipe, ["sjf_now", "random"])
    assert ope.exploring(rule, 0.2, 0.0).behaviour.epsilon == 0.2
    assert ope.exploring(plain, 0.2, 0.0).behaviour.epsilon == 1.0


def test_behaviours_of_the_log_are_known_as_such(recipe):
    """The same rule with another exploration is another policy."""
    known = behaviours(recipe)
    rule = entrants(recipe, ["sjf_now"])[0]
    assert ope.is_logged(ope.exploring(rule, 0.2, 0.0).behaviour, known)
    assert not ope.is_logged(ope.exploring(rule, 0.1, 0.0).behaviour, known)
    assert not ope.is_logged(ope.exploring(rule, 0.2, 1.0).behaviour, known)


def test_new_policies_are_ranked_apart():
    """Of five policies, the two logged ones are left out. Fewer than three are not ranked."""
    rows = pl.DataFrame(
        {"estimator": ["is"] * 5, "logged": [True, True, False, False, False],
         "value": [9.0, 0.0, 1.0, 2.0, 3.0], "truth": [0.0, 9.0, 1.0, 2.0, 3.0]}
    )  # fmt: skip
    assert ope.new_rank_correlation(rows, "is") == pytest.approx(1.0)
    assert np.isnan(ope.new_rank_correlation(rows[:4], "is"))


@pytest.mark.slow
def test_result_has_a_row_per_policy_and_estimator(result):
    found, out = result
    assert found.rows.height == len(POLICIES) * len(FAST.estimators)
    assert found.rows["truth"].null_count() == 0
    assert (found.rows["coverage"] > 1.0 - 1e-9).all()
    written = pl.read_parquet(out / "estimates.parquet")
    assert written.equals(found.rows)
    about = json.loads((out / "ope.json").read_text())
    [session] = about["provenance"]["sessions"]
    assert about["provenance"]["records"][session]["commit"] == commit()
    assert about == found.description
    assert about["reference"] in POLICIES
    assert {e["name"] for e in about["estimators"]} == set(FAST.estimators)
    assert not (out / ".estimating").exists()
    trials = pl.read_parquet(out / "trials.parquet")
    for (name,), tried in trials.group_by("estimator"):
        truth = found.rows.filter(estimator=name).sort("value", descending=True)["truth"]
        assert tried["value"].to_list() == truth.cum_max().to_list()
        assert tried["regret"][-1] == 0.0


@pytest.mark.slow
def test_few_windows_are_said_with_what_to_do(folder, result):
    """Bootstrap intervals of fewer than 20 windows are too narrow, here of six, one or two."""
    assert "6 of 6 of this split were read" in result[0].description["notes"][0]
    quick = replace(FAST, estimators=("snis",), truth_seeds=0)
    read = ope.evaluate_offline(folder, ["sjf_now"], replace(quick, limit=1)).description
    assert "1 of 6 of this split were read" in read["notes"][0]
    assert "give a higher --limit" in read["notes"][0]


@pytest.mark.slow
def test_policies_are_ranked_by_a_consensus(result):
    """The regression over policies has weight 1, and no other estimator has more."""
    found = result[0].description["consensus"]
    assert sorted(found["order"]) == sorted(POLICIES)
    assert found["members"] == ["gp", "dm", "dr", "wdr", "tempered"]
    assert found["votes"]["gp"] == 1.0
    assert all(0.0 <= vote <= 1.0 for vote in found["votes"].values())
    assert -1.0 <= found["rank_correlation"] <= 1.0


@pytest.mark.slow
def test_truth_is_the_simulators_for_the_same_exploring_policy(result):
    found, out = result
    scores = pl.read_parquet(out / "truth" / "scores.parquet")
    for policy in POLICIES:
        own = scores.filter((pl.col("policy") == policy) & (pl.col("metric") == "return"))
        truth = found.rows.filter(pl.col("policy") == policy)["truth"]
        assert truth.unique().to_list() == pytest.approx([own["value"].mean()])
    seeds = scores.filter(pl.col("policy") == "sjf_now")["seed"].n_unique()
    assert seeds == FAST.truth_seeds


@pytest.mark.slow
def test_truth_of_another_exploration_is_simulated_again(folder, tmp_path):
    settings = replace(FAST, estimators=("is",))
    truths, seeds = [], []
    for epsilon, runs in ((0.1, 2), (0.1, 2), (1.0, 2), (1.0, 3)):
        more = replace(settings, epsilon=epsilon, truth_seeds=runs)
        found = ope.evaluate_offline(folder, ["sjf_now"], more, out=tmp_path / "out")
        truths.append(found.rows["truth"][0])
        seeds.append(pl.read_parquet(tmp_path / "out/truth/scores.parquet")["seed"].n_unique())
    assert truths[0] == truths[1] > truths[2]
    assert seeds == [2, 2, 2, 3]


@pytest.mark.slow
def test_a_log_of_a_rule_over_the_memory_has_no_mixture(tmp_path):
    rules = 'behaviours=[{policy="conservative"}, {policy="sjf_easy", epsilon=0.1}]'
    queue = load_recipe(write_log(tmp_path), ('split.validation="2..3"', rules))
    build(queue, behaviours(queue), tmp_path / "log")
    settings = replace(FAST, estimators=("is", "gp"), limit=1000)
    found = ope.evaluate_offline(tmp_path / "log", ["sjf_easy"], settings)
    assert found.rows["estimator"].to_list() == ["is"]
    notes = "\n".join(found.description["notes"])
    assert "no mixture: conservative is not a known behaviour" in notes
    assert "gp: left out, since conservative is not a known behaviour" in notes


@pytest.mark.slow
def test_a_logged_rule_is_estimated_well(result):
    """The mixture includes the rule, so the estimate is within a fifth of the truth."""
    found, _out = result
    own = found.rows.filter((pl.col("policy") == "sjf_now") & (pl.col("estimator") == "snpdis"))
    value, truth = own.select("value", "truth").row(0)
    assert value == pytest.approx(truth, rel=0.2)


@pytest.mark.nightly
def test_an_interrupted_call_goes_on_and_ends_the_same(folder, result, tmp_path, monkeypatch):
    """Finished policies are not estimated again, and the result is the same."""
    expected, _out = result
    estimated = []
    real = ope._Job.estimate

    def interrupted(self, behaviour):
        if len(estimated) == 2:
            raise KeyboardInterrupt
        estimated.append(behaviour.name)
        return real(self, behaviour)

    monkeypatch.setattr(ope._Job, "estimate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ope.evaluate_offline(folder, POLICIES, FAST, out=tmp_path / "out")
    assert not (tmp_path / "out" / "ope.json").exists()
    other = replace(FAST, seed=5)
    with pytest.raises(DatasetError, match="unfinished call"):
        ope.evaluate_offline(folder, POLICIES, other, out=tmp_path / "out")
    again = []
    monkeypatch.setattr(
        ope._Job, "estimate", lambda self, b: (again.append(b.name), real(self, b))[1]
    )
    found = ope.evaluate_offline(folder, POLICIES, FAST, out=tmp_path / "out")
    assert (estimated, again) == (POLICIES[:2], POLICIES[2:])
    assert found.rows.equals(expected.rows)


def test_a_rule_that_draws_parameters_is_refused(folder):
    with pytest.raises(InputError, match="random_linear draws its parameters"):
        ope.evaluate_offline(folder, ["random_linear"], FAST)


def test_a_log_without_propensities_is_refused(folder, monkeypatch):
    """Imported histories have no propensities, and the message explains the consequence."""
    real = ope.read_episodes

    def unknown(*arguments, **settings):
        log = real(*arguments, **settings)
        return replace(log, propensity=np.full(log.decisions, np.nan))

    monkeypatch.setattr(ope, "read_episodes", unknown)
    with pytest.raises(InputError, match="propensities are not known"):
        ope.evaluate_offline(folder, ["sjf_now"], FAST)


def test_foreign_folders_are_left_alone(folder, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(StorageError, match=r"thesis\.txt"):
        ope.evaluate_offline(folder, ["sjf_now"], FAST, out=tmp_path)


@pytest.mark.parametrize(
    ("settings", "error"),
    [({"estimators": ("dmm",)}, UnknownName), ({"epsilon": 1.5}, InputError),
     ({"temperature": -1.0}, InputError)],
    ids=["estimator", "epsilon", "temperature"],
)  # fmt: skip
def test_bad_settings_are_refused(settings, error):
    with pytest.raises(error):
        ope.OPESettings(**settings)


@pytest.mark.slow
def test_the_command_prints_estimates_beside_truths(folder, tmp_path, capsys):
    out = tmp_path / "out"
    line = ["ope", str(folder), "--policy", *POLICIES, "--estimators", "snis", "tempered",
            "--out", str(out)]  # fmt: skip
    assert main(line) == 0
    printed = capsys.readouterr().out
    assert "sjf_now: answers" in printed
    assert "\n  true return -" in printed
    assert "rank correlation" in printed
    assert "ess " in printed
    assert "true return of the best of the first k" not in printed  # gp gives the order
    assert printed.rstrip().endswith(str(out))
    assert (out / "ope.json").exists()


@pytest.mark.slow
def test_an_estimate_that_may_be_biased_has_no_interval(folder, capsys):
    line = ["ope", str(folder), "--policy", "sjf_now", "--estimators", "snis", "tempered",
            "--no-truth"]  # fmt: skip
    assert main(line) == 0
    printed = capsys.readouterr().out.splitlines()
    [snis], [tempered] = ([row for row in printed if row.startswith(f"  {name} ")]
                          for name in ("snis", "tempered"))  # fmt: skip
    assert "beside" in tempered
    assert "[" not in tempered
    assert "[" in snis


@pytest.mark.slow
def test_the_command_without_truth_and_as_json(folder, capsys):
    line = ["ope", str(folder), "--policy", "sjf_now", "--estimators", "snis", "--no-truth",
            "--json"]  # fmt: skip
    assert main(line) == 0
    about, row = map(json.loads, capsys.readouterr().out.splitlines())
    assert about["notes"][1:] == ["no truth: the simulation was switched off"]
    assert row["truth"] is None
    assert row["estimator"] == "snis"


def test_the_command_names_the_nearest_policy(folder, capsys):
    assert main(["ope", str(folder), "--policy", "sjf_nwo"]) == 2
    assert "did you mean 'sjf_now'" in capsys.readouterr().err


@pytest.mark.slow
def test_a_report_of_estimates_alone_shows_their_truth_too(result, tmp_path):
    """True values inside the folder are shown like any other evaluation."""
    _found, out = result
    page = tmp_path / "page"
    assert main(["report", str(out), "--out", str(page), "--direct"]) == 0
    html = (page / "report.html").read_text()
    assert "Off-policy estimates" in html
    assert "How well estimators pick" in html
    assert "snpdis" in html
    first = html
    report.run(report.Request((str(out / "truth"),), str(page), estimates=(str(out),)))
    assert (page / "report.html").read_text() == first


def test_results_hold_no_nan():
    assert results.finite({"a": [float("nan"), 1.0], 3: float("inf")}) == {
        "a": [None, 1.0],
        "3": None,
    }


@pytest.mark.slow
def test_paths_and_strings_open_the_same(folder):
    settings = replace(FAST, estimators=("snis",), truth_seeds=0)
    one = ope.evaluate_offline(str(folder), ["sjf_now"], settings).rows
    assert one.equals(ope.evaluate_offline(Path(folder), ["sjf_now"], settings).rows)
