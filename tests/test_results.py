"""Tests of the committed tables of results, and of the documentation pages made from them."""

import hashlib
import json
from pathlib import Path

import polars as pl
import pytest

import hindcast
from docs.generate import gate
from docs.generate.anchors import played_windows, scored, scored_policies
from docs.generate.claims import beside_rules_ahead, claim_pages
from docs.generate.delivered import DELIVERIES, SELECTED, Delivery, baseline_mean, row_of
from docs.generate.families import interval_of, verdicts
from docs.generate.fresh import FRESH, better_and_others, share_of_time, shown_rows
from docs.generate.headlines import OFFLINE, ONLINE, headline_pages
from docs.generate.protocol import protocol_pages
from docs.generate.results import COMMANDS, FOLDER, result_pages
from docs.generate.text import prose
from docs.generate.unlearned import (
    COLUMN,
    NOTE,
    RULES,
    best_of,
    is_below_best,
    scenario_of,
    times,
)
from hindcast.flows import cli
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.estimators import ESTIMATORS
from hindcast.pipeline.estimators.verdicts import Held
from hindcast.pipeline.evaluation.anchors import anchor_of, anchors, windows_of
from hindcast.pipeline.evaluation.summary.results import read_results, results_markdown
from hindcast.pipeline.recipes.loading import load_recipe

RESULTS = ("fresh.csv", "looking_ahead.csv", "offline.csv", "online.csv")
CLAIMED = ("`slots`, rate 1.0", "play")
OTHERS = ("data_quality.csv", "ope.csv")
# Recipes of `queue` that play the windows of a log in queue_rules.csv; the other two see 128 jobs.
RULES_PLAYED_IN = {
    "KTH SP2": ("kth-online", "kth-v1"), "CTC SP2": ("ctc-online", "ctc-v1"),
    "SDSC SP2": ("sdsc-sp2-online", "sdsc-sp2-v1"), "SDSC Blue": ("sdsc-blue-online",),
    "HPC2N": ("hpc2n-online",),
}  # fmt: skip


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """Return the generated pages by their path below docs/generated."""
    return {**result_pages(), **headline_pages(), **protocol_pages()}


def test_intervals_that_pages_print_hold_the_truth_in_92_to_98_percent_of_simulations():
    """Student's in all 48 cells, widened ones of no shared job, and those of single tables."""
    table = pl.read_csv(FOLDER / "intervals.csv").filter(
        pl.col("scores").is_in(["normal", "lognormal"])
    )
    student = table.filter(
        pl.col("method") == "student", pl.col("interval").is_in(["mean", "difference"])
    )
    widened = table.filter(pl.col("method") == "widened")
    assert (student.height, widened.height) == (48, 12)
    assert student["coverage"].is_between(0.92, 0.98).all()
    assert widened["coverage"].is_between(0.92, 0.98).all()
    single = table.filter(pl.col("method").str.contains("bootstrap of|over days"))
    assert single.height == 12
    assert single["coverage"].is_between(0.92, 0.98).all()


def test_the_interval_of_an_earlier_row_is_widened_and_its_mean_has_none(pages):
    ends = {"paired_difference": "-1.0", "paired_low": "-3.0", "paired_high": "0.5"}
    row = {**ends, "windows": "40", "seeds": "1", "degrees": "", "policy": "a"}
    assert interval_of(row) == pytest.approx((-1.0, -3.2, 0.65))
    assert interval_of({**row, "seeds": "5"}) == pytest.approx((-1.0, -3.7, 1.025))
    assert interval_of({**row, "seeds": "5", "policy": "random"}) == interval_of(row)
    assert interval_of({**row, "degrees": "39"}) == (-1.0, -3.0, 0.5)
    assert "| ppo-best | 5 | -0.907 | n/a |" in pages["results/online/thermal-online.md"]
    assert "n/a" not in pages["results/online/thermal-again-online.md"]


@pytest.mark.slow
@pytest.mark.parametrize("name", RESULTS)
def test_every_recipe_of_a_table_has_a_page_with_all_its_policies(pages, name):
    table = read_results((FOLDER / name).read_bytes(), name)
    stem = name.removesuffix(".csv")
    recipes = table["recipe"].unique().to_list()
    written = {page for page in pages if page.startswith(f"results/{stem}/")}
    assert written == {f"results/{stem}/{page}.md" for page in [*recipes, "index"]}
    for recipe in recipes:
        page = pages[f"results/{stem}/{recipe}.md"]
        assert page.startswith(f"# {recipe}\n")
        for policy in table.filter(recipe=recipe)["policy"].unique():
            assert f"| {policy} |" in page.replace("\\", "")


