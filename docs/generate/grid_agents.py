"""Rules and agents of `deferrable` on zones or years of a grid that nobody trained on.

    python -m docs.generate.grid_agents PROBLEM WORK AGENTS

plays them on the same windows and writes the rows of the problem to docs/results/grid_agents.csv.
AGENTS/NAME has the trainings of an agent, one folder per seed, whose selected checkpoints are the
agent NAME. What a policy played is kept in WORK and read from there. The record of this process
goes to stderr, for docs/results/provenance.json.

    zones    every third zone by name of 2022, which training lacks
    years    2024 in three zones, whose 2021 and 2022 training has, and in one that it lacks

Sums over the windows of a zone come first, then means over zones. `less` is the cost of
lowest_window less that of the policy, in the unit of the objective, in percent of that of starting
at once. Its interval is the 95 % bootstrap over windows within zones, over zones, and over seeds.
`seeds_above` are the seeds whose carbon is below that of lowest_window in sum; where the objective
has money, whose zones have other currencies, whose `less` is above 0.
"""

import csv
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from docs.generate.text import code, table
from hindcast.pipeline.pages.numbers import write_interval, write_number
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.problem import make_instance
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.simulation.scenario import Instance
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.storage.provenance import key_of, provenance
from hindcast.pipeline.workloads.schema import Workload
from hindcast.policies.entrants import entrants

TABLE: Final = Path(__file__).parents[1] / "results" / "grid_agents.csv"
BASE: Final = "lowest_window"
ZONES: Final = (
    "AU-TAS", "BA", "CA-QC", "DK-DK1", "FR", "HR", "IT-CNO", "LV", "NO-NO4", "SE-SE1", "SK",
    "US-CAL-CISO", "US-CENT-SPA", "US-FLA-GVL", "US-MIDW-AECI", "US-NW-CHPD", "US-NW-IPCO",
    "US-NW-SCL", "US-SW-PNM", "US-TEX-ERCO",
)  # fmt: skip
# rule -> settings beside those of the recipe
RULES: Final[Mapping[str, Sequence[str]]] = {
    "now": (), "latest": (), "threshold_24": (), "lowest_slot": (), BASE: (),
    "lowest_window_priced": ("config.load_prices=true",),
}  # fmt: skip
_FEWEST_ZONES: Final = 10  # of an interval: draws of four say little of how far zones lie apart
_RESAMPLES: Final = 2000
_SEED: Final = 55


@dataclass(frozen=True)
class Problem:
    """Zones on which the policies of a recipe are played.

    Attributes:
        recipe: Id of the recipe.
        zones: Names of the zones, whose windows are drawn apart.
        every: Distance of the test windows of a zone; zones take other ones in turn.
        settings: Settings beside those of the recipe.
    """

    recipe: str
    zones: tuple[str, ...]
    every: int = 1
    settings: tuple[str, ...] = ()


PROBLEMS: Final[Mapping[str, Problem]] = {
    "zones": Problem("deferrable-grid-zones-v1", ZONES, 18),
    "years": Problem(
        "deferrable-grid-years-online", ("DE-LU", "US-CAL-CISO", "US-TEX-ERCO", "ZA"),
        settings=('config.first_day="2024-01-01"', 'config.last_day="2024-12-31"'),
    ),
}  # fmt: skip

Array = NDArray[np.float64]
Played = Sequence[Sequence[Sequence[Mapping[str, float]]]]  # outcomes by seed, zone and window


def _recipe(problem: Problem, number: int, settings: Sequence[str]) -> Recipe:
    """Return the recipe of the zone of a number, whose windows are drawn apart."""
    own = [f'config.zone="{problem.zones[number]}"', f"seed={_SEED + number}"]
    return load_recipe(problem.recipe, [*own, *problem.settings, *settings])


