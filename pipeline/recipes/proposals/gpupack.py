"""Proposal for `gpupack`: a list of pods on nodes that are given."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from hindcast.pipeline.pages.numbers import count_of
from hindcast.pipeline.recipes.toml import value_toml
from hindcast.pipeline.scenarios.gpupack.config import GpupackConfig
from hindcast.pipeline.scenarios.gpupack.nodes import nodes_of
from hindcast.pipeline.scenarios.gpupack.requests import read_requests
from hindcast.pipeline.traces.pods import columns_of, doubts, most_at_once, not_read, read

_PUBLISHED: Final = ("published",)
_RULES: Final = ("random", "dot_product", "clustering", "packing", "best_fit", "fgd",
                 "fit_starved", "fit_starved_scarce")  # fmt: skip
_RECORDED: Final = ("best_fit", "fgd", "fit_starved_scarce")


@dataclass(frozen=True)
class PodsProposal:
    """A recipe that is proposed for a list of pods.

    Attributes:
        toml: The recipe.
        columns: Label of every column that is read, by its name here.
        not_read: Labels of the other columns.
        facts: Numbers of pods by what they ask for, and what there is.
        unsure: Questions that the list leaves open.
    """

    toml: str
    columns: dict[str, str]
    not_read: list[str]
    facts: tuple[str, ...]
    unsure: tuple[str, ...]


def propose(source: Path, path: str, name: str, nodes: Sequence[str]) -> PodsProposal:
    """Return a proposal for a list of pods on nodes such as 40x64x96Gx8:A100.

    `path` is the list as the recipe names it, and `name` that of the recipe. Raises TraceError for
    a list that cannot be read, InputError for nodes that cannot be.
    """
    given = tuple(nodes) or _PUBLISHED
    there = nodes_of(GpupackConfig(nodes=given))
    workload, bad = read(source)
    pods, requests = workload.tasks, read_requests(workload, there)
    gpus = sum(node.gpus for node in there)
    asked = float(requests.asked[requests.of_pod].sum()) / 1000
    bound = pods.filter(pl.col("gpu_spec") != "").height
    timed = int(pods["ends"].sum())
    share = pods.filter((pl.col("num_gpu") == 1) & (pl.col("gpu_milli") < 1000)).height
    none = pods.filter(pl.col("num_gpu") == 0).height
    kinds = f"{none:,} without GPU, {share:,} with a share of one, {bound:,} bound to models"
    load = f"a load of {100 * asked / gpus:,.0f} percent"
    facts = (
        f"{pods.height:,} pods: {kinds}",
        f"they ask for {asked:,.1f} GPUs; {len(there):,} nodes have {gpus:,}: {load}",
    )
    unsure = []
    if bad.height:
        unsure.append(f"{count_of(bad.height, 'row')} left out; line {bad['line'][0]}: "
                      f"{bad['reason'][0]}")  # fmt: skip
    if not nodes:
        unsure.append("the nodes are the published ones, since no --nodes were given")
    unsure += doubts(source, pods, requests.bit_of)
    if timed == pods.height:
        unsure.append(f"every pod has a duration: at most {most_at_once(pods):,.1f} GPUs are asked "
                      'for at once; ends = "recorded" plays the times of the list')  # fmt: skip
    stem = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._") or "pods"
    lines = [
        f"id = {value_toml(f'{stem}-gpupack')}",
        f"description = {value_toml(f'{name}: a list of pods on {len(there):,} nodes')}",
        'scenario = "gpupack"', 'level = "mixed"', "seed = 1", "", "[config]",
        f"nodes = {value_toml(given)}",
        "load = 1.0   # every run draws the list to this share of the GPUs", "",
        "[trace]", 'format = "pods"', f"path = {value_toml(path)}", "",
        "# Every window is another order of arrival.", "[split]",
        'train = "0..19"', 'validation = "20..29"', 'test = "30..49"',
    ]  # fmt: skip
    behaviours = [("random_linear", 0.1, 2), ("random", 0.0, 1), *((r, 0.1, 1) for r in _RECORDED)]
    for policy, epsilon, episodes in behaviours:
        explores = [f"epsilon = {epsilon}"] if epsilon else []
        lines += ["", "[[behaviours]]", f"policy = {value_toml(policy)}", *explores,
                  f"episodes = {episodes}"]  # fmt: skip
    lines += ["", "[evaluate]", "policies = [", *(f"  {value_toml(r)}," for r in _RULES), "]"]
    lines += ['references = ["random", "best_fit", "fgd", "fit_starved_scarce"]', "seeds = 3"]
    return PodsProposal("\n".join(lines) + "\n", columns_of(source), not_read(source), facts,
                        tuple(unsure))  # fmt: skip
