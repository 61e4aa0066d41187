"""Tests of DeepRM's protocol: its commands, and what is read from made-up files."""

import json
import math

import numpy as np
import polars as pl
import pytest

from hindcast.flows.papers.deeprm import commands as protocol
from hindcast.flows.papers.deeprm import protocol as deeprm
from hindcast.flows.papers.deeprm.files import (
    AGENT,
    DRAWING,
    NATURAL,
    OFFLINE,
    ONLINE,
    over_seeds,
    read,
    read_curve,
    tenths,
)
from hindcast.flows.papers.folder import read_results, write_results
from hindcast.flows.papers.published import number, published
from hindcast.flows.parser import parse
from hindcast.flows.protocols import OUT, Setting
from hindcast.pipeline.errors import DatasetError

FULL = Setting((0, 1, 2, 3, 4))
QUICK = Setting((0, 1), quick=True)
WINDOWS = 6
# Slowdown of each rule, and of the seeds of each agent, on the made-up windows
RULES = dict(zip(protocol.RULES, (7.0, 4.0, 6.0, 9.0, 3.5, 2.6, 2.5), strict=True))
AGENTS = {AGENT: (2.0, 2.2), NATURAL: (2.3, 2.5), ONLINE: (1.9,), OFFLINE: (2.4, 2.6)}
SJF, PACKER = 1.4939, 1.6943  # published at rate 0.1


def words_of(setting, name):
    """Return the words of a stage."""
    return next(stage.words for stage in deeprm.stages(setting) if stage.name == name)


def evaluation(folder, groups, load=0.738, completion=10.0, used=0.5):
    """Write an evaluation in which a policy's slowdowns differ from its mean by -.1, 0, .1."""
    known = {name: (name, "heuristic", mean) for name, mean in RULES.items()}
    for group in groups:
        for seed, mean in enumerate(AGENTS.get(group, (3.0,))):
            known[f"{group}-seed{seed}"] = (group, "learned", mean)
    rows = []
    for name, (_, _, mean) in known.items():
        for window in range(WINDOWS):
            slowdown = mean + 0.1 * (window % 3 - 1)
            values = {
                "mean_slowdown": slowdown, "slowdown_sum": 20 * slowdown, "unfinished": 0.0,
                "mean_completion_s": completion + mean, "utilisation": used,
                "expected_load": load, "offered_load": load + 0.01 * window, "report_load": 0.7,
            }  # fmt: skip
            rows += [(name, "slots", window, 0, metric, v) for metric, v in values.items()]
    write(folder, rows, {name: entry[:2] for name, entry in known.items()})


def write(folder, rows, policies):
    """Write an evaluation."""
    folder.mkdir(parents=True)
    columns = ["policy", "scenario", "window", "seed", "metric", "value"]
    pl.DataFrame(rows, schema=columns, orient="row").write_parquet(folder / "scores.parquet")
    about = {
        "recipe": "r-v1", "scenario": "slots", "headline": "mean_slowdown",
        "metrics": [{"name": "mean_slowdown", "better": "lower"}],
        "policies": [{"name": n, "group": g, "kind": k} for n, (g, k) in policies.items()],
    }  # fmt: skip
    (folder / "evaluation.json").write_text(json.dumps(about))


