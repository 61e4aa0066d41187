"""Tests of the card: its numbers are counted from the parts, and its code and its recipe run."""

import contextlib
import dataclasses
import io
import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
import yaml

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.documents.card import card_text, page
from hindcast.pipeline.dataset.documents.card.columns import grouped
from hindcast.pipeline.dataset.documents.card.coverage import effective, entropy, measure
from hindcast.pipeline.dataset.documents.card.header import (
    MIXED,
    files_by_split,
    size_category,
)
from hindcast.pipeline.dataset.documents.card.page import card, warnings
from hindcast.pipeline.dataset.documents.card.returns import behaviour_returns, histogram
from hindcast.pipeline.dataset.documents.terms import licence_of
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.inspection.diff import compare
from hindcast.pipeline.pages.templates import render
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import BehaviourRecipe
from hindcast.pipeline.scenarios import SCENARIOS, load_scenario
from hindcast.policies.registry import behaviours

COLUMNS = Path(page.__file__).with_name("columns.md.jinja")


def rows(folder) -> list[dict]:
    """Return every decision of a dataset as Python values."""
    parts = sorted((folder / "data").iterdir())
    found = [row for part in parts for row in pq.read_table(part).to_pylist()]
    return [row for row in found if row["choice"] is not None]


def built(recipe, folder, *chosen: BehaviourRecipe):
    """Build the recipe with other behaviours and return its coverage and episodes."""
    other = dataclasses.replace(recipe, behaviours=chosen, level="")
    build(other, behaviours(other), folder)
    dataset = ds.open(folder)
    return measure(folder, dataset.manifest, dataset.episodes()), dataset


def text_of(folder) -> str:
    return (folder / "README.md").read_text()


def section(text: str, title: str) -> str:
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.slow
def test_coverage_is_what_counting_row_by_row_gives(tiny_dataset):
    dataset = ds.open(tiny_dataset)
    found = measure(tiny_dataset, dataset.manifest, dataset.episodes())
    decisions = rows(tiny_dataset)
    assert found.decisions == len(decisions)
    assert found.candidates == sum(len(r["feasible"]) for r in decisions)
    assert found.feasible == sum(sum(r["feasible"]) for r in decisions)
    assert found.forced == sum(sum(r["feasible"]) == 1 for r in decisions)
    chosen = [r["choice"] for r in decisions]
    assert found.chosen.tolist() == [chosen.count(i) for i in range(max(chosen) + 1)]
    supports, entropies = [], []
    for r in decisions:
        p = [x for x in r["behaviour_probabilities"] if x > 0]
        supports.append(len(p) / sum(r["feasible"]))
        entropies.append(-sum(x * math.log(x) for x in p))
    assert found.support == pytest.approx(np.mean(supports))
    assert found.spread == pytest.approx(np.mean(entropies), abs=1e-6)
    assert found.smallest == min(r["propensity"] for r in decisions)


@pytest.mark.slow
def test_behaviours_are_compared_at_the_first_choice_of_an_episode(tiny_dataset):
    dataset = ds.open(tiny_dataset)
    episodes = dataset.episodes()
    found = measure(tiny_dataset, dataset.manifest, episodes).distinct
    known = {e: (w, b) for e, w, b in episodes.select("episode", "window", "behaviour").rows()}
    first: dict = {}
    for r in rows(tiny_dataset):
        if r["step"] == 0:
            window, behaviour = known[r["episode"]]
            of_window = first.setdefault(window, {})
            of_window.setdefault(behaviour, []).append(r["behaviour_probabilities"])
    information = []
    for of_window in first.values():
        total = sum(map(len, of_window.values()))
        mixed = np.sum([np.sum(p, axis=0) for p in of_window.values()], axis=0) / total
        own = sum(len(p) / total * entropy(np.mean(p, axis=0)) for p in of_window.values())
        information.append(entropy(mixed) - own)
    assert found == pytest.approx(math.exp(np.mean(information)))
    assert 1 < found < episodes["behaviour"].n_unique()


