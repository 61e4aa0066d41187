"""Tests of the protocol of Liu et al.: its commands, and what is read from made-up files."""

import itertools
import json
import math
import re
import shutil

import polars as pl
import pytest

from hindcast.flows.papers.published import number, published
from hindcast.flows.papers.results import CLAIM, FIGURE, TABLE
from hindcast.flows.papers.timecritical import commands as protocol
from hindcast.flows.papers.timecritical import figures, tables
from hindcast.flows.papers.timecritical import protocol as paper
from hindcast.flows.papers.timecritical.comparisons import comparisons
from hindcast.flows.parser import parse
from hindcast.flows.protocols import OUT, Setting
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.scenarios.multicluster.config import MulticlusterConfig

FULL = Setting((0, 1, 2, 3, 4))
QUICK = Setting((0, 1), quick=True)
WINDOWS = 6
# TMDL and AJDR of window 0; every later window has more of both.
LEVELS = {
    "random": (900, 16.0), "sf_p": (500, 13.0), "lf_p": (520, 14.0), "sf_e": (200, 8.0),
    "lf_e": (210, 8.5), "most_free_now": (30, 3.0), "urgent_first": (10, 2.0),
    "urgent_shortest": (9, 1.9),
}  # fmt: skip
AGENTS = {
    "monte_carlo_value": (80, 2.5), "monte_carlo_value-best": (75, 2.4),
    "monte_carlo_value-best@urgent_first": (20, 2.2),
}  # fmt: skip
OURS = {"response_surface-delivered": (15, 1.8), "evolution-delivered": (14, 1.7)}
PLAIN = {"monte_carlo_value": (400, 9.0)}


def evaluation(folder, rules, agents):
    """Write an evaluation of rules and of agents with two seeds, of which the second is worse."""
    levels = {name: (name, "heuristic", *level) for name, level in rules.items()}
    for group, (tmdl, ajdr) in agents.items():
        for seed in QUICK.seeds:
            levels[f"{group}-seed{seed}"] = (group, "learned", tmdl * (1 + seed), ajdr + seed)
    rows = []
    for (name, (_, _, tmdl, ajdr)), window in itertools.product(levels.items(), range(WINDOWS)):
        missed, delay = tmdl * (1 + window / 10), ajdr * (1 + window / 20)
        numbers = {
            "tmdl": missed, "ajdr_percent": delay, "eval_cost": 0.02 * missed + delay,
            "eval_cost_lower_bound": 1.0 + window / 20,
        }  # fmt: skip
        rows += [(name, "multicluster", window, 0, metric, v) for metric, v in numbers.items()]
    folder.mkdir(parents=True)
    columns = ["policy", "scenario", "window", "seed", "metric", "value"]
    pl.DataFrame(rows, schema=columns, orient="row").write_parquet(folder / "scores.parquet")
    about = {
        "recipe": "r-v1", "scenario": "multicluster", "headline": "eval_cost",
        "metrics": [{"name": "eval_cost", "better": "lower"}],
        "policies": [{"name": n, "group": g, "kind": k} for n, (g, k, *_) in levels.items()],
    }  # fmt: skip
    (folder / "evaluation.json").write_text(json.dumps(about))
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Write what the stages of a quick reproduction would write."""
    place = tmp_path_factory.mktemp("timecritical")
    (place / "scores").mkdir()
    for name in protocol.LOADS:
        folder = evaluation(place / "evaluations" / name, LEVELS, AGENTS)
        comparisons(folder, ["sf_e"]).write_csv(place / "scores" / f"{name}.csv")
    evaluation(place / "evaluations" / "plain", {"sf_e": LEVELS["sf_e"]}, PLAIN)
    agent = {"monte_carlo_value": AGENTS["monte_carlo_value"]}
    evaluation(place / "evaluations" / "beside", LEVELS, agent)
    evaluation(place / "evaluations" / "ours", LEVELS, OURS)
    for name in protocol.PATTERNS:
        evaluation(place / "validation" / name, LEVELS, {})
    curve = [(2, "validation_eval_cost", 300.0), (4, "validation_eval_cost", 6.0), (4, "loss", 1.0)]
    for name, seed in itertools.product((*protocol.PATTERNS, "plain"), QUICK.seeds):
        folder = place / "agents" / f"{name}-seed{seed}"
        folder.mkdir(parents=True)
        rows = [(step, metric, value + seed) for step, metric, value in curve]
        pl.DataFrame(rows, schema=["step", "metric", "value"], orient="row").write_parquet(
            folder / "metrics.parquet"
        )
    return place


@pytest.fixture(scope="module")
def results(place):
    """Return the results of the made-up files."""
    return paper.results(place, QUICK)


def cell(results, table, row, column):
    """Return a cell of a table."""
    found = results.tables.filter(table=table, row=row, column=column)
    assert len(found) == 1, (table, row, column)
    return found.row(0, named=True)


def claim(results, name):
    """Return a claim."""
    return results.claims.filter(claim=name).row(0, named=True)


@pytest.mark.parametrize("setting", [FULL, QUICK], ids=["full", "quick"])
def test_every_stage_is_a_command_that_writes_below_the_folder(setting):
    """Words are read by the parser, names and outputs are unique, and inputs are made before."""
    stages = paper.stages(setting)
    assert len({stage.name for stage in stages}) == len(stages)
    made = set()
    for stage in stages:
        arguments = parse([word.replace(OUT, "/reproduction") for word in stage.words])
        assert arguments.read(arguments).out.startswith("/reproduction/")
        assert stage.minutes > 0
        inputs = {word for word in stage.words if word.startswith(OUT)}
        inputs.discard(stage.words[stage.words.index("--out") + 1])
        for word in inputs:
            folder = re.sub(r"(/best|/delivered)?(@\w+)?$", "", word).removeprefix(f"{OUT}/")
            assert any(output.startswith(f"{folder}/") for output in made), word
        made.add(stage.output)
    assert len(made) == len(stages)


def test_seeds_make_trainings_and_entrants():
    """Every seed has three agents of the paper, a plain one, and one of ours that plays."""
    names = [stage.name for stage in paper.stages(FULL)]
    assert sum("seed" in name for name in names) == 5 * 5
    beta = next(stage for stage in paper.stages(FULL) if stage.name == "beta")
    folders = [word for word in beta.words if word.startswith(f"{OUT}/agents/")]
    assert len(folders) == 3 * 5
    assert f"{OUT}/agents/beta-seed4/best@urgent_first" in folders


def test_workloads_without_training_have_the_agent_of_uniform_arrivals():
    words = next(stage.words for stage in paper.stages(FULL) if stage.name == "stressed")
    assert "config.setting=stressed" in words
    assert f"{OUT}/agents/uniform-seed0" in words


def test_the_full_protocol_is_that_of_the_paper():
    """The recipe has the paper's 2000 episodes and 50 test windows, so nothing replaces them."""
    by_name = {stage.name: " ".join(stage.words) for stage in paper.stages(FULL)}
    for name in ("bernoulli-seed0", "uniform-seed0", "beta-seed0"):
        assert "--iterations" not in by_name[name]
        assert ("learning_rate=0.01" in by_name[name]) == (name == "uniform-seed0")
    assert "random_share=1.0" in by_name["plain-seed0"]
    assert not any("split." in words for words in by_name.values())
    assert sum(stage.minutes for stage in paper.stages(FULL)) <= 6 * 60


