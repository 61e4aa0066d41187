"""Tests of RLScheduler's protocol: its commands, and what is read from made-up files."""

import itertools
import json
import math

import polars as pl
import pytest

from hindcast.flows.papers.published import number, published
from hindcast.flows.papers.rlscheduler import commands as protocol
from hindcast.flows.papers.rlscheduler import protocol as paper
from hindcast.flows.papers.rlscheduler.files import (
    AGENT,
    OFFLINE,
    ONLINE,
    VALIDATION,
    read_calibration,
)
from hindcast.flows.papers.rlscheduler.published_tables import SETTINGS
from hindcast.flows.parser import parse
from hindcast.flows.protocols import OUT, Setting
from hindcast.pipeline.errors import DatasetError, InputError

FULL = Setting((0, 1, 2, 3, 4))
QUICK = Setting((0, 1, 2, 3, 4), quick=True)
TABLE = "setting,policy,metric,ours,standard_error,spec,difference_percent,paper\n"
# Mean of each policy on the made-up windows; the agent has a mean per seed.
MEANS = {name: 100.0 + 10 * i for i, name in enumerate(("random", *protocol.RULES))}
SEEDS = {AGENT: (95.0, 85.0), ONLINE: (70.0, 80.0), OFFLINE: (120.0, 130.0)}


def words_of(setting, name):
    """Return the words of a stage."""
    return next(stage.words for stage in paper.stages(setting) if stage.name == name)