def _instances(
    problem: Problem, settings: Sequence[str], workload: Workload
) -> list[list[Instance]]:
    """Return the test windows of every zone."""
    found = []
    for number in range(len(problem.zones)):
        recipe = _recipe(problem, number, settings)
        windows = list(recipe.windows("test"))[number % problem.every :: problem.every]
        scenario = load_scenario(recipe.scenario)
        found.append([make_instance(recipe, scenario, workload, window) for window in windows])
    return found


def play(problem: Problem, work: Path, agents: Path) -> Iterator[tuple[str, str, Played]]:
    """Yield name and kind of every policy, and what it played."""
    folders = sorted(agents.iterdir()) if agents.is_dir() else []
    jobs = [(name, "rule", settings) for name, settings in RULES.items()]
    jobs += [(folder.name, "agent", ()) for folder in folders]
    workload = load_source(_recipe(problem, 0, ()))
    made: dict[Sequence[str], list[list[Instance]]] = {}
    for name, kind, settings in jobs:
        kept = work / f"{name}.json"
        if not kept.is_file():
            if settings not in made:
                made = {key: value for key, value in made.items() if not key}
                made[settings] = _instances(problem, settings, workload)
            recipe = _recipe(problem, 0, settings)
            found = [name] if name in RULES else _checkpoints(agents / name)
            played = [
                [[outcomes_of(recipe, instance, each.behaviour) for instance in zone]
                 for zone in made[settings]]
                for each in entrants(recipe, found)
            ]  # fmt: skip
            work.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(played), encoding="utf-8")
        yield name, kind, json.loads(kept.read_text(encoding="utf-8"))


def _checkpoints(folder: Path) -> list[str]:
    """Return the selected checkpoints of the trainings of an agent."""
    return [str(path.parent) for path in sorted(folder.glob("*/best/checkpoint.json"))]


def outcomes_of(recipe: Recipe, instance: Instance, behaviour: Behaviour) -> dict[str, float]:
    """Return the outcomes of a policy in a window."""
    scenario = load_scenario(recipe.scenario)
    spec = scenario.spec(recipe.config, recipe.objective)
    rng = generator(_SEED, "grid agents")
    outcomes = run_episode(scenario, spec, instance, behaviour, rng).outcomes.tolist()
    return dict(zip((outcome.name for outcome in spec.outcomes), outcomes, strict=True))


def _of(played: Played, name: str) -> Array:
    """Return an outcome by seed, zone and window (S, Z, W)."""
    return np.array([[[each[name] for each in zone] for zone in seed] for seed in played])


def interval(less: Array, now: Array) -> tuple[float, float, float]:
    """Return the mean over zones of the summed differences (S, Z, W), in % of `now`, and 95 %."""
    rng = np.random.default_rng(_SEED)
    seeds, zones, windows = less.shape

    def percent(chosen: NDArray[np.int64], places: NDArray[np.int64], drawn: Array) -> float:
        rows = chosen[:, None], places
        return float(np.mean(drawn.mean(axis=0)[rows].sum(axis=1) / now[rows].sum(axis=1))) * 100

    every = np.broadcast_to(np.arange(windows), (zones, windows))
    mean = percent(np.arange(zones), every, less)
    found = []
    for _ in range(_RESAMPLES):
        chosen = np.asarray(rng.integers(zones, size=zones))
        places = rng.integers(windows, size=(zones, windows))
        found.append(percent(chosen, places, less[rng.integers(seeds, size=seeds)]))
    low, high = np.quantile(found, [0.025, 0.975])
    return mean, float(low), float(high)


def _at_once(problem: Problem, base: Played) -> Array:
    """Return the cost of starting at once in the unit of the objective, (Z, W)."""
    recipe = _recipe(problem, 0, ())
    kg: Array = _of(base, "carbon_now_kg")[0]
    if recipe.objective == "carbon":
        return kg
    saved = _of(base, "money_saved_per_mwh") * _of(base, "energy_kwh") / 1e3
    found: Array = (_of(base, "money") + saved)[0] + recipe.config.carbon_price * kg / 1e3
    return found