def test_a_quick_protocol_has_the_same_stages_with_less_to_do():
    quick = {stage.name: stage for stage in paper.stages(QUICK)}
    full = {stage.name: stage for stage in paper.stages(Setting(QUICK.seeds))}
    assert list(quick) == list(full)
    assert "--iterations" in quick["beta-seed1"].words
    assert any(word.startswith("split.test=") for word in quick["stressed"].words)
    assert sum(stage.minutes for stage in quick.values()) <= 10


def test_published_numbers_are_those_of_the_paper():
    rows = published(tables.PAPER)
    agent, base = protocol.AGENT, protocol.BASELINE
    assert number(rows, "table 2, Bernoulli", agent, "TMDL") == 35.04
    assert number(rows, "table 2, uniform", base, "TMDL") == 349.9
    assert number(rows, "table 2, Beta", agent, "AJDR") == 3.40
    assert number(rows, "table 3, eased", base, "AJDR") == 4.87
    assert number(rows, "table 3, stressed", agent, "Score-C") == 94
    assert number(rows, "table 2, uniform", agent, "TMDL ratio") == 7.55


@pytest.mark.parametrize("item", [load.item for load in protocol.LOADS.values()])
def test_published_ratios_and_scores_agree_with_each_other(item):
    """A ratio is the baseline's number by the agent's; the scores of the two sum to 100."""
    rows = published(tables.PAPER)
    for column in ("TMDL", "AJDR"):
        own, base = (
            number(rows, item, name, column) for name in (protocol.AGENT, protocol.BASELINE)
        )
        ratio = number(rows, item, protocol.AGENT, f"{column} ratio")
        assert ratio == pytest.approx(base / own, abs=0.011)
    for column in tables.SCORES:
        own, base = (
            number(rows, item, name, column) for name in (protocol.AGENT, protocol.BASELINE)
        )
        assert own + base == 100
        told = number(rows, item, protocol.AGENT, f"{column} ratio")
        assert told == (pytest.approx(own / base, abs=0.01) if base else None)