def test_every_row_has_the_key_of_a_command():
    commands = json.loads((FOLDER / COMMANDS).read_text(encoding="utf-8"))
    tables = [read_results((FOLDER / name).read_bytes(), name) for name in RESULTS]
    assert set(pl.concat(tables)["command"]) == set(commands)
    for key, command in commands.items():
        assert key == hashlib.sha256(command.encode()).hexdigest()[:8]


@pytest.mark.slow
def test_pages_of_one_table_are_what_the_command_writes(pages, tmp_path):
    """For a study and a ranking of estimators, `hindcast report --pages` gives the same page."""
    for name in OTHERS:
        (tmp_path / name).write_bytes((FOLDER / name).read_bytes())
    assert cli.main(["report", *(str(tmp_path / name) for name in OTHERS), "--pages"]) == 0
    for name in OTHERS:
        stem = Path(name).stem
        assert (tmp_path / f"{stem}.md").read_text() == pages[f"results/{stem}.md"]


@pytest.mark.parametrize("estimator", [None, "snis"])
def test_plain_answers_of_the_off_policy_table_hold_the_truth(estimator):
    """Of policies x logs in at least nine of ten, by all estimators and by the reader's."""
    table = pl.read_csv(FOLDER / "ope.csv").filter(pl.col("answers").is_not_null())
    assert table["scenario"].n_unique() == 5
    own = table if estimator is None else table.filter(estimator=estimator)
    assert own["answers"].sum() > 2 * 5  # more than two policies per log
    assert own["answers_hold"].sum() >= 0.9 * own["answers"].sum()


def test_biased_estimators_have_an_interval_only_where_coverage_was_shown():
    table = pl.read_csv(FOLDER / "ope.csv").filter(pl.col("answers").is_not_null())
    for row in table.to_dicts():
        if ESTIMATORS[row["estimator"]].bias:
            shown = Held(row["left_out"], row["left_out_held"]).shown
            assert shown or row["answers"] + row["roughly"] == 0


@pytest.mark.slow
def test_a_comparator_is_the_best_of_its_column_or_the_table_says_which_is(pages):
    """A rule that looks ahead, or that another table has on the same windows, may be better."""
    for part, deliveries in (("deliveries", DELIVERIES), ("selected", SELECTED)):
        page = pages[f"parts/{part}.md"]
        assert NOTE in page
        lines = [line for line in page.splitlines() if line.startswith("| `")]
        sides = verdicts([row_of(one) for one in deliveries])
        for one, line, shown in zip(deliveries, lines, sides, strict=True):
            row = row_of(one)
            best, sign = best_of(row), 1 if row["higher_is_better"] == "true" else -1
            others = unlearned_means(row)
            assert sign * best.mean == max(sign * mean for mean in others.values())
            assert sign * best.mean >= baseline_mean(row) - 1e-4 * abs(best.mean)
            assert f"| {prose(best.policy)} " in line
            assert ("cannot look ahead" in line) == (row["scenario"] in {"thermal", "deferrable"})
            here = {name: sign * mean for name, mean in others.items() if "rollout" not in name}
            if part == "deliveries" and max(here, key=lambda name: here[name]) != row["baseline"]:
                said = page.partition("stronger rule that does not look ahead: ")[2]
                assert f"{one.problem} ({one.source}) " in said.partition("\n")[0]
            assert said_below(page, one, "test") == bool(shown > 0 and is_below_best(row))
    page, again = pages["parts/deliveries.md"], [one for one in DELIVERIES if one.fresh]
    fresh = [row_of(one, one.fresh) for one in again]
    for one, row, shown in zip(again, fresh, verdicts(fresh), strict=True):
        assert said_below(page, one, "fresh") == bool(shown > 0 and is_below_best(row))


def said_below(page: str, one: Delivery, windows: str) -> bool:
    """Return whether the page says that the best without learning has a better mean."""
    said = page.partition(f"on {windows} windows, with a worse mean than the {COLUMN}: ")[2]
    return f"{one.problem} ({one.source})" in said.partition(". ")[0]


def test_every_best_policy_has_a_time_or_waits_to_be_timed():
    waiting = {(scenario_of(recipe), policy) for recipe, policy in RULES} | times().keys()
    for name in ("offline.csv", "online.csv"):
        for row in pl.read_csv(FOLDER / name, infer_schema=False).to_dicts():
            best = best_of(row)
            assert best is None or (row["scenario"], best.policy) in waiting, row["recipe"]


