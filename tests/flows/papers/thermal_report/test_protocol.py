"""Tests of the protocol of the 2018 report: its commands, and what is read from made-up files."""

import itertools
import json
import shutil

import polars as pl
import pytest

from hindcast.flows.papers.published import number, published
from hindcast.flows.papers.results import CLAIM, FIGURE, TABLE
from hindcast.flows.papers.thermal_report import protocol as paper
from hindcast.flows.papers.thermal_report.calibration import calibrate
from hindcast.flows.papers.thermal_report.choices import COLUMNS
from hindcast.flows.papers.thermal_report.texts import MEASURED, QUANTITIES, RULES, SETTINGS, WHICH
from hindcast.flows.protocols import OUT, Setting
from hindcast.pipeline.errors import DatasetError, HindcastError

FULL, QUICK = Setting((0, 1, 2, 3, 4)), Setting((0, 1), quick=True)
WINDOWS, STEPS, MINIBATCHES = 5, (50, 100), 4
# Return of window 0; every later window has 10 less.
RETURNS = {name: -2000.0 - 100.0 * place for place, name in enumerate(reversed(RULES))}
RETURNS |= {"random": -9000.0}
AGENTS = {"report_dqn": -3000.0, "report_dqn-best": -2950.0}
OURS = {"advantage_regression": -1990.0, "ppo-best": -1900.0}
LOGGED = {"behaviour:random": -8000.0, "behaviour:max_usage+eps0.2": -4000.0}


def entrants(agents):
    """Return (group, kind, return) of every policy; the second seed of an agent is worse."""
    found = {name: (name, "heuristic", level) for name, level in RETURNS.items()}
    found["random"] = ("random", "random", RETURNS["random"])
    found |= {name: ("behaviour", "mixture", level) for name, level in LOGGED.items()}
    for (group, level), seed in itertools.product(agents.items(), QUICK.seeds):
        found[f"{group}-seed{seed}"] = (group, "learned", level - 20.0 * seed)
    return found


def evaluation(folder, agents):
    """Write an evaluation; the chosen server is always busier, farther and less efficient."""
    rows = []
    for (name, (_, _, level)), window in itertools.product(entrants(agents).items(),
                                                           range(WINDOWS)):  # fmt: skip
        numbers = {
            **dict.fromkeys(MEASURED, 1.0 + window), "return": level - 10.0 * window,
            "level_per_step": (level - 10.0 * window) / 2200,
            "chosen_usage": 0.6, "others_usage": 0.4, "chosen_efficiency": 0.7,
            "others_efficiency": 0.8 + window / 100, "chosen_distance": 3.0,
            "others_distance": 2.0,
        }  # fmt: skip
        rows += [(name, "thermal", window, 0, metric, v) for metric, v in numbers.items()]
    columns = ["policy", "scenario", "window", "seed", "metric", "value"]
    folder.mkdir(parents=True)
    pl.DataFrame(rows, schema=columns, orient="row").write_parquet(folder / "scores.parquet")
    about = {
        "recipe": "r-v1", "scenario": "thermal", "headline": "level_per_step",
        "metrics": [{"name": "level_per_step", "better": "higher"}],
        "policies": [
            {"name": n, "group": g, "kind": k, "episodes": 1 if k == "mixture" else None}
            for n, (g, k, _) in entrants(agents).items()
        ],
    }  # fmt: skip
    (folder / "evaluation.json").write_text(json.dumps(about))


