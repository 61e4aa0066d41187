"""`python -m docs.generate.fgd`: play FGD's lists of pods and write docs/results/fgd.csv.

Rules play the recipe `gpupack-published` on every list, with the published ties and with drawn
ones. A row is the difference of two of them, paired by run, in points of allocated GPUs.
The column `provenance` is the key of the record of this process, which goes to stderr for
docs/results/provenance.json.
"""

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.problem import make_instance
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.storage.provenance import key_of, provenance
from hindcast.policies.registry import resolve

TABLE: Final = Path(__file__).parents[1] / "results" / "fgd.csv"
RECIPE: Final = "gpupack-published"
FIXED, DRAWN = "simulator", ""
_RULES: Final = ("fgd", "best_fit", "fit_starved_scarce")
_ALL: Final = (*_RULES, "dot_product", "clustering", "packing")
_BESIDE: Final = ("fgd", "best_fit", "random")
# list of pods -> ties -> rules
PLAYED: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    "default": {FIXED: (*_ALL, "fgd_unrounded", "random"), DRAWN: _ALL},
    "cpu250": {FIXED: (*_RULES, "fgd_unrounded"), DRAWN: _RULES},
    "gpuspec33": {FIXED: (*_RULES, "fgd_unrounded", "random"), DRAWN: _RULES},
    **{name: {FIXED: (*_RULES, "random")} for name in ("gpuspec10", "gpuspec20", "gpuspec25")},
    **{name: {FIXED: _RULES} for name in ("cpu050", "cpu100", "cpu200")},
}
_LOADS: Final = (50, 70, 80, 90, 95, 100, 130)
_T: Final = 2.262157  # of Student's t with nine degrees of freedom, for 95 %

Key = tuple[str, str, str]  # list, ties, rule
Outcomes = Mapping[Key, Sequence[Mapping[str, float]]]  # of the runs


def play(pods: str, ties: str, rule: str) -> list[dict[str, float]]:
    """Return the outcomes of a rule in the ten published runs."""
    path = f"alibaba_gpu2023/openb_pod_list_{pods}.csv.gz"
    recipe = load_recipe(RECIPE, [f'trace.path="{path}"', f'config.compat="{ties}"'])
    scenario, workload = load_scenario(recipe.scenario), load_source(recipe)
    spec = scenario.spec(recipe.config, recipe.objective)
    behaviour, found = resolve(rule, recipe.scenario, spec), []
    for window in recipe.windows("test"):
        instance = make_instance(recipe, scenario, workload, window)
        draws = generator(recipe.seed, rule, window)
        episode = run_episode(scenario, spec, instance, behaviour, draws)
        names = (outcome.name for outcome in spec.outcomes)
        found.append(dict(zip(names, episode.outcomes.tolist(), strict=True)))
    return found


def rows(outcomes: Outcomes) -> Iterable[dict[str, Any]]:
    """Return the differences of every rule from some others, and from itself with fixed ties."""
    for (pods, ties, rule), own in outcomes.items():
        with_same_ties = [key for key in outcomes if key[:2] == (pods, ties) and key[2] != rule]
        pairs = [key for key in with_same_ties if key[2] in _BESIDE]
        pairs += [(pods, FIXED, rule)] if ties == DRAWN else []
        for other in pairs:
            for load in _LOADS:
                name = f"allocated_{load}"
                both = zip(own, outcomes[other], strict=True)
                less = np.array([a[name] - b[name] for a, b in both])
                set_ties = "" if ties else " --set 'config.compat=\"\"'"
                yield {
                    "pods": pods,
                    "ties": "published" if ties else "drawn",
                    "policy": rule,
                    "load": load,
                    "allocated": round(float(np.mean([run[name] for run in own])), 4),
                    "minus": other[2],
                    "minus_ties": "published" if other[1] else "drawn",
                    "difference": round(float(less.mean()), 4),
                    "half_width": round(_T * float(less.std(ddof=1)) / math.sqrt(len(less)), 4),
                    "runs": len(less),
                    "command": f"hindcast evaluate {RECIPE} --trace openb_pod_list_{pods}.csv.gz"
                    f"{set_ties} --policy {rule} --out X",
                }


def main() -> None:
    """Play everything and write the table."""
    outcomes = {
        (pods, ties, rule): play(pods, ties, rule)
        for pods, by_ties in PLAYED.items()
        for ties, rules in by_ties.items()
        for rule in rules
    }
    record = provenance()
    key = key_of(record)
    sys.stderr.write(f'"{key}": {json.dumps(record, indent=2)}\n')
    pl.DataFrame(list(rows(outcomes))).with_columns(provenance=pl.lit(key)).write_csv(TABLE)


if __name__ == "__main__":
    main()