def test_the_same_rule_under_two_explorations_differs_by_little(tiny_recipe, tmp_path):
    two = [BehaviourRecipe("longest_first", epsilon=e) for e in (0.1, 0.11)]
    found, _ = built(tiny_recipe, tmp_path / "d", *two)
    assert 1 <= found.distinct < 1.01


@pytest.mark.parametrize(
    ("counts", "expected"), [([5], 1.0), ([3, 3], 2.0), ([4, 0, 4, 4, 4], 4.0), ([1, 0], 1.0)]
)
def test_effective_numbers(counts, expected):
    """The effective number equals the count where all are used equally."""
    assert effective(np.array(counts)) == pytest.approx(expected)


def test_a_log_of_one_position_and_one_rule_is_called_degenerate_at_the_top(tiny_recipe, tmp_path):
    """The card warns if the first candidate is always chosen, as by plain first_fit."""
    found, dataset = built(tiny_recipe, tmp_path / "d", BehaviourRecipe("first_fit"))
    assert found.one_position
    assert found.deterministic
    assert len(warnings(found, dataset.episodes())) == 2
    top = text_of(tmp_path / "d").partition("\n## ")[0]
    assert "> **Degenerate log: one and the same position was chosen in every decision.**" in top
    assert "the one behaviour, `first_fit`, is deterministic" in " ".join(top.split())


def test_a_deterministic_log_over_several_positions_is_called_so(tiny_recipe, tmp_path):
    found, dataset = built(tiny_recipe, tmp_path / "d", BehaviourRecipe("longest_spread"))
    [warning] = warnings(found, dataset.episodes())
    assert "every propensity is 1" in warning
    assert found.positions > 1


def test_an_exploring_log_is_not_called_degenerate(tiny_dataset):
    assert "Degenerate" not in text_of(tiny_dataset)


def test_the_same_dataset_gives_the_same_card(tiny_dataset):
    dataset = ds.open(tiny_dataset)
    again = card_text(tiny_dataset, dataset.manifest, dataset.episodes())
    assert again == text_of(tiny_dataset)


def test_the_header_is_yaml_and_names_every_part_once(tiny_dataset):
    text = text_of(tiny_dataset)
    assert text.startswith("---\n")
    header = yaml.safe_load(text.split("---\n")[1])
    dataset = ds.open(tiny_dataset)
    assert header["license"] == "apache-2.0"
    assert header["size_categories"] == ["10K<n<100K"]
    assert {"binpack", "mixed", "offline-reinforcement-learning"} <= set(header["tags"])
    decisions, episodes = header["configs"]
    paths = [path for entry in decisions["data_files"] for path in entry["path"]]
    assert sorted(paths) == [part.path for part in dataset.manifest.parts]
    assert [e["split"] for e in decisions["data_files"]] == ["train", "validation"]
    assert episodes["data_files"] == [{"split": MIXED, "path": "episodes.parquet"}]


def test_the_rows_of_a_part_are_of_one_split(tiny_dataset):
    episodes = ds.open(tiny_dataset).episodes()
    assert (episodes.group_by("first_part").agg(pl.col("split").n_unique())["split"] == 1).all()


def test_parts_of_several_splits_are_not_given_to_one(tiny_dataset):
    dataset = ds.open(tiny_dataset)
    mixed = dataset.episodes().with_columns(first_part=0, last_part=pl.lit(3))
    assert list(files_by_split(dataset.manifest, mixed)) == [MIXED]


@pytest.mark.parametrize(
    ("rows", "category"), [(999, "n<1K"), (1000, "1K<n<10K"), (5 * 10**10, "n>10B")]
)
def test_size_categories(rows, category):
    assert size_category(rows) == category


@pytest.mark.parametrize(
    ("trace", "licence"),
    [("azure2020", "cc-by-4.0"), ("swf", "other"), ("generated", "apache-2.0")],
)
def test_licences(trace, licence):
    assert licence_of({"format": trace})[0] == licence