def rows(name: str, work: Path, agents: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a problem, the bound last."""
    problem = PROBLEMS[name]
    played = list(play(problem, work, agents))
    base = next(found for policy, _, found in played if policy == BASE)
    now, bound = _at_once(problem, base), -_of(base, "bound")[0]
    reference, energy = -_of(base, "total_reward"), _of(base, "energy_kwh")[0]
    of_carbon = _recipe(problem, 0, ()).objective == "carbon"
    size = np.ones(len(now)) if of_carbon else now.sum(axis=1)

    def share(of: Array, by: Array) -> float:
        varied = by.sum(axis=1) > 1e-9  # a zone whose hours are alike has nothing to save
        return float(np.mean((of.sum(axis=1) / by.sum(axis=1))[varied]))

    for policy, kind, found in played:
        cost = -_of(found, "total_reward")
        saved = now - cost.mean(axis=0)
        grams = _of(found, "saved_g_per_kwh").mean(axis=0) * energy
        less, low, high = interval(reference - cost, now)
        yield {
            "problem": name, "policy": policy, "kind": kind, "seeds": len(found),
            "zones": len(problem.zones),
            "windows": now.size, "saved_percent": 100 * share(saved, now),
            "share_of_bound": 100 * share(saved, now - bound),
            "g_per_kwh": share(grams, energy),
            "wait_h": float(np.mean(_of(found, "mean_wait_h"))),
            "late_percent": 100 * float(_of(found, "late").sum() / _of(found, "jobs").sum()),
            "peak_cores": float(np.mean(_of(found, "peak_cores"))),
            "less": less, "low": low, "high": high,
            "seeds_above": sum(
                float(one) > 0 for one in ((reference - cost).sum(axis=2) / size).sum(axis=1)
            ),
        }  # fmt: skip
    yield {
        "problem": name, "policy": "bound", "kind": "bound", "zones": len(problem.zones),
        "windows": now.size, "saved_percent": 100 * share(now - bound, now),
        "share_of_bound": 100.0,
        "g_per_kwh": 1e3 * share(now - bound, energy) if of_carbon else None,
    }  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    """Play what is not kept and write the rows of a problem."""
    name, work, agents = arguments
    written = pl.DataFrame(list(rows(name, Path(work), Path(agents))), infer_schema_length=None)
    record = provenance()
    key = key_of(record)
    sys.stderr.write(f'"{key}": {json.dumps(record, indent=2)}\n')
    rounded = written.with_columns(pl.selectors.float().round(3), provenance=pl.lit(key))
    others = pl.read_csv(TABLE).filter(pl.col("problem") != name)
    pl.concat([others, rounded], how="diagonal_relaxed").write_csv(TABLE)


def grid_agents_pages() -> Mapping[str, str]:
    """Return the tables of docs/results/grid-agents.md, one for each problem."""
    return {f"parts/grid-agents-{name}.md": _page(name) for name in PROBLEMS}


def _page(name: str) -> str:
    """Return the table of a problem."""
    columns = {
        "saved_percent": "saved, %", "g_per_kwh": "g/kWh", "share_of_bound": "of the bound, %",
        "wait_h": "wait, h", "late_percent": "late, %", "peak_cores": "peak cores",
    }  # fmt: skip
    cells = []
    with TABLE.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["problem"] != name:
                continue
            less = ""
            if row["low"] and row["policy"] != BASE:
                less = write_number(float(row["less"]), 2, signed=True)
                if int(row["zones"]) >= _FEWEST_ZONES:
                    ends = write_interval(float(row["low"]), float(row["high"]), 2, signed=True)
                    less += f" ({ends})"
            seeds = f", {row['seeds']} seeds" if row["kind"] == "agent" else ""
            numbers = (write_number(float(row[of]), 1) if row[of] else "" for of in columns)
            cells.append([code(row["policy"]) + seeds, *numbers, less])
    head = ["policy", *columns.values(), f"better than {code(BASE)}"]
    return table(head, cells, left=1)


if __name__ == "__main__":
    main(sys.argv[1:])