@pytest.mark.slow
def test_every_table_and_figure_has_rows_and_a_text(results):
    assert results.tables.schema == TABLE
    assert results.figures.schema == FIGURE
    assert results.claims.schema == CLAIM
    assert set(results.tables["table"]) == set(results.table_texts)
    assert set(results.figures["figure"]) == set(results.figure_texts)
    assert {load.item for load in protocol.LOADS.values()} < set(results.table_texts)
    assert "beside" in results.table_texts


@pytest.mark.slow
def test_tables_have_means_beside_published_numbers(results):
    """Seeds have 80 and 160 misses in window 0, and 1.25 times as many in the mean window."""
    found = cell(results, "table 2, Beta", "monte_carlo_value", "TMDL")
    assert found["measured"] == pytest.approx(120 * 1.25)
    assert found["published"] == 56.52
    assert found["low"] < found["measured"] < found["high"]
    ratio = cell(results, "table 2, Beta", "monte_carlo_value", "TMDL ratio")
    assert (ratio["measured"], ratio["published"]) == (pytest.approx(200 / 120), 4.40)


@pytest.mark.slow
def test_published_numbers_of_tables_are_those_of_the_file(results):
    """A table has the name of its item, so that the page and published.csv can be compared."""
    printed = published(tables.PAPER)
    for row in results.tables.to_dicts():
        told = number(printed, row["table"], row["row"], row["column"])
        assert row["published"] == told
    assert results.tables["published"].count() == 5 * (8 + 6)  # of the agent and of sf_e


@pytest.mark.slow
def test_scores_of_agent_and_baseline_sum_to_100(results):
    """Both seeds are better than sf_e on both measures in all windows, the rule random in none."""
    scores = [cell(results, "table 2, Beta", name, "Score-A")["measured"]
              for name in ("monte_carlo_value", "sf_e", "random")]  # fmt: skip
    assert scores == [100, 0, 0]


def test_scores_count_every_window_and_seed(place):
    """A seed that is better in one window of six has a sixth of 100 points, two seeds a twelfth."""
    scores = tables.pair(place, "beta")
    for metric in ("tmdl", "ajdr_percent"):
        values = tables.cells.runs(scores[metric], "monte_carlo_value").values
        values[:] = 1e6
        values[0, 3] = 0.0
    found = tables.score(scores, "monte_carlo_value", tables.SCORES["Score-A"])
    assert found.value == pytest.approx(100 / 12)


def test_a_reduction_is_the_ratio_of_the_means(place):
    """120 x 1.25 misses against 200 x 1.25 are 40 % fewer; both seeds alone are 60 and 20 %."""
    scores = tables.pair(place, "beta")["tmdl"]
    found = tables.reduction(scores, "monte_carlo_value", "sf_e")
    assert found.value == pytest.approx(-40)
    assert found.low < -60  # two seeds say little
    assert found.high > -20


@pytest.mark.slow
def test_agents_stand_beside_the_paper_s(results):
    rows = results.tables.filter(table="beside", column="cost")["row"].to_list()
    assert {"random", "urgent_first", "urgent_shortest", "response_surface-delivered",
            "evolution-delivered", "bound",
            "monte_carlo_value"} <= set(rows)  # fmt: skip
    gap = cell(results, "beside", "bound", "cost - monte_carlo_value")
    agent = cell(results, "beside", "monte_carlo_value", "cost")
    bound = cell(results, "beside", "bound", "cost")
    assert gap["measured"] == pytest.approx(bound["measured"] - agent["measured"])
    assert gap["measured"] < 0 < gap["high"]  # by two seeds


@pytest.mark.slow
def test_every_seed_has_a_row(results):
    rows = results.tables.filter(table="seeds")
    assert rows["row"].unique(maintain_order=True).to_list() == [
        "monte_carlo_value-seed0", "monte_carlo_value-seed1",
    ]  # fmt: skip
    assert cell(results, "seeds", "monte_carlo_value-seed1", "Beta, TMDL")["measured"] == 200


@pytest.mark.slow
def test_claims_have_verdicts(results):
    """The agent has 40 % fewer misses than sf_e, the paper 77 %; plain exploration is worse."""
    found = claim(results, "beta TMDL")
    assert found["published"] == pytest.approx(100 * (56.52 / 248.86 - 1))
    assert (found["direction"], found["size"]) == ("not shown", "yes")  # by two seeds
    assert claim(results, "beta Score-A")["published"] == 50
    assert claim(results, "guided")["order"] == "in part"
    assert claim(results, "beta all")["order"] == "in part"
    assert claim(results, "beta best")["order"] == "yes"
    assert set(results.claims["differs"]) - {""} == set(results.claims["differs"])