def evaluation(folder, windows, policies, trained):
    """Write an evaluation in which a policy's scores differ from its mean by -1, 0, 1 in turn."""
    kinds = {"random": "random"}
    known = {name: (name, kinds.get(name, "heuristic"), MEANS[name]) for name in policies}
    for group in trained:
        for seed, mean in enumerate(SEEDS[group]):
            known[f"{group}-seed{seed}"] = (group, "learned", mean)
    rows = [
        (name, "rlscheduler", window, 0, metric, scale * (mean + window % 3 - 1))
        for name, (_, _, mean) in known.items()
        for window in range(windows)
        for metric, scale in (("average_bounded_slowdown", 1.0), ("utilisation", 0.001))
    ]
    columns = ["policy", "scenario", "window", "seed", "metric", "value"]
    folder.mkdir(parents=True)
    pl.DataFrame(rows, schema=columns, orient="row").write_parquet(folder / "scores.parquet")
    about = {
        "recipe": "r-v1", "scenario": "rlscheduler", "headline": "average_bounded_slowdown",
        "metrics": [{"name": "average_bounded_slowdown", "better": "lower"}],
        "policies": [{"name": n, "group": g, "kind": k} for n, (g, k, _) in known.items()],
    }  # fmt: skip
    (folder / "evaluation.json").write_text(json.dumps(about))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Write what the stages of a quick reproduction would write."""
    place = tmp_path_factory.mktemp("rlscheduler")
    for trace, backfill in SETTINGS:
        at = protocol.evaluation_of(trace, "sequences", backfill=backfill)
        evaluation(place / at, 9, protocol.RULES, [AGENT])
        at = protocol.evaluation_of(trace, "unseen", backfill=backfill)
        evaluation(place / at, 6, ("random", *protocol.RULES), [AGENT, ONLINE, OFFLINE])
    for (folder, _), seed in itertools.product(protocol.LOGS.values(), (0, 1)):
        curve = [(1, VALIDATION, 40.0 + 2 * seed), (2, VALIDATION, 30.0), (2, "kl", 0.1)]
        (place / folder / f"ppo-seed{seed}").mkdir()
        pl.DataFrame(curve, schema=["step", "metric", "value"], orient="row").write_parquet(
            place / folder / f"ppo-seed{seed}" / "metrics.parquet"
        )
    (place / "tables.csv").write_text(
        f"{TABLE}Lublin-1,fcfs,average_bounded_slowdown,7273.7714,494.4,,,7273.77\n"
        "Lublin-1,sjf,average_bounded_slowdown,280.0,28.0,,,277.35\n"
        "Lublin-1,paper_agent,average_bounded_slowdown,,,,,254.67\n"
        "Lublin-1,saf,average_bounded_slowdown,292.88,29.288,,,\n"
        "Lublin-1,fcfs,utilisation_percent,65.72,1.0,,,65.7\n"
    )
    return place


@pytest.fixture(scope="module")
def results(place):
    """Return the results of the made-up files."""
    return paper.results(place, QUICK)


def cell(results, table, row, column):
    """Return a cell of a table."""
    return results.tables.row(
        by_predicate=(pl.col("table") == table)
        & (pl.col("row") == row)
        & (pl.col("column") == column),
        named=True,
    )


def claim(results, name):
    """Return a claim."""
    return results.claims.row(by_predicate=pl.col("claim") == name, named=True)


# ----------------------------------------------------------------------------------------- protocol


@pytest.mark.parametrize("setting", [FULL, QUICK])
def test_every_stage_is_a_command_line_that_writes_its_output(setting):
    stages = paper.stages(setting)
    assert len({stage.name for stage in stages}) == len(stages)
    assert len({stage.output for stage in stages}) == len(stages)
    for stage in stages:
        words = [word.replace(OUT, "/tmp/reproduction") for word in stage.words]
        arguments = parse(words)
        assert arguments.read(arguments).out in f"/tmp/reproduction/{stage.output}"
        assert stage.minutes > 0.0


def test_a_full_reproduction_takes_less_than_three_hours_and_a_quick_one_ten_minutes():
    assert sum(stage.minutes for stage in paper.stages(FULL)) < 180
    assert sum(stage.minutes for stage in paper.stages(QUICK)) < 10


def test_the_stages_of_an_agent_come_before_those_that_score_it():
    seen = set()
    for stage in paper.stages(FULL):
        for word in stage.words[1:]:
            if word.startswith(OUT) and stage.words[stage.words.index(word) - 1] != "--out":
                folder = word.removeprefix(f"{OUT}/").removesuffix("/best")
                assert any(output.startswith(f"{folder}/") for output in seen)
        seen.add(stage.output)


def test_full_has_all_seeds_and_quick_is_a_smaller_run_of_the_same_kind():
    full, quick = (paper.stages(setting) for setting in (FULL, QUICK))
    assert {s.name for s in quick} < {s.name for s in full}
    assert [s.name for s in full if "lublin1-ppo" in s.name] == [
        f"lublin1-ppo-seed{seed}" for seed in FULL.seeds
    ]
    long, short = (words_of(setting, "lublin1-ppo-seed1") for setting in (FULL, QUICK))
    assert long[long.index("--seed") + 1] == short[short.index("--seed") + 1] == "1"
    assert int(long[long.index("--iterations") + 1]) > int(short[short.index("--iterations") + 1])


def test_rules_play_the_same_windows_in_both_sizes():
    for name in ("hpc2n-sequences", "hpc2n-unseen-backfill"):
        full, quick = (
            [w for w in words_of(setting, name) if "seed" not in w and w not in {"1", "2"}]
            for setting in (FULL, QUICK)
        )
        assert full == quick


def test_a_seed_of_the_setting_is_trained_and_scored():
    names = [stage.name for stage in paper.stages(Setting((7,)))]
    assert "lublin1-ppo-seed7" in names
    assert f"{OUT}/lublin1/ppo-seed7/best" in words_of(Setting((7,)), "lublin1-unseen")


# ------------------------------------------------------------------------------------------ results


def test_printed_numbers_are_those_of_the_paper():
    printed = published("rlscheduler")
    assert printed.height == 96
    assert number(printed, "table 5", "Lublin-1", "wfp") == 19753.53
    assert number(printed, "table 5", "HPC2N, backfilling", "paper_agent") == 86.14
    assert number(printed, "table 6", "SDSC-SP2, backfilling", "sjf") == 0.661
    assert number(printed, "table 6", "Lublin-2", "paper_agent") == 0.562


@pytest.mark.slow
def test_a_table_has_published_beside_measured(results):
    found = cell(results, "table 5", "Lublin-1", "fcfs")
    assert found["published"] == 7273.77
    assert found["measured"] == pytest.approx(MEANS["fcfs"])
    assert found["low"] < found["measured"] < found["high"]
    agent = cell(results, "table 5", "Lublin-1", "paper_agent")
    assert (agent["published"], agent["measured"]) == (254.67, pytest.approx(90.0))
    assert cell(results, "table 6", "Lublin-1", "paper_agent")["measured"] is None
    assert cell(results, "table 6", "Lublin-1", "uni")["measured"] == pytest.approx(0.13)


@pytest.mark.slow
def test_agreement_counts_numbers_that_are_equal_as_printed(results):
    """Of the two slowdowns of rules one is equal, the other is 2.65 off; utilisation is equal."""
    for column, count in (("numbers", 2.0), ("equal as printed", 1.0)):
        assert cell(results, "agreement", "table 5", column)["measured"] == count
    assert cell(results, "agreement", "table 5", "largest difference")["measured"] == (
        pytest.approx(2.65)
    )
    assert cell(results, "agreement", "table 6", "equal as printed")["measured"] == 1.0
    assert cell(results, "standard errors", "Lublin-1", "saf")["measured"] == pytest.approx(10.0)


@pytest.mark.slow
def test_beside_has_every_kind_of_policy_and_the_difference_to_the_agent(results):
    beside = results.tables.filter(table="beside")
    assert beside.height == len(SETTINGS) * (5 + 4)
    rule = cell(results, "beside", "HPC2N: strongest rule: fcfs", "minus the paper's agent")
    assert rule["measured"] == pytest.approx(MEANS["fcfs"] - 90.0)
    assert rule["low"] < rule["measured"] < rule["high"]  # over the seeds


@pytest.mark.slow
def test_claims_compare_the_right_policies(results):
    assert results.claims.height == 6 * len(SETTINGS)
    # wfp3 is 80 above sjf in the made-up files, as wfp is above it in print
    sign = claim(results, "wfp3 against sjf, Lublin-1")
    assert sign["published"] == pytest.approx(19753.53 - 277.35)
    assert sign["measured"] == pytest.approx(MEANS["wfp3"] - MEANS["sjf"])
    assert (sign["direction"], sign["size"]) == ("yes", "smaller")
    agent = claim(results, "agent against f1, Lublin-1")
    assert agent["published"] == pytest.approx(254.67 - 258.37)
    assert agent["measured"] == pytest.approx(90.0 - MEANS["f1"])
    assert (agent["direction"], agent["size"]) == ("not shown", "yes")  # by two seeds
    printed = claim(results, "published agent, Lublin-1")  # 254.67 less fcfs, the best rule here
    assert printed["measured"] == pytest.approx(254.67 - MEANS["fcfs"])
    assert printed["direction"] == "no"
    # print: f1, sjf, fcfs, wfp, uni; made-up files: fcfs, wfp, uni, sjf, f1
    assert claim(results, "order, Lublin-1")["order"] == "no"


@pytest.mark.slow
def test_figures_have_texts_and_one_name_per_policy(results):
    assert set(results.figures["figure"]) == set(results.figure_texts)
    assert set(results.tables["table"]) == set(results.table_texts)
    series = {name.removesuffix(" (paper)") for name in results.figures["series"]}
    known = {"random", *protocol.RULES, AGENT, ONLINE, OFFLINE, "ppo", "paper_agent"}
    assert series == known
    learning = results.figures.filter(figure="learning", panel="HPC2N")
    assert learning.select("x", "y", "low", "high").rows() == [
        ("1", 41.0, 40.0, 42.0),
        ("2", 30.0, 30.0, 30.0),
    ]
    assert all(math.isfinite(y) for y in results.figures["y"])


def test_a_missing_evaluation_is_named(place, tmp_path):
    (tmp_path / "tables.csv").write_bytes((place / "tables.csv").read_bytes())
    with pytest.raises(DatasetError, match="lublin1/sequences"):
        paper.results(tmp_path, QUICK)


def test_a_table_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "tables.csv"
    with pytest.raises(InputError, match=r"tables\.csv: there is no such file"):
        read_calibration(path)
    path.write_text("setting,policy\nLublin-1,fcfs\n")
    with pytest.raises(InputError, match="no column 'metric'"):
        read_calibration(path)
    path.write_text(f"{TABLE}Lublin-1,fcfs,utilisation_percent,many,,,,\n")
    with pytest.raises(InputError, match=r"tables\.csv: expected the table of calibrate"):
        read_calibration(path)