def blocks(text: str) -> dict[str, str]:
    """Return the Python code of the section on loading, by tool."""
    found = re.findall(r"### (.+?)\n\n```python\n(.*?)```", section(text, "Load"), re.DOTALL)
    return dict(found)


# The number of decisions that each snippet found, from the names that it leaves behind.
COUNTED = {
    "Hindcast": lambda n: n["episodes"]["steps"].sum(),
    "polars": lambda n: n["decisions"].select(pl.len()).collect().item(),
    "pandas": lambda n: len(n["decisions"]),
    "pyarrow": lambda n: n["rows"].count_rows(filter=n["decisions"]),
    "DuckDB": lambda n: n["duckdb"].sql(
        "SELECT count(choice) FROM 'data/*.parquet'"
    ).fetchall()[0][0],
    "Hugging Face datasets": lambda n: sum(
        row["choice"] is not None
        for split in ("train", "validation")
        for row in n["load_dataset"](n["here"], "decisions", split=split, streaming=True)
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("tool", COUNTED)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_every_way_to_load_runs_in_the_folder_and_finds_all_decisions(
    tool, tiny_dataset, tmp_path, monkeypatch
):
    pytest.importorskip({"DuckDB": "duckdb", "Hugging Face datasets": "datasets"}.get(tool, "json"))
    if tool == "Hugging Face datasets":
        import datasets

        monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
        monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tiny_dataset)
    names: dict = {}
    found = blocks(text_of(tiny_dataset))
    assert found.keys() == COUNTED.keys()
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(found[tool], names)
    assert said.getvalue().strip()
    assert COUNTED[tool](names) == ds.open(tiny_dataset).manifest.counts["decisions"]


@pytest.mark.slow
def test_the_recipe_in_the_card_rebuilds_every_byte(tiny_dataset, tmp_path):
    toml = re.search(r"```toml\n(.*?)```", text_of(tiny_dataset), re.DOTALL)
    (tmp_path / "recipe.toml").write_text(toml[1])
    recipe = load_recipe(tmp_path / "recipe.toml")
    assert recipe.digest == ds.open(tiny_dataset).manifest.digest
    build(recipe, behaviours(recipe), tmp_path / "again")
    assert compare(tiny_dataset, tmp_path / "again") == []


def test_returns_are_means_over_windows_with_intervals_around_them(tiny_dataset):
    dataset = ds.open(tiny_dataset)
    scenario, config = load_scenario("binpack"), dataset.manifest.recipe.config
    found = behaviour_returns(dataset.episodes(), dataset.spec.outcomes[0], scenario, config)
    for b in found:
        own = dataset.episodes().filter(behaviour=b.behaviour)
        assert b.episodes == own.height
        assert b.decisions == own["steps"].sum()
        assert b.returns.value == pytest.approx(own["return"].mean())
        assert b.headline.value == pytest.approx(own["makespan_s"].mean())
        assert b.returns.low < b.returns.value < b.returns.high


def test_windows_that_share_jobs_say_less_about_a_mean():
    """Where each window has four fifths of the jobs of the next, the interval is wider."""
    recipe = load_recipe("queue-kth-heuristic-v1")
    windows = np.arange(40)
    values = np.convolve(np.random.default_rng(3).normal(size=44), np.ones(5) / 5, "valid")
    made = pl.DataFrame({"behaviour": "a", "window": windows, "steps": 1, "return": values})
    scenario = load_scenario("queue")
    headline = scenario.spec(recipe.config, recipe.objective).outcomes[0]
    made = made.with_columns(pl.col("return").alias(headline.name))
    widths = []
    for step in (250, 50):
        starts = tuple(range(0, 40 * step, step))
        config = dataclasses.replace(recipe.config, jobs=250, starts=starts)
        found = behaviour_returns(made, headline, scenario, config)[0].returns
        widths.append(found.high - found.low)
    assert widths[1] > 1.5 * widths[0]


def test_a_histogram_has_every_episode_once():
    lines = histogram(pl.Series([1.0] * 7 + [2.0, 13.0, float("nan")]))
    counts = [int(re.search(r"  +([\d,]+)(  #+)?$", line)[1]) for line in lines[1:-1]]
    assert sum(counts) == 9
    assert counts[0] == 7
    assert lines[1].endswith("  " + "#" * 40)


@pytest.mark.parametrize(
    ("returns", "said"),
    [([3.0, 3.0], "All 2 episodes have the return 3."), ([math.nan], "No episode has a return.")],
)
def test_a_histogram_without_a_range_is_a_sentence(returns, said):
    assert histogram(pl.Series(returns)) == [said]


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_column_is_named_or_inside_a_range_of_names(name):
    """The card names every column or includes it in a range, also images and values."""
    scenario = load_scenario(name)
    config = scenario.config()
    if name == "slots":
        config = dataclasses.replace(config, observation="image")
    spec = scenario.spec(config, scenario.objectives[0])
    columns = {"context": [*grouped(spec.context)], "candidates": [*grouped(spec.candidates)]}
    text = render(COLUMNS, spec=spec, columns=columns)
    assert ("`image`" in text) == bool(spec.image_shape)
    assert ("`monte_carlo_value`" in text) == spec.valued
    assert all(f"`{o.name}`" in text for o in spec.outcomes)
    rows = _feature_rows(text)
    ranges = [int(n) for n in re.findall(r" \((\d+)\) \|", "\n".join(rows))]
    assert sum(ranges) + len(rows) - len(ranges) == len(spec.context) + len(spec.candidates)


def _feature_rows(text: str) -> list[str]:
    """Return the rows of the tables of features: those whose third cell is a range."""
    return [line for line in text.split("\n") if re.search(r"\| \S+ \.\. \S+ \|", line)]


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_has_a_paper_to_cite_and_says_where_it_differs(name):
    scenario = load_scenario(name)
    assert re.search(r"\d{4}|OSDEC|Liu", scenario.source)
    assert len(scenario.differences) >= 4
    assert all(one.endswith(".") for one in scenario.differences), scenario.differences


def test_sections_say_where_it_is_from_and_what_it_is_not(tiny_dataset):
    text = text_of(tiny_dataset)
    assert "DeepJS" in section(text, "Licence and citation")
    assert "in a simulator" in section(text, "Known limits")
    assert "The empty action that ends a tick is not a decision" in section(text, "Known limits")
    assert "jobs: 60" in section(text, "Provenance")
    manifest = json.loads((tiny_dataset / "manifest.json").read_text())
    assert manifest["digest"] in text
    assert all(version in section(text, "Rebuild") for version in manifest["versions"].values())


def test_notes_of_a_trace_are_printed_without_escape_sequences(tiny_dataset):
    """An SWF header is a stranger's text."""
    manifest = ds.open(tiny_dataset).manifest
    told = {**manifest.provenance, "notes": ["Note: \x1b[2Jx"]}
    episodes = ds.open(tiny_dataset).episodes()
    coverage = measure(tiny_dataset, manifest, episodes)
    told_manifest = dataclasses.replace(manifest, provenance=told)
    text = card(told_manifest, load_scenario("binpack"), episodes, coverage)
    assert "\n- Note: \\x1b[2Jx\n" in section(text, "Provenance")


def test_a_choice_that_is_none_of_its_candidates_is_an_error_not_a_count(tiny_dataset, tmp_path):
    shutil.copytree(tiny_dataset, tmp_path / "d")
    dataset = ds.open(tmp_path / "d")
    path = tmp_path / "d" / dataset.manifest.parts[0].path
    table = pq.read_table(path)
    choices = table.column("choice").to_pylist()
    choices[0] = 2**31 - 1
    index = table.schema.get_field_index("choice")
    import pyarrow as pa

    changed = table.set_column(index, table.schema.field("choice"), pa.array(choices, pa.int32()))
    pq.write_table(changed, path)
    with pytest.raises(DatasetError, match=r"part-00000.parquet: a choice is not the index of"):
        measure(tmp_path / "d", dataset.manifest, dataset.episodes())