@pytest.mark.slow
def test_a_rule_that_looks_ahead_was_scored_on_the_windows_of_every_published_row():
    """Where the simulator lets one look ahead: NOTE says so of each table with the column."""
    rows = [row_of(one) for one in (*DELIVERIES, *SELECTED)]
    rows += [row_of(one, one.fresh) for one in DELIVERIES if one.fresh]
    for name, chosen in (("offline.csv", OFFLINE), ("online.csv", ONLINE)):
        table = pl.read_csv(FOLDER / name, infer_schema=False)
        for recipe, metric, *_ in chosen:
            rows.append(table.filter(recipe=recipe, metric=metric).row(0, named=True))
    for row in rows:
        able = row["scenario"] not in {"thermal", "deferrable"}
        assert best_of(row).ahead is (True if able else None), row["recipe"]


def unlearned_means(row) -> dict[str, float]:
    """Return all policies without learning on the windows and the metric of a row."""
    commands = json.loads((FOLDER / COMMANDS).read_text(encoding="utf-8"))
    windows, _ = played_windows(commands[row["command"]])
    alike = [windows]
    for log in ("kth", "ctc", "sdsc-sp2"):  # their other recipe numbers the windows differently
        both = [windows_of(load_recipe(f"queue-{log}-{kind}")) for kind in ("v1", "online")]
        alike += both if windows in both else []
    found: dict[str, float] = {}
    for played, one in scored_policies():
        if played in alike and one.metric == row["metric"] and one.policy != "random":
            found.setdefault(one.policy, one.mean)
    return found | {
        name: mean for one in alike for name, mean in rules_of_queue().get(one, {}).items()
    }


def rules_of_queue() -> dict[str, dict[str, float]]:
    """Return the means of the rules that do not know run times, by the windows of their log."""
    table = pl.read_csv(FOLDER / "queue_rules.csv").filter(part="test", kind="heuristic")
    return {
        windows_of(load_recipe(f"queue-{name}")): dict(
            table.filter(log=log).select("policy", "slowdown").iter_rows()
        )
        for log, names in RULES_PLAYED_IN.items()
        for name in names
    }


@pytest.mark.slow
def test_a_rule_of_two_tables_has_one_mean():
    rules, compared = rules_of_queue(), set()
    for windows, one in scored_policies():
        if one.policy in rules.get(windows, {}):
            assert one.mean == rules[windows][one.policy]
            compared.add((windows, one.policy))
    assert {windows for windows, _ in compared} == rules.keys()
    assert len(compared) == 9 * len(rules)


@pytest.mark.parametrize(
    ("recipe", "policy", "mean"),
    [("queue-sdsc-blue-online", "wsept_conservative", 59.4331),
     ("queue-kth-online", "aged_expected_easy@rollout", 20.532)],
)  # fmt: skip
def test_the_best_without_learning_may_be_of_the_table_of_rules(recipe, policy, mean):
    table = pl.read_csv(FOLDER / "online.csv", infer_schema_length=0)
    best = best_of(table.filter(recipe=recipe).row(0, named=True))
    assert (best.policy, best.mean) == (policy, mean)


@pytest.mark.parametrize(
    ("problem", "decimals"), [("`slots`, rate 1.0", 2), ("`multicluster`", 2), ("`binpack`", 0)]
)
def test_the_numbers_of_the_readme_are_those_of_the_table(problem, decimals):
    readme = " ".join((FOLDER.parents[1] / "README.md").read_text().split())
    one = next(d for d in DELIVERIES if (d.problem, d.source) == (problem, "play"))
    row = row_of(one)
    agent = float(row["mean"])
    rule = agent - float(row["paired_difference"])
    unit = " s" if "makespan" in one.outcome else ""
    assert f"{agent:,.{decimals}f}{unit} against {rule:,.{decimals}f}{unit}" in readme
    assert verdicts([row_of(each) for each in DELIVERIES])[DELIVERIES.index(one)] == 1