def curve(folder, values):
    """Write a training whose slowdowns are `values`, each after 25 more iterations."""
    folder.mkdir(parents=True)
    rows = [(25 * i, "mean_slowdown", v) for i, v in enumerate(values, start=1)]
    rows += [(25 * i, "return", -20.0 * v) for i, v in enumerate(values, start=1)]
    pl.DataFrame(rows, schema=["step", "metric", "value"], orient="row").write_parquet(
        folder / "metrics.parquet"
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Write what the stages of a quick reproduction would write."""
    place = tmp_path_factory.mktemp("deeprm")
    for rate in protocol.RATES:
        own = [NATURAL, ONLINE, OFFLINE] if rate == protocol.RECIPE_RATE else []
        evaluation(place / protocol.folder_of(rate) / "scores", [AGENT, *own], 1.845 * rate)
    evaluation(place / "rate04" / "training", [])
    evaluation(place / "image" / "scores", [AGENT, DRAWING])
    evaluation(place / "report" / "scores", [AGENT])
    evaluation(place / "completion" / "scores", [AGENT], completion=8.0)
    evaluation(place / "utilisation" / "scores", [AGENT], used=0.4)
    falling = [6.0 - 0.1 * step for step in range(40)]
    for name in ("rate04/reinforce", "rate07/reinforce", "rate07/natural", "image/reinforce"):
        for seed in (0, 1):
            curve(place / f"{name}-seed{seed}", [v + 0.2 * seed for v in falling])
    for rate in protocol.COMPAT_RATES:
        rows = [
            (name, "slots", window, 0, metric, value)
            for name, slowdown in (("sjf_now", SJF), ("packer_now", PACKER))
            for window in range(2)
            for metric, value in (
                ("mean_slowdown", slowdown), ("slowdown_sum", 263 * slowdown), ("jobs", 263.0),
                ("time_steps", 2600.0), ("actions", 2800.0),
            )
        ]  # fmt: skip
        folder = place / "compat" / protocol.folder_of(rate)
        write(folder, rows, {n: (n, "heuristic") for n in protocol.COMPAT_RULES})
    return place


@pytest.fixture(scope="module")
def results(place):
    """Return the results of the made-up files."""
    return deeprm.results(place, QUICK)


def cell(results, table, row, column):
    """Return a cell of a table."""
    wanted = (pl.col("table") == table) & (pl.col("row") == row) & (pl.col("column") == column)
    return results.tables.row(by_predicate=wanted, named=True)


def claim(results, name):
    """Return a claim."""
    return results.claims.row(by_predicate=pl.col("claim") == name, named=True)


# ----------------------------------------------------------------------------------------- protocol


@pytest.mark.parametrize("setting", [FULL, QUICK])
def test_every_stage_is_a_command_line_that_writes_its_output(setting):
    stages = deeprm.stages(setting)
    assert len({stage.name for stage in stages}) == len(stages)
    assert len({stage.output for stage in stages}) == len(stages)
    for stage in stages:
        arguments = parse([word.replace(OUT, "/tmp/reproduction") for word in stage.words])
        request = arguments.read(arguments)
        assert f"/tmp/reproduction/{stage.output}".startswith(f"{request.out}/")
        assert stage.minutes > 0.0


def test_folders_that_a_stage_reads_were_written_before():
    for setting in (FULL, QUICK):
        written = set()
        for stage in deeprm.stages(setting):
            read = [w for w in stage.words if w.startswith(OUT)]
            own = read.pop()  # --out comes last
            for word in read:
                assert word.partition("@")[0].removesuffix("/best") in written
            written.add(own)


def test_a_full_reproduction_takes_less_than_three_hours_and_a_quick_one_ten_minutes():
    assert sum(stage.minutes for stage in deeprm.stages(FULL)) < 180
    assert sum(stage.minutes for stage in deeprm.stages(QUICK)) < 10


def test_seeds_are_those_of_the_setting():
    names = {stage.name for stage in deeprm.stages(Setting((3, 7, 8)))}
    assert {f"rate04-reinforce-seed{seed}" for seed in (3, 7, 8)} <= names
    assert {"rate01-reinforce-seed3", "rate01-reinforce-seed7"} <= names
    assert "rate01-reinforce-seed8" not in names
    words = words_of(Setting((3, 7, 8)), "rate04-reinforce-seed7")
    assert words[words.index("--seed") + 1] == "7"


def test_a_full_training_is_the_papers_and_a_quick_one_is_short():
    full, quick = (words_of(s, "rate04-reinforce-seed0") for s in (FULL, QUICK))
    assert full[full.index("--iterations") + 1] == "1000"
    assert int(quick[quick.index("--iterations") + 1]) < 100
    assert "config.arrival_rate=0.4" in full
    assert not any("sampling" in word or "learning_rate" in word for word in full)
    assert any("sampling.trajectories" in word for word in quick)


def test_every_evaluation_has_the_rules():
    for stage in deeprm.stages(FULL):
        if stage.words[0] == "evaluate" and not stage.name.startswith("compat"):
            assert set(protocol.RULES) <= set(stage.words)


# ------------------------------------------------------------------------------------------ results


def test_published_numbers_are_those_of_the_released_programs():
    printed = published("deeprm")
    of = "published simulator"
    assert number(printed, of, "rate 0.7, packer_now", "slowdown") == 12.4236
    assert number(printed, of, "rate 0.9, sjf_now", "actions") == 16707
    assert number(printed, "released model", "reinforce", "slowdown") == 4.756
    assert number(printed, "released model", "reinforce", "finished") == 26
    assert printed["place"].str.starts_with("not printed").all()


@pytest.mark.slow
def test_rows_of_the_published_simulator_are_sums_over_its_examples(results):
    got = cell(results, "published simulator", "rate 0.1, sjf_now", "slowdown")
    assert (got["measured"], got["published"]) == (pytest.approx(SJF), SJF)
    got = cell(results, "published simulator", "rate 0.1, packer_now", "jobs")
    assert (got["measured"], got["published"]) == (526, 526)
    got = cell(results, "published simulator", "rate 0.1, sjf_now", "time steps")
    assert (got["measured"], got["published"]) == (5200, 5221)


@pytest.mark.slow
def test_beside_has_rules_agents_and_differences_from_the_papers_agent(results):
    rows = results.tables.filter(table="beside")["row"].unique(maintain_order=True).to_list()
    assert rows[:5] == [
        "the paper's agent: reinforce-best", "random", "strongest rule: hold_8",
        "best offline agent: advantage_cloning", "best online agent: counterfactual-best",
    ]  # fmt: skip
    assert rows[-1] == "natural_gradient"
    got = cell(results, "beside", "strongest rule: hold_8", "minus the paper's agent")
    assert got["measured"] == pytest.approx(2.5 - 2.1)
    assert got["low"] == pytest.approx(0.4 - 12.7062 * 0.1, abs=1e-4)  # two seeds
    assert got["high"] == pytest.approx(0.4 + 12.7062 * 0.1, abs=1e-4)


@pytest.mark.slow
def test_the_sweep_has_every_load_and_policy(results):
    figure = results.figures.filter(figure="load sweep")
    assert figure["series"].unique(maintain_order=True).to_list() == ["reinforce", *protocol.RULES]
    loads = figure["x"].unique(maintain_order=True).cast(pl.Float64).to_list()
    assert loads == pytest.approx([18.45 * k for k in range(1, 11)], rel=1e-3)
    assert cell(results, "load sweep", "rate 0.3", "packer_now")["measured"] == pytest.approx(9.0)
    load = cell(results, "loads", "rate 0.4", "offered load")
    assert load["measured"] == pytest.approx(76.3)


def test_curves_of_training_are_read_by_tenths(place):
    curves = read_curve([place / f"rate04/reinforce-seed{seed}" for seed in (0, 1)], "return")
    assert curves.values.shape == (2, 40)
    assert curves.iterations.tolist() == [25 * i for i in range(1, 41)]
    assert tenths(curves)[0, 0] == pytest.approx(-20 * 5.85)


@pytest.mark.slow
def test_training_has_a_band_over_seeds_beside_lines_of_rules(results):
    first = results.figures.filter(figure="figure 3a", series="reinforce").row(0, named=True)
    assert (first["y"], first["low"], first["high"]) == pytest.approx((6.1, 6.0, 6.2))
    flat = results.figures.filter(figure="figure 3b", series="hold_8")
    assert flat["y"].to_list() == pytest.approx([-50.0, -50.0])
    assert flat["x"].to_list() == ["25", "1000"]


@pytest.mark.slow
def test_objectives_are_scored_on_their_own_metric(results):
    got = cell(results, "objectives", "reinforce for completion", "completion time")
    assert got["measured"] == pytest.approx(10.1)
    assert cell(results, "objectives", "hold_5", "utilisation")["measured"] == pytest.approx(0.5)


@pytest.mark.slow
def test_claims_have_verdicts(results):
    assert claim(results, "order of Fig. 4")["order"] == "yes"
    assert claim(results, "load sweep")["order"] == "yes"
    got = claim(results, "reinforce against sjf_now, rate 0.4")
    assert (got["direction"], got["size"], got["published"]) == ("yes", "-", None)
    assert got["measured"] == pytest.approx(-1.9)
    assert claim(results, "slowdown falls in every tenth")["order"] == "yes"
    assert claim(results, "reward rises in training")["measured"] == pytest.approx(72.0)
    assert claim(results, "natural gradient")["direction"] == "no"
    assert claim(results, "the papers' network against hold_8")["direction"] == "no"
    assert claim(results, "completion, against the agent for slowdown")["direction"] == "yes"
    assert claim(results, "utilisation, against sjf_now")["direction"] == "not shown"
    got = claim(results, "utilisation, against the agent for slowdown")
    assert (got["direction"], got["measured"]) == ("no", pytest.approx(-0.1))
    assert not any(math.isnan(low) for low in results.claims["low"].drop_nulls())


def test_one_seed_has_no_interval_over_seeds():
    value, low, high = over_seeds(np.array([3.0]))
    assert value == 3.0
    assert math.isnan(low)
    assert math.isnan(high)


@pytest.mark.slow
def test_results_are_written_and_drawn(results, tmp_path):
    about = {"paper": "deeprm", "title": "t", "source": "s", "stages": [], "setting": {}}
    write_results(tmp_path, results, about)
    _, again = read_results(tmp_path)
    assert again.tables.height == results.tables.height
    assert set(results.table_texts) == set(results.tables["table"])
    assert set(results.figure_texts) == set(results.figures["figure"])
    assert len(list(tmp_path.glob("*.svg"))) == len(results.figure_texts)


@pytest.mark.parametrize("missing", ["rate01/scores", "rate03/scores"])
def test_a_missing_evaluation_is_named(place, missing):
    moved = (place / missing).rename(place / "moved")
    try:
        with pytest.raises(DatasetError, match=missing):
            read(place, QUICK)
    finally:
        moved.rename(place / missing)


def test_a_training_without_curve_is_named(place, tmp_path):
    with pytest.raises(DatasetError, match=r"metrics.parquet.*0 rows of 'nothing', expected some"):
        read_curve([place / "rate04/reinforce-seed0"], "nothing")
    curve(tmp_path / "short", [1.0, 2.0])
    with pytest.raises(DatasetError, match=r"2 rows of 'return', expected those of .*seed0"):
        read_curve([place / "rate04/reinforce-seed0", tmp_path / "short"], "return")
    with pytest.raises(DatasetError, match=r"metrics\.parquet"):
        read_curve([tmp_path / "absent"], "return")