def estimates(folder):
    """Write off-policy estimates of two policies by two estimators, one of which fails."""
    rows = [
        {"group": policy, "policy": policy, "estimator": estimator, "truth": truth,
         "truth_low": truth - 5.0, "truth_high": truth + 5.0,
         "value": None if estimator == "dr" and policy == "random" else truth + 100.0,
         "low": truth + 50.0, "high": truth + 150.0}
        for policy, truth in (("random", -9000.0), ("window_short", -2000.0))
        for estimator in ("snis", "dr")
    ]  # fmt: skip
    folder.mkdir()
    pl.DataFrame(rows).write_parquet(folder / "estimates.parquet")
    ranks = {"rank_correlation": 1.0, "regret": {"1": 0.0}, "type_1": 0.0, "type_2": None}
    about = {
        "estimators": [{"name": name, "rank_correlation_new": 0.5, **ranks}
                       for name in ("snis", "dr")],
        "consensus": None,
    }  # fmt: skip
    (folder / "ope.json").write_text(json.dumps(about))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Write what the stages of a quick reproduction would write."""
    place = tmp_path_factory.mktemp("thermal")
    evaluation(place / "sizes" / "evaluation", AGENTS)
    evaluation(place / "tight" / "evaluation", AGENTS | OURS)
    for name, seed in itertools.product(SETTINGS, QUICK.seeds):
        rows = [
            (step, batch, 0.5, 0.97 + step / 10_000 + batch / 1000, 4.0 - seed, 0.3, 0.99, 2.0)
            for step, batch in itertools.product(STEPS, range(MINIBATCHES))
        ]
        table = pl.DataFrame(rows, schema=list(COLUMNS), orient="row")
        table.write_csv(place / name / f"choices-seed{seed}.csv")
    calibrate({}).write_csv(place / "record.csv")
    estimates(place / "ope")
    return place


@pytest.fixture(scope="module")
def results(place):
    """Return the results of the made-up files."""
    return paper.results(place, QUICK)


def cell(results, table, row, column):
    """Return a cell of a table."""
    found = results.tables.filter(table=table, row=row, column=column)
    return found.row(0, named=True)


def test_the_network_of_each_seed_is_trained_on_both_logs_and_played():
    stages = {stage.name: stage.words for stage in paper.stages(FULL)}
    for name, seed in itertools.product(SETTINGS, FULL.seeds):
        words = stages[f"train {name}/report_dqn-seed{seed}"]
        assert words[words.index("--checkpoint-every") + 1] == "100"
        assert words[words.index("--steps") + 1] == "2000"
        agent = f"{OUT}/{name}/report_dqn-seed{seed}"
        assert {agent, f"{agent}/best"} <= set(stages[f"evaluate {name}"])
        assert agent in stages[f"choices of {name}/report_dqn-seed{seed}"]
    assert paper.HISTORY in stages["build sizes"]
    assert paper.HISTORY not in stages["build tight"]


def test_a_quick_run_plays_the_windows_of_a_full_one():
    """So rules have the same scores in both."""
    full, quick = ({s.name: s for s in paper.stages(each)} for each in (FULL, QUICK))
    assert len(quick) < len(full)
    for name in SETTINGS:
        tests = [each[f"evaluate {name}"].words[3].partition("test=")[2] for each in (full, quick)]
        assert tests[0] == tests[1] != ""
    assert sum(s.minutes for s in quick.values()) < sum(s.minutes for s in full.values())


def test_printed_numbers_are_those_of_the_report():
    printed = published("thermal")
    assert number(printed, "figure 4", "total heat after job 0", "1e-17 heat") == 4.6919742701607256
    assert number(printed, "figure 4", "reward of job 0", "reward") == 27.00000047999997
    assert number(printed, "figure 7", "others", "highest") == 0.992
    assert number(printed, "configuration", "steps", "value") == 2200


@pytest.mark.slow
def test_results_have_the_columns_of_a_page(results):
    assert results.tables.schema == TABLE
    assert results.figures.schema == FIGURE
    assert results.claims.schema == CLAIM
    assert set(results.tables["table"]) == set(results.table_texts)
    assert set(results.figures["figure"]) == set(results.figure_texts)


@pytest.mark.slow
def test_sizes_and_the_printed_record_come_out(results):
    both = results.tables.filter(pl.col("table").is_in(["configuration", "figure 4"]))
    assert both.height == 8
    assert both["published"].to_list() == pytest.approx(both["measured"].to_list(), rel=1e-7)


@pytest.mark.slow
def test_figures_7_and_8_are_means_over_minibatches_and_seeds(results):
    batches = (0 + 1 + 2 + 3) / MINIBATCHES / 1000
    highest = cell(results, "figure 7", "chosen", "highest")
    assert (highest["published"], highest["measured"]) == (1.0, pytest.approx(0.98 + batches))
    assert highest["low"] < highest["measured"] < highest["high"]
    assert cell(results, "figure 8", "chosen", "mean")["measured"] == pytest.approx(3.5)
    line = results.figures.filter(
        pl.col("panel").str.starts_with("a"), figure="figure 8", series="chosen"
    )
    assert line["x"].to_list() == [str(step) for step in STEPS]
    low = 3.5 - 12.7062 * 0.5  # of two seeds, 3 and 4
    assert line["low"].to_list() == pytest.approx([low, low], abs=1e-4)
    drawn = results.figures.filter(series="not chosen (paper)", figure="figure 7")
    assert drawn["y"].to_list() == [0.985, 0.992]


@pytest.mark.slow
def test_policies_and_behaviours_are_played_beside_the_agent(results):
    for title in SETTINGS.values():
        table = f"simulator, {title}"
        gap = cell(results, table, "window_short", "return minus report_dqn")
        assert gap["measured"] == pytest.approx(1010.0)
        logged = cell(results, table, "behaviour:max_usage+eps0.2", "return")
        assert logged["measured"] == pytest.approx(-4020.0)
        assert cell(results, table, "behaviour", "return")["measured"] == pytest.approx(-6020.0)
    beside = results.tables.filter(table="beside")["row"].unique(maintain_order=True).to_list()
    assert beside == [
        "the paper's agent: report_dqn", "random", "strongest rule: window_short",
        "best offline agent: advantage_regression", "best online agent: ppo-best",
    ]  # fmt: skip


@pytest.mark.slow
def test_estimates_stand_beside_the_truth(results):
    truth = cell(results, "estimates", "random", "truth")
    assert (truth["measured"], truth["low"], truth["high"]) == (-9000.0, -9005.0, -8995.0)
    assert cell(results, "estimates", "window_short", "dr")["measured"] == -1900.0
    assert results.tables.filter(table="estimates", row="random", column="dr").is_empty()
    assert cell(results, "estimators", "snis", "rank_correlation")["measured"] == 1.0
    points = results.figures.filter(figure="estimates")
    assert points["series"].to_list().count("truth") == 2
    assert points["series"].to_list().count("dr") == 1


@pytest.mark.slow
def test_claims_have_their_verdicts(results):
    found = {row["claim"]: row["direction"] for row in results.claims.to_dicts()}
    for name in SETTINGS:
        assert found[f"efficiency-{name}-played"] == "no"
        assert found[f"efficiency-{name}"] == "no"  # .98 against .99
        kinds = ("distance", "usage", "learned", "far")
        assert [found[f"{kind}-{name}"] for kind in kinds] == ["not shown", "yes", "yes", "yes"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", ["tight/choices-seed1.csv", "record.csv", "ope/estimates.parquet", "ope/ope.json",
             "sizes/evaluation/scores.parquet"],
)  # fmt: skip
def test_a_missing_file_is_named(place, tmp_path, path):
    shutil.copytree(place, tmp_path / "out")
    (tmp_path / "out" / path).unlink()
    with pytest.raises(HindcastError) as caught:
        paper.results(tmp_path / "out", QUICK)
    assert path.rpartition("/")[2] in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_tables_of_other_trainings_are_refused(place, tmp_path):
    shutil.copytree(place, tmp_path / "out")
    file = tmp_path / "out" / "tight" / "choices-seed1.csv"
    table = pl.read_csv(file)
    table.filter(step=50).write_csv(file)
    with pytest.raises(DatasetError, match="steps and minibatches are not those of"):
        paper.results(tmp_path / "out", QUICK)
    table.drop(f"{WHICH[0]}_{next(iter(QUANTITIES))}").write_csv(file)
    with pytest.raises(DatasetError, match="there is no column 'chosen_efficiency'"):
        paper.results(tmp_path / "out", QUICK)
