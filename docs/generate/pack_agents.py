"""Rules and agents of `gpupack` on lists of pods: docs/results/pack_agents.csv.

    python -m docs.generate.pack_agents OUT AGENTS > docs/results/pack_agents.csv

plays them on the whole published cluster, with published ties, into folders below OUT. What is
finished there is read. AGENTS/NAME has trainings of an agent, one folder per seed, whose selected
checkpoints play. A row is the difference of two policies in the mean over the trainings, paired by
run. Records of provenance go to stderr, for docs/results/provenance.json.

`own_multigpu30` and `own_multigpu50` are lists of ours: pods of `default`, drawn so that pods of
several GPUs ask for 30 and 50 percent of the GPUs. Rules were chosen on them.
"""

import csv
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.evaluation.evaluate import evaluate
from hindcast.pipeline.evaluation.summary.pairing import read_settings
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.storage.location import traces_folder
from hindcast.policies.entrants import entrants

RECIPE: Final = "gpupack-published"
FAMILY: Final = "alibaba_gpu2023/openb_pod_list_{}.csv.gz"
RULES: Final = ("best_fit", "fgd", "fit_starved_scarce", "fit_starved_scarce_nodes")
TEST, VALIDATION = range(42, 52), range(2000, 2005)
OWN: Final = {"own_multigpu30": 0.3, "own_multigpu50": 0.5}  # share of GPUs, see the module
PLAYED_BY_AGENTS: Final = ("own_multigpu50", "default", "cpu250", "gpuspec25")
LISTS: Final[Mapping[str, range]] = {  # seeds of the runs
    **dict.fromkeys(OWN, VALIDATION),
    **dict.fromkeys(("default", "cpu250", "gpuspec25"), TEST),
    **dict.fromkeys(("cpu050", "cpu100", "cpu200", "gpuspec10", "gpuspec20", "gpuspec33"), TEST),
}
OUTCOMES: Final = (
    "allocated_80", "allocated_90", "allocated_95", "allocated_100", "allocated_130", "shortfall",
    "refused_none",
)  # fmt: skip
_T: Final = {5: 2.776445, 10: 2.262157}  # of Student's t, for 95 %, by runs
COLUMNS: Final = (
    "pods", "seeds", "policy", "trainings", "outcome", "mean", "minus", "difference", "half_width",
    "lowest", "highest", "runs", "provenance",
)  # fmt: skip


def resampled(share: float, path: Path) -> None:
    """Write a list like `default`, in which pods of several GPUs ask for `share` of the GPUs.

    It has as many pods, with and without GPUs. Those with GPUs are drawn with replacement.
    """
    pods = pl.read_csv(
        traces_folder() / FAMILY.format("default"), schema_overrides={"gpu_spec": pl.String}
    )
    asked = (pods["num_gpu"] * pods["gpu_milli"]).to_numpy()
    several, none = (pods["num_gpu"] > 1).to_numpy(), asked == 0
    single = ~several & ~none
    of_single = share * asked[single].mean()
    count = int((~none).sum())
    many = round(count * of_single / (of_single + (1 - share) * asked[several].mean()))
    rng = np.random.default_rng(round(100 * share))
    chosen = [
        rng.choice(np.flatnonzero(several), many),
        rng.choice(np.flatnonzero(single), count - many),
        np.flatnonzero(none),
    ]
    drawn = pods[np.concatenate(chosen)]
    names = pl.Series([f"own-pod-{i:05d}" for i in range(drawn.height)])
    drawn.with_columns(name=names).write_csv(path)


def play(out: Path, agents: Path, pods: str) -> list[Path]:
    """Play every policy on a list that has not played it yet; return the folders."""
    path = FAMILY.format(pods)
    if pods in OWN:
        path = str(out.absolute() / f"{pods}.csv")
        if not Path(path).is_file():
            resampled(OWN[pods], Path(path))
    changes = [f'trace.path="{path}"', f"config.seeds={list(LISTS[pods])}", 'objective="shortfall"']
    recipe = load_recipe(RECIPE, changes)
    found = [out / f"{pods}-rules"]
    if not (found[0] / "evaluation.json").is_file():
        evaluate(recipe, entrants(recipe, RULES), split="test", out=found[0])
    for best in sorted(agents.glob("*/*/best")) if pods in PLAYED_BY_AGENTS else ():
        seed, name = best.parent.name, best.parents[1].name
        found.append(out / f"{pods}-{name}-{seed}")
        if not (found[-1] / "evaluation.json").is_file():
            (one,) = entrants(recipe, [str(best)])
            named = replace(one.behaviour, name=f"{name} {seed}")
            one = replace(one, group=name, behaviour=named)
            evaluate(recipe, [one], split="test", out=found[-1])
    return sorted(found)


def rows(pods: str, scores: pl.DataFrame, group_of: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    """Return the differences of a list from scores (policy, window, metric, value)."""
    seeds = LISTS[pods]
    for outcome in OUTCOMES:
        by_policy: dict[str, list[NDArray[np.float64]]] = defaultdict(list)
        of_outcome = scores.filter(pl.col("metric") == outcome).sort("window", maintain_order=True)
        for (policy,), part in of_outcome.group_by("policy", maintain_order=True):
            by_policy[group_of[str(policy)]].append(part["value"].to_numpy())
        for policy, trainings in by_policy.items():
            for other in RULES:
                if policy == other or (policy in RULES and other == "best_fit"):
                    continue
                less = np.array(trainings) - by_policy[other][0]
                runs, of_runs = less.shape[1], less.mean(axis=0)
                half = _T[runs] * float(of_runs.std(ddof=1)) / math.sqrt(runs)
                yield {
                    "pods": pods, "seeds": f"{seeds.start}..{seeds.stop - 1}", "policy": policy,
                    "trainings": 0 if policy in RULES else len(trainings), "outcome": outcome,
                    "mean": np.mean(trainings), "minus": other, "difference": of_runs.mean(),
                    "half_width": half, "lowest": less.mean(axis=1).min(),
                    "highest": less.mean(axis=1).max(), "runs": runs,
                }  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    """Play what has not been played yet, and print the table."""
    out, agents = (Path(argument) for argument in arguments[:2])
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    known: dict[str, Any] = {}
    for pods in LISTS:
        (setting,) = read_settings(play(out, agents, pods))
        of_list = setting.records
        known |= of_list
        group_of = {name: entry.group for name, entry in setting.entries.items()}
        for row in rows(pods, setting.scores, group_of):
            rounded = {k: round(float(v), 4) if isinstance(v, float) else v for k, v in row.items()}
            writer.writerow({**rounded, "provenance": " ".join(of_list)})
    sys.stderr.write(json.dumps(known, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
