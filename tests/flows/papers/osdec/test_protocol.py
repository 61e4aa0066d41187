"""Tests of OSDEC's protocol: its commands, and what is read from made-up files."""

import itertools
import json

import polars as pl
import pytest

from hindcast.flows.papers.osdec import commands as protocol
from hindcast.flows.papers.osdec import protocol as paper
from hindcast.flows.papers.published import number, published
from hindcast.flows.protocols import Setting
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.recipes.loading import load_recipe

FULL, QUICK = Setting((0, 1, 2, 3, 4)), Setting((0, 1), quick=True)
WINDOWS = 12
METRICS = {"total_reward": 1.0, "utilisation": 2.0, "delay_penalty": -0.1}
RULES = dict(zip(protocol.RULES, (20.0, 100.0, 90.0, 95.0, 110.0, 130.0, 140.0), strict=True))
# Variants in the claimed order: the third is level with the second.
REWARDS = dict(
    zip(protocol.VARIANTS, (80.0, 102.0, 102.0, 110.0, 115.0, 118.0, 125.0), strict=True)
)


def evaluation(folder, means, kind, group="", bound=200.0):
    """Write an evaluation; a policy's value differs from its mean by -1, 0, 1 in turn."""
    known = {name: (group or name, "random" if name == "random" else kind) for name in means}
    rows = [
        (name, "deferrable", window, 0, metric, scale * (mean + window % 3 - 1))
        for name, mean in means.items()
        for window in range(WINDOWS)
        for metric, scale in METRICS.items()
    ]
    rows += [(name, "deferrable", w, 0, "upper_bound", bound) for name in means
             for w in range(WINDOWS)]  # fmt: skip
    columns = ["policy", "scenario", "window", "seed", "metric", "value"]
    folder.mkdir(parents=True)
    pl.DataFrame(rows, schema=columns, orient="row").write_parquet(folder / "scores.parquet")
    about = {
        "recipe": "r-v1", "scenario": "deferrable", "headline": "total_reward",
        "bound": "upper_bound", "bound_kind": "upper",
        "metrics": [{"name": name, "better": "higher"} for name in METRICS],
        "policies": [{"name": n, "group": g, "kind": k} for n, (g, k) in known.items()],
    }  # fmt: skip
    (folder / "evaluation.json").write_text(json.dumps(about))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Write what the stages of a quick reproduction would write."""
    place = tmp_path_factory.mktemp("osdec")
    for number_of, case in enumerate(protocol.CASES):
        evaluation(place / case / "rules", RULES, "heuristic")
        if case not in {protocol.FREE_DELAY, protocol.REALTIME}:
            evaluation(place / case / "bound", {"knapsack": 130.0}, "heuristic", bound=300.0)
        for name, variant in protocol.VARIANTS.items():
            means = {
                f"score_ppo-seed{seed}-best": REWARDS[name] + seed - number_of
                for seed in protocol.seeds_of(case, QUICK)
            }
            evaluation(place / case / f"{variant.folder}-scores", means, "learned", paper.AGENT)
    ours = {f"{name}-seed{s}": mean + s for name, mean in ((paper.OFFLINE, 150.0),
            (paper.ONLINE, 160.0)) for s in (0, 1)}  # fmt: skip
    evaluation(place / protocol.BASE / "ours", ours, "learned")
    path = place / protocol.BASE / "ours" / "evaluation.json"
    about = json.loads(path.read_text())
    for entry in about["policies"]:
        entry["group"] = entry["name"].partition("-seed")[0]
    path.write_text(json.dumps(about))
    for variant, seed in itertools.product(protocol.VARIANTS.values(), QUICK.seeds):
        curve = [(1, paper.CURVE, 50.0 + 2 * seed), (2, paper.CURVE, 90.0), (2, "gain", 1.0)]
        folder = place / protocol.BASE / f"{variant.folder}-seed{seed}"
        folder.mkdir()
        pl.DataFrame(curve, schema=["step", "metric", "value"], orient="row").write_parquet(
            folder / "metrics.parquet"
        )
    return place


@pytest.fixture(scope="module")
def results(place):
    """Return the results of the made-up files."""
    return paper.results(place, QUICK)


def cell(results, table, row, column):
    """Return a cell of a table."""
    return results.tables.filter(table=table, row=row, column=column).row(0, named=True)


@pytest.mark.parametrize("setting", [FULL, QUICK])
def test_every_case_has_rules_and_all_variants(setting):
    names = {stage.name for stage in paper.stages(setting)}
    for case in protocol.CASES:
        assert f"score {case}: rules" in names
        for variant in protocol.VARIANTS.values():
            assert f"train {case}: {variant.folder}-seed0" in names
    assert f"train {protocol.BASE}: osdec-seed{setting.seeds[-1]}" in names
    assert f"train realtime: osdec-seed{setting.seeds[-1]}" not in names


def test_a_quick_run_has_fewer_windows_and_iterations():
    full, quick = ({s.name: s for s in paper.stages(setting)} for setting in (FULL, QUICK))
    for name, stage in quick.items():
        if name.startswith("score"):
            assert any(word.startswith("split.test=") for word in stage.words), name
            assert not any(word.startswith("split.test=") for word in full[name].words), name
        elif "--iterations" in stage.words:
            few, many = (
                int(words[words.index("--iterations") + 1])
                for words in (stage.words, full[name].words)
            )
            assert few < many, name


def test_the_offline_agent_is_trained_as_its_recipe_says():
    words = next(s.words for s in paper.stages(FULL) if s.name == "train price_surface")
    train = load_recipe("deferrable-prices-v1").train
    assert train.steps_of("price_surface") == int(words[words.index("--steps") + 1])
    assert not train.settings_of("price_surface")
    assert "--set" not in words


def test_a_variant_differs_from_osdec_by_its_settings():
    words = {stage.name: stage.words for stage in paper.stages(FULL)}
    assert 'online.settings.network.encoder="mlp"' in words["train base: mlp-seed0"]
    assert "config.core_case=2" in words["train core case 2: osdec-seed0"]
    assert "--set" not in words["train base: osdec-seed0"]


def test_printed_numbers_are_those_of_the_paper():
    printed = published("osdec")
    assert printed.height == 10 * (3 + 2 + 6) + len(protocol.VARIANTS) * (3 + 2)
    assert number(printed, "table 1", "OSDEC", "total reward") == 3475.37
    assert number(printed, "table 1", "OSDEC", "deviation of total reward") == 12.95
    assert number(printed, "table 1", "FIFO", "deviation of total reward") is None
    assert number(printed, "table 2", "Tetris", "real-time") == 3503.01
    assert number(printed, "table 2", "PPO+Att", "deviation of real-time") == 16.53
    assert number(printed, "table 4", "PPO+Att", "core case 3") == 4663.42
    assert number(printed, "table 4", "Tetris", "duration case 3") == 3633.64


@pytest.mark.slow
def test_tables_have_rules_and_variants_of_their_case(results):
    assert cell(results, "table 1", "OSDEC", "total reward")["measured"] == pytest.approx(125.5)
    assert cell(results, "table 1", "FIFO", "utilisation")["measured"] == pytest.approx(200.0)
    realtime = 2.0 * (REWARDS["OSDEC"] - list(protocol.CASES).index(protocol.REALTIME))
    assert cell(results, "table 2", "OSDEC", "real-time")["measured"] == pytest.approx(realtime)
    both = [cell(results, "table 4", "OSDEC", c) for c in ("core case 1", "duration case 3")]
    assert both[0]["measured"] == both[1]["measured"]
    assert both[0]["published"] != both[1]["published"]
    assert cell(results, "beside", "bound", "total reward")["measured"] == 200.0
    for table, column, bound in (
        ("table 1", "total reward", 200.0), ("table 1", "utilisation", 300.0),
        ("table 2", "deferrable", 200.0), ("table 2", "real-time", 200.0),
        ("table 4", "core case 2", 300.0),
    ):  # fmt: skip
        assert cell(results, table, "bound", column)["measured"] == bound
    assert cell(results, "beside", "strongest rule: knapsack_patient",
                "minus the paper's agent")["measured"] == pytest.approx(14.5)  # fmt: skip


@pytest.mark.slow
def test_deviations_are_those_of_training_seeds(results):
    found = cell(results, paper.DEVIATIONS, "OSDEC", "utilisation")
    assert found["measured"] == pytest.approx(2.0 * 0.5**0.5)  # two seeds, 2 apart
    assert found["published"] == 19.52
    rows = results.tables.filter(table=paper.DEVIATIONS, column="delay")["row"].to_list()
    assert rows == list(protocol.VARIANTS)


@pytest.mark.slow
def test_claims_have_their_verdicts(results):
    found = {row["claim"]: row for row in results.claims.to_dicts()}
    assert found["best-rule"]["published"] == pytest.approx(66.55)
    assert found["best-rule"]["measured"] == pytest.approx(25.5)
    assert (found["best-rule"]["direction"], found["best-rule"]["size"]) == ("yes", "smaller")
    assert found["order"]["order"] == "in part"
    assert found["tetris-duration case 2"]["direction"] == "no"
    assert found["deferrable-OSDEC"]["published"] == pytest.approx(259.94)
    assert found["deferrable-OSDEC"]["measured"] == pytest.approx(2.0)
    assert found["deferrable-FIFO"]["direction"] == "not shown"
    assert "1 iteration in" in found["deferrable-OSDEC"]["differs"]


@pytest.mark.slow
def test_the_curve_is_the_mean_over_the_seeds(results):
    first = results.figures.filter(series="OSDEC", x="1").row(0, named=True)
    assert (first["y"], first["low"], first["high"]) == (51.0, 50.0, 52.0)


def test_a_missing_evaluation_is_named(tmp_path):
    with pytest.raises(DatasetError, match=r"rules: no such folder"):
        paper.results(tmp_path, QUICK)


@pytest.mark.slow
def test_one_seed_has_no_deviations(place):
    results = paper.results(place, Setting((0,), quick=True))
    assert paper.DEVIATIONS not in results.table_texts
    assert results.tables.filter(table=paper.DEVIATIONS).is_empty()


@pytest.mark.slow
def test_every_table_has_a_text(results):
    named = results.tables["table"].unique(maintain_order=True).to_list()
    assert named == list(results.table_texts)