@pytest.mark.slow
def test_curves_have_a_band_of_seeds_and_rules_are_level(results):
    rows = results.figures.filter(figure="figure 4", panel="a Bernoulli")
    last = rows.filter(series="monte_carlo_value", x="4").row(0, named=True)
    assert (last["y"], last["low"], last["high"]) == (6.5, 6.0, 7.0)
    level = rows.filter(series="sf_e")
    assert level["x"].to_list() == ["2", "4"]
    assert level["y"].n_unique() == 1
    assert "monte_carlo_value, plain exploration" in set(
        results.figures.filter(figure="figure 4d")["series"]
    )


@pytest.mark.slow
def test_episodes_are_sorted_by_the_agent(results):
    for pattern, letter in (("Bernoulli", "b"), ("uniform", "e"), ("Beta", "h")):
        rows = results.figures.filter(figure="figure 5 tmdl", panel=f"{letter} {pattern}")
        agent = rows.filter(series="monte_carlo_value")["y"].to_list()
        assert agent == sorted(agent)
        assert len(agent) == WINDOWS


@pytest.mark.parametrize("arrivals", ["bernoulli", "uniform", "beta"])
def test_probabilities_of_intervals_sum_to_one(arrivals):
    config = MulticlusterConfig(arrivals=arrivals)
    told = [figures.probability(config, steps) for steps in range(1, 500)]
    assert math.fsum(told) == pytest.approx(1)
    assert min(told) >= 0


def test_the_probability_of_beta_intervals_is_that_of_the_paper():
    """The distribution function of Beta(4, 2) is 5 x^4 - 4 x^5, as integration shows."""
    config = MulticlusterConfig(arrivals="beta")
    x = 20 / 30, 19 / 30
    whole = [5 * each**4 - 4 * each**5 for each in x]
    assert figures.probability(config, 20) == pytest.approx(whole[0] - whole[1])


@pytest.mark.slow
def test_drawn_intervals_have_the_published_probabilities(results):
    """Over the test windows, the mean interval is within 5 % of the expected one."""
    rows = results.figures.filter(figure="figure 3 intervals", panel="c uniform")
    for series in ("uniform", "uniform (paper)"):
        part = rows.filter(series=series)
        mean = (part["x"].cast(pl.Float64) * part["y"]).sum()
        assert mean == pytest.approx(20, rel=0.05)


def test_arrivals_of_the_figure_are_those_of_the_episode():
    """The recipe's first test window starts at the first arrival that the figure draws."""
    from hindcast.pipeline.recipes.loading import load_recipe
    from hindcast.pipeline.recipes.problem import make_instance
    from hindcast.pipeline.recipes.workload_source import load_source
    from hindcast.pipeline.scenarios import load_scenario
    from hindcast.pipeline.scenarios.multicluster import layout

    recipe = load_recipe(protocol.RECIPE, protocol.overrides("beta", quick=True))
    window = recipe.windows("test")[0]
    scenario = load_scenario(recipe.scenario)
    instance = make_instance(recipe, scenario, load_source(recipe), window)
    steps = figures.arrival_steps(recipe, window)
    assert len(steps) == instance.ints[layout.APPLICATIONS]
    assert set(steps) <= set(instance.ints.tolist())


def test_a_missing_file_is_one_error(place, tmp_path):
    copy = shutil.copytree(place, tmp_path / "copy")
    (copy / "evaluations" / "bernoulli" / "evaluation.json").unlink()
    with pytest.raises(DatasetError, match="bernoulli"):
        paper.results(copy, QUICK)


def test_a_missing_table_is_one_error(place):
    with pytest.raises(DatasetError, match=r"none/beta\.csv: this table cannot be read"):
        tables.read_csv(place / "none" / "beta.csv", ["policy"])


def test_a_table_without_a_column_is_one_error(tmp_path):
    file = tmp_path / "beta.csv"
    file.write_text("policy,other\nrandom,sf_e\n")
    with pytest.raises(DatasetError, match=r"beta\.csv: there is no column 'tmdl'"):
        tables.read_csv(file, ["policy", "other", "tmdl"])


def test_a_curve_of_another_length_is_one_error(place, tmp_path):
    copy = shutil.copytree(place, tmp_path / "copy")
    file = copy / "agents" / "beta-seed1" / "metrics.parquet"
    pl.read_parquet(file).filter(pl.col("step") > 2).write_parquet(file)
    with pytest.raises(DatasetError, match=r"beta-seed1.*its points are at other episodes"):
        figures.curve(copy, "beta", QUICK)


def test_a_curve_without_validation_is_one_error(place, tmp_path):
    copy = shutil.copytree(place, tmp_path / "copy")
    file = copy / "agents" / "beta-seed1" / "metrics.parquet"
    pl.read_parquet(file).filter(metric="loss").write_parquet(file)
    with pytest.raises(DatasetError, match="there is no metric 'validation_eval_cost'"):
        figures.curve(copy, "beta", QUICK)
