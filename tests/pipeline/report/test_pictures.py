"""Tests of pictures of states: what a page draws is what the dataset holds for that decision."""

import numpy as np
import pytest

import hindcast
from hindcast.pipeline import dataset as datasets
from hindcast.pipeline.errors import InputError, UnknownName
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.report.view.episodes import write_episodes
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.picture import Panel, resolved
from hindcast.pipeline.simulation.spec import Feature, Spec
from tests.chromium import chromium
from tests.pipeline.decisions.decision_cases import ROWS, long_table
from tests.pipeline.report.view_pages import HOSTILE, Elements
from tests.representatives import nightly_but
from tests.sample_datasets import KINDS, build_small

# what is built, or a recipe, its behaviours and settings
BUILT = {
    "binpack": ("binpack-synthetic-v1", ("tetris",), ("config.jobs_per_window=4",)),
    "slots": ("slots-demo-v1", ("random",), ("config.steps=12",)),
    "deferrable": ("deferrable-base-v1", ("random",), ("config.horizon=12",)),
    "queue": ("queue-lublin1-v1", ("random",), ("config.jobs=40", "config.follow=10")),
    "multicluster": KINDS["valued"],
    "thermal": KINDS["thermal"],
    "gpupack": KINDS["pods"],
    "grid": KINDS["grid"],
}
RECIPES = (
    "binpack-alibaba2017-v1", "deferrable-base-v1", "deferrable-grid-v1", "gpupack-openb-v1",
    "multicluster-foresight-online", "queue-kth-v1", "slots-deeprm-v1", "thermal-default-v1",
)  # fmt: skip
SHOWN = """[...document.querySelectorAll(".picture svg")].map((svg) => ({
  bars: [...svg.querySelectorAll("rect[data-value]")].map((bar) =>
    [Number(bar.dataset.value), Number(bar.getAttribute("width")), bar.getAttribute("class")]),
  line: svg.querySelector("[data-values]")?.dataset.values.split(" ").map(Number) ?? [],
  points: [...svg.querySelectorAll("circle")].map((point) =>
    [...point.dataset.value.split(" ").map(Number), point.classList.contains("ring"),
      point.classList.contains("barred")]),
}))"""


def recorded(panel, spec, episode, step):
    """Return what a panel has to draw of a decision: rows of numbers, and the chosen row."""
    moment = dict(zip((f.name for f in spec.context), episode.context[step], strict=True))
    if panel.features:
        return [[moment[name]] for name in panel.features], -1
    rows = episode.candidates_of(step)
    of = {role: rows[:, spec.column(name)] for role, name in panel.of.items()}
    key = of.pop("key", np.arange(len(rows)))
    kept, chosen = {}, -1
    for i in range(len(rows)):
        if key[i] < 0 or of.get("thick", np.ones(len(rows)))[i] <= 0:
            continue
        kept.setdefault(key[i], i)
        if i == episode.choice[step]:
            chosen = list(kept).index(key[i])
    roles = ("x", "y", "size", "shade") if panel.mark == "points" else ("to",)
    return [[of[role][i] for role in roles] for i in kept.values()], chosen


@pytest.mark.slow
@pytest.mark.parametrize("name", nightly_but({"slots", "thermal"}, BUILT))
def test_a_picture_draws_the_recorded_numbers(name, tmp_path):
    made = BUILT[name]
    dataset = datasets.open(made(tmp_path) if callable(made) else build_small(tmp_path, *made))
    path = tmp_path / "view.html"
    write_episodes(dataset, dataset.iter_episodes(), path)
    spec, episode = dataset.spec, next(iter(dataset.iter_episodes()))
    panels = load_scenario(spec.scenario).picture(spec)
    step = len(episode) // 2
    with chromium() as page:
        page.show(path, f"#episode=0&step={step}")
        shown = page.run(SHOWN)
        assert page.faults() == []
    assert len(shown) == len(panels) > 1
    drawn = 0
    for panel, found in zip(panels, shown, strict=True):
        wanted, chosen = recorded(panel, spec, episode, step)
        drawn += len(wanted)
        numbers = np.array(wanted, np.float32).reshape(len(wanted), -1)
        if panel.mark == "line":
            assert (np.array(found["line"], np.float32) == numbers[:, 0]).all()
        elif panel.mark == "points":
            order = np.lexsort(numbers.T)
            points = np.array([point[:4] for point in found["points"]], np.float32)
            assert (points[np.lexsort(points.T)] == numbers[order]).all()
            assert [point[:4] for point in found["points"] if point[4]] == [wanted[chosen]]
            feasible = episode.feasible[slice(*episode.offsets[step : step + 2])]
            if "key" not in panel.of:
                assert sum(point[5] for point in found["points"]) == (~feasible).sum()
        else:
            values, widths, kinds = zip(*found["bars"], strict=True) if wanted else ((), (), ())
            assert (np.array(values, np.float32) == numbers[:, 0]).all()
            assert [i for i, kind in enumerate(kinds) if kind == "chosen"] == [
                i for i in (chosen,) if i >= 0
            ]
            if "since" not in panel.of and any(values):
                scale = max(widths) / max(map(abs, values))
                assert np.allclose(widths, np.abs(values) * scale, atol=1e-6)
    assert drawn > 3


@pytest.mark.parametrize("name", RECIPES)
def test_pictures_are_of_features_that_recipes_record(name):
    recipe = load_recipe(name)
    scenario = load_scenario(recipe.scenario)
    spec = scenario.spec(recipe.config, recipe.objective)
    assert all(resolved(panel, spec)["columns"] for panel in scenario.picture(spec))


def test_panels_that_cannot_be_drawn_are_refused():
    feature = Feature("load", "1", 0, 1, "a load")
    spec = Spec("toy", "speed", (feature,), (feature,), (), ())
    with pytest.raises(UnknownName, match="did you mean 'load'"):
        resolved(Panel("loads", "bars", ("lode",)), spec)
    with pytest.raises(UnknownName, match="did you mean 'load'"):
        resolved(Panel("loads", "bars", of={"to": "load"}, full="lood"), spec)
    for panel in (
        Panel("loads", "pie", ("load",)),
        Panel("loads", "bars", of={"x": "load"}),
        Panel("loads", "line", of={"to": "load"}),
        Panel("loads", "bars"),
        Panel("loads", "bars", ("load",), {"to": "load"}),
    ):
        with pytest.raises(InputError, match="picture of toy, 'loads'"):
            resolved(panel, spec)


@pytest.mark.slow
def test_names_of_features_are_text_and_a_log_of_decisions_has_no_picture(tmp_path):
    """A log whose features have hostile names shows them as they are."""
    table = long_table(12).rename({"hour": HOSTILE[0], "x": HOSTILE[1]})
    mapping = {
        **ROWS,
        "context": {"numbers": [HOSTILE[0]]},
        "candidates": {"numbers": [HOSTILE[1]], "categories": ["size"]},
    }
    made = hindcast.ingest("decisions", table, tmp_path / "d", mapping=mapping)
    dataset, path = datasets.open(made.folder), tmp_path / "view.html"
    write_episodes(dataset, dataset.iter_episodes(), path)
    elements = Elements(path.read_text("utf-8"))
    assert len([one for one in elements.code if one[0] == "script"]) == 4
    assert not {"img", "figure"} & {tag for tag, _ in elements.tags}
    with chromium() as page:
        page.show(path)
        page.run("document.getElementById('features').open = true")
        page.until("document.getElementById('of-features').rows.length")
        text = page.run("document.getElementById('of-features').textContent")
        assert HOSTILE[0] in text
        assert HOSTILE[1] in text
        assert page.faults() == []