def test_the_losses_of_the_readme_are_those_of_the_table():
    """No agent is better on a log of `queue` or on the stream; offline on thermal on fresh ones."""
    rows = {(d.problem, d.source): row_of(d) for d in DELIVERIES}
    none = [one for name, one in rows.items() if "queue" in name[0] or "stream" in name[0]]
    assert len(none) == 12
    for row in (*none, rows["`thermal`", "log"]):
        low, high = float(row["paired_low"]), float(row["paired_high"])
        assert (low if row["higher_is_better"] == "true" else -high) <= 0.0
    again = [one for one in DELIVERIES if one.fresh]
    fresh = [row_of(one, one.fresh) for one in again]
    thermal = [(one.problem, one.source) for one in again].index(("`thermal`", "log"))
    assert verdicts(fresh)[thermal] == 1
    gain, level = (float(fresh[thermal][name]) for name in ("paired_difference", "mean"))
    readme = " ".join((FOLDER.parents[1] / "README.md").read_text().split())
    said = f"{fresh[thermal]['windows']} fresh ones a gain of {gain:.3f}"
    assert f"{said} (level {level:.3f} against {level - gain:.3f})" in readme
    low, high = (float(fresh[thermal][name]) for name in ("paired_low", "paired_high"))
    page = " ".join((FOLDER.parent / "claims.md").read_text().split())
    assert f"by {gain:.3f} ({low:.3f} to {high:.3f})" in page


def test_what_is_said_of_rules_that_look_ahead_is_in_the_table_of_claims():
    """No agent is better than one on windows on which no setting had been tried."""
    found = beside_rules_ahead()
    ms = {
        (recipe, policy): float(value)
        for recipe, policy, value in pl.read_csv(FOLDER / "fresh_times.csv")
        .select("recipe", "policy", "ms_per_decision")
        .iter_rows()
    }
    keys = [(row["scenario"], row["recipe"], row["baseline"], row["policy"]) for *_, row in found]
    ratios = [
        (scenario == "binpack", ms[recipe, rule] / ms[recipe, agent])
        for scenario, recipe, rule, agent in keys
        if (recipe, rule) in ms
    ]
    packing = [ratio for packs, ratio in ratios if packs]
    others = [ratio for packs, ratio in ratios if not packs]
    page = " ".join((FOLDER.parent / "claims.md").read_text().split())
    low, high = 10 * round(min(others) / 10), 100 * round(max(others) / 100)
    assert f"{low} to {high:,} times as long" in page
    assert f"on `binpack` {min(packing):.0f} to {max(packing):.0f} times" in page
    sides = verdicts([row for *_, row in found])
    shown = {
        (problem, windows): side
        for (problem, _, windows, _), side in zip(found, sides, strict=True)
    }
    assert len(shown) == 10
    assert {one: side for one, side in shown.items() if side} == {
        ("`slots`, rate .7", "test"): -1, ("`slots`, rate .7", "first draw"): -1,
        ("`slots`, rate 1.0", "test"): 1,
    }  # fmt: skip


def test_the_readme_names_the_gains_on_new_windows():
    better, others = better_and_others(shown_rows())
    assert better == [
        "`slots`, rate 1.0", "`thermal`", "`multicluster`", "`deferrable`", "`binpack`",
        "`binpack`, generated",
    ]  # fmt: skip
    assert others == ["`slots`, rate .7"]
    readme = " ".join((FOLDER.parents[1] / "README.md").read_text().split())
    assert (
        "looking ahead included, in `slots` at rate 1.0, `thermal`, `multicluster` and "
        "`deferrable`; in `slots` at rate 0.7 no gain is shown" in readme
    )
    [reused] = [one for one in FRESH if one.reused]
    assert reused.problem == "`binpack`"
    assert f"in {share_of_time(reused):.0f} times the rule's time, on windows of the log" in readme


def test_rules_of_the_second_draw_have_the_time_of_the_agents():
    second = [one for one in FRESH if one.second]
    assert len(second) == 3
    for one in second:
        assert share_of_time(one) <= 1.0


def test_the_page_of_claims_shows_every_claimed_gain_after_holm():
    parts = claim_pages()
    gains = [
        line.split(" | ") for line in parts["parts/claims-gains.md"].splitlines()[2:] if "|" in line
    ]
    assert len(gains) == 3
    assert all(row[5].startswith("**") for row in gains)
    none = [
        line.split(" | ") for line in parts["parts/claims-none.md"].splitlines()[2:] if "|" in line
    ]
    assert len(none) == 13
    assert not any("**" in row[5] for row in none)
    page = " ".join((FOLDER.parent / "claims.md").read_text().split())
    last = row_of(next(d for d in DELIVERIES if (d.problem, d.source) == CLAIMED))
    assert f"4.031, 4.009, {float(last['mean']):.3f}" in page
    assert f"in place of {-float(last['paired_difference']):.3f}".replace("0.", ".") in page


def test_an_anchor_is_between_random_and_the_bound():
    """Score 1 is the best without learning, and the bound's score is not below it."""
    known = anchors()
    assert len(known) > 10
    for one in known.values():
        assert one.score(one.random) == 0.0
        assert one.score(one.best_mean) == 1.0
        assert (one.best_mean > one.random) == (one.better == "higher")
        assert one.bound is None or one.score(one.bound) >= 1.0
        assert one.best_return is None or one.best_return != one.random_return
    assert sum(one.bound is not None for one in known.values()) >= 5


@pytest.mark.slow
def test_anchors_are_of_recipes_and_windows_as_they_are():
    """The best without learning is the best that the committed tables have for these windows."""
    tables = scored()
    for windows, anchor in anchors().items():
        for recipe in map(load_recipe, anchor.recipes):
            assert windows_of(recipe) == windows
            assert anchor_of(recipe) == anchor
        means = tables[windows, anchor.metric]
        pick = max if anchor.better == "higher" else min
        played = {name: mean for name, mean in means.items() if name not in {"random", "behaviour"}}
        assert pick(played.values()) == anchor.best_mean


def test_bounds_are_of_recipes_that_exist():
    from hindcast.pipeline.recipes.loading import known_recipes

    table = pl.read_csv(FOLDER / "bounds.csv")
    assert set(table["recipe"]) <= set(known_recipes())
    assert table["mean"].is_finite().all()


@pytest.mark.slow
def test_every_recipe_with_behaviours_has_its_size(pages):
    """Sizes are of the recipes as they are: a changed recipe has another digest."""
    from hindcast.pipeline.recipes.loading import known_recipes, load_recipe

    recipes = {r.id: r.digest for r in map(load_recipe, known_recipes()) if r.behaviours}
    table = pl.read_csv(FOLDER / "sizes.csv")
    assert dict(table["recipe", "digest"].iter_rows()) == recipes
    assert (table["decisions"] >= table["episodes"]).all()
    rows = [line for line in pages["parts/datasets.md"].splitlines()[2:] if line]
    assert len(rows) == len(recipes)
    assert all(len(row.split(" | ")) == 10 and " |  | " not in row for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["deferrable-realtime-v1", "binpack-synthetic-random-v1"])
def test_a_dataset_that_is_built_anew_has_the_sealed_data(name, tmp_path):
    sealed = dict(pl.read_csv(FOLDER / "sizes.csv")["recipe", "data_sha256"].iter_rows())
    built = hindcast.build(load_recipe(name), tmp_path / "dataset", workers=2)
    assert built.manifest.data_sha256 == sealed[name]


def test_a_table_with_a_column_less_or_a_word_for_a_number_is_refused():
    rows = (FOLDER / "offline.csv").read_text().splitlines()
    with pytest.raises(DatasetError, match=r"x\.csv: expected the columns scenario"):
        results_markdown("\n".join(r.partition(",")[2] for r in rows).encode(), "x.csv")
    cells = rows[1].split(",")
    cells[rows[0].split(",").index("mean")] = "many"
    with pytest.raises(DatasetError, match=r"x\.csv: "):
        results_markdown((rows[0] + "\n" + ",".join(cells)).encode(), "x.csv")


def test_the_page_of_the_gates_counts_right_and_wrong_verdicts():
    """One agent of each kind: delivered and better, delivered and worse, refused and better."""
    rows = [
        ("cql", "agent", "0.1,0.05,0.2", "1.5,0.5,2.5"),
        ("iql", "agent", "0.1,0.05,0.2", "-1.5,-2.5,-0.5"),
        ("crr", "rule", "0.1,-0.05,0.2", "1.5,0.5,2.5"),
        ("bcq", "rule", "-0.1,,", "0.5,-0.5,2.5"),
    ]
    lines = [",".join(gate.COLUMNS)]
    for agent, delivered, found, test in rows:
        about = f"slots,r-v1,{agent},0,log,hold_5,agreement,9"
        lines.append(f"{about},{found},{delivered},50,{test},key")
    lines.append("slots,r-v1,cql,0,simulator,hold_8,mean_slowdown,9,1,.5,2,agent,50,1,.5,2,key")
    page = gate.gate_markdown("\n".join(lines).encode())
    assert "has 4 agents of 1 logs" in page
    played, of_log = page.split("## The log alone")
    assert "| the agent | 1 | 0 | 0 |" in played
    assert "| cql | hold_8 | mean_slowdown | +1 [+0.5, +2] | agent |" in played
    assert "| the agent | 1 | 0 | 1 |" in of_log
    assert "| the rule | 1 | 1 | 0 |" in of_log
    assert "Delivered agents: 2. Worse than the rule of them: 1." in of_log
    assert "Agents better than the rule: 2. Not delivered of them: 1." in of_log
    assert "| bcq | hold_5 | agreement | -0.1 [n/a, n/a] | rule | +0.5 [-0.58, +2.66]: " in of_log
