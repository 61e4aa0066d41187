"""Tests of the settings of `gpupack`: nodes, ties, loads, ends and bounds."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.recipes.caveats import trace_caveats
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.gpupack import layout as m
from hindcast.pipeline.scenarios.gpupack.bounds import placed_bound
from hindcast.pipeline.scenarios.gpupack.config import GpupackConfig
from hindcast.pipeline.scenarios.gpupack.nodes import Node, nodes_of, read_kind
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.testing import NOTHING
from hindcast.pipeline.workloads.schema import Workload
from tests.pipeline.scenarios.gpupack.gpupack_cases import (
    RULES,
    SCENARIO,
    Player,
    drawn_pods,
    instance_of,
    small_config,
    workload_of,
)
from tests.pipeline.scenarios.gpupack.plain_gpupack import PlainPod

ONE_GPU = PlainPod(1000, 1024, 1000, 1, "")


def test_published_nodes_are_those_of_the_list():
    nodes = nodes_of(GpupackConfig())
    assert len(nodes) == 1213
    assert sum(node.gpus for node in nodes) == 6212
    assert sum(node.cpu for node in nodes) == 107_018_000
    assert len({node.model for node in nodes}) == 7
    assert len(set(nodes)) == 15
    tenth = nodes_of(GpupackConfig(every=10))
    assert (len(tenth), sum(node.gpus for node in tenth)) == (122, 623)


def test_windows_play_lists_in_turn():
    """Typical pods, scarcity and arrivals of a window are those of its list alone."""
    small = [PlainPod(1000, 1024, 500, 1, "")] * 6
    lists = [workload_of(small + [pod] * 3) for pod in (ONE_GPU, replace(ONE_GPU, spec="B"))]
    joined = pl.concat(
        one.tasks.with_columns(list=pl.lit(i), job_id=pl.format(f"{i}/{{}}", "job_id"))
        for i, one in enumerate(lists)
    )
    both = Workload(joined, lists[0].provenance)
    for window in range(4):
        alone = instance_of(small_config(), lists[window % 2], window)
        found = instance_of(small_config(), both, window)
        np.testing.assert_array_equal(found.ints, alone.ints)
        np.testing.assert_array_equal(found.floats, alone.floats)
    recorded = replace(small_config(), ends="recorded")
    assert SCENARIO.windows(recorded, both) == 2
    assert SCENARIO.windows(recorded, lists[0]) == 1


def test_scarcity_of_nodes_spreads_a_pod_over_those_that_could_take_it():
    """The nodes are 3 of 4 GPUs (A), 2 of 2 (B) and 1 of 8 (B): 24 GPUs. 11.5 are asked for."""
    anywhere, eight = ONE_GPU, replace(ONE_GPU, number=8)
    on_b, on_a = replace(ONE_GPU, cpu=20_000), replace(ONE_GPU, milli=500, spec="A")
    pods = workload_of([anywhere, anywhere, eight, on_b, on_a, replace(ONE_GPU, milli=0, number=0)])
    expected = np.array([2 / 24 + 0.5 / 12, 2 / 24 + 1 / 12, 2 / 24 + 1 / 12 + 8 / 8]) * 24 / 11.5
    player = Player(
        small_config(node_scarcity=True), instance_of(small_config(node_scarcity=True), pods)
    )
    np.testing.assert_allclose(
        player.floats[player.ints[m.NODE_SCARCITY_AT] :][:6], np.repeat(expected, [3, 2, 1])
    )
    rows = player.look()
    of_cpu = dict(zip(rows["cpu"].tolist(), rows["node_scarcity"].tolist(), strict=True))
    assert all(
        of_cpu[cpu] == pytest.approx(one)
        for cpu, one in zip((16e3, 24e3, 32e3), expected, strict=True)
        if cpu in of_cpu
    )
    assert len(rows) == len(Player(small_config(), instance_of(small_config(), pods)).look()) + 1


@pytest.mark.parametrize(
    ("text", "count", "node"),
    [
        ("40x64x96Gx8:A100", 40, Node(64_000, 98_304, 8, "A100")),
        ("8x512Mx1", 1, Node(8000, 512, 1, "GPU")),
        ("2x1.5x1Tix0", 2, Node(1500, 1 << 20, 0, "")),
    ],
)
def test_a_kind_of_nodes_is_read(text, count, node):
    assert read_kind(text) == (count, node)


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (("40x64x96x8:A100",), "such as '40x64x96Gx8:A100'"),
        (("publishd",), "did you mean 'published'"),
        (("published", "2x8x64Gx2"), "'published' alone"),
        (("2x8x64Gx17",), "16 GPUs"),
        (("2x8x64Gx0",), "no GPU"),
        (("999999x8x64Gx1",), "from 1 to 100,000"),
        ((), "0 nodes"),
    ],
)
def test_nodes_that_cannot_be_are_refused(nodes, said):
    with pytest.raises(InputError, match=said):
        nodes_of(GpupackConfig(nodes=nodes))


def test_a_workload_without_pods_is_refused():
    work = workload_of([ONE_GPU])
    with pytest.raises(InputError, match="no column gpu_milli"):
        instance_of(small_config(), replace(work, tasks=work.tasks.drop("gpu_milli")))
    with pytest.raises(InputError, match="no pod of the workload asks for a GPU"):
        instance_of(small_config(), workload_of([PlainPod(1000, 1, 0, 0, "")]))
    with pytest.raises(InputError, match=r"no node of config\.nodes can take any pod"):
        instance_of(small_config(), workload_of([PlainPod(99_000, 1, 1000, 1, "")]))
    with pytest.raises(InputError, match="window 1 has no seed"):
        instance_of(small_config(seeds=(5,)), workload_of([ONE_GPU]), 1)


def test_the_load_is_reached_and_not_exceeded():
    config = small_config(load=1.3)
    for seed in range(5):
        ints = instance_of(config, workload_of(drawn_pods(seed, 20)), seed).ints
        total = ints[m.CLUSTER_GPU]
        assert 1.3 * total - 4000 < ints[m.ASKED] <= 1.3 * total + 3000
    ints = instance_of(small_config(load=0.2), workload_of(drawn_pods(0, 500))).ints
    assert ints[m.ASKED] <= 0.2 * ints[m.CLUSTER_GPU]


def test_seeds_give_the_same_order_with_either_ties():
    work = workload_of(drawn_pods(1))
    drawn = replace(small_config(seeds=(7,)), compat="")
    fixed, other = instance_of(small_config(seeds=(7,)), work), instance_of(drawn, work)
    pods = [i.ints[i.ints[m.POD_AT] :][: i.ints[m.ARRIVALS]].tolist() for i in (fixed, other)]
    assert pods[0] == pods[1]
    window = instance_of(replace(drawn, seeds=()), work, 7)
    assert window.ints[m.ARRIVALS] != 0
    assert window.ints[window.ints[m.POD_AT] :][: window.ints[m.ARRIVALS]].tolist() != pods[0]
    as_window = instance_of(small_config(), work, 7)
    assert as_window.ints[as_window.ints[m.POD_AT] :][: len(pods[0])].tolist() == pods[0]


@pytest.mark.slow
def test_ties_are_drawn_in_proportion_to_nodes():
    """Of 3 + 2 + 1 empty nodes in three states, each is first as often as it has nodes."""
    config = replace(small_config(), compat="")
    first = []
    for seed in range(240):
        player = Player(config, instance_of(config, workload_of([ONE_GPU] * 50), seed))
        first.append(player.look()["count"][0])
    counts = [first.count(n) for n in (3.0, 2.0, 1.0)]
    assert sum(counts) == 240
    assert counts == pytest.approx([120, 80, 40], abs=25)


def episode_of(config, workload, rule, seed=0):
    spec = SCENARIO.spec(config, "allocated")
    played = run_episode(
        SCENARIO, spec, instance_of(config, workload, seed), Behaviour(rule, RULES[rule]),
        np.random.default_rng(0),
    )  # fmt: skip
    return dict(zip((o.name for o in spec.outcomes), played.outcomes, strict=True)), played


def test_recorded_pods_come_and_go():
    """Two GPUs; pods of one GPU at 0, 1, 2 and 3 s for 2 s each: two at a time, none refused."""
    config = GpupackConfig(nodes=("1x8x8Gx2:A",), ends="recorded")
    times = [(0, 2), (1, 2), (2, 2), (3, 2)]
    found, played = episode_of(config, workload_of([ONE_GPU] * 4, times), "best_fit")
    assert found["refused"] == 0
    assert found["placed"] == 200
    assert found["allocated_peak"] == 100
    assert played.steps == 4
    longer = [(0, 3), (1, 3), (2, 3), (3, 3)]
    found, played = episode_of(config, workload_of([ONE_GPU] * 4, longer), "best_fit")
    assert found["refused_one"] == 1
    assert found["refused"] == 25
    assert played.steps == 3
    with pytest.raises(InputError, match="no known duration"):
        instance_of(config, workload_of([ONE_GPU]))


@pytest.mark.parametrize("seed", range(3))
def test_everything_is_given_back(seed):
    """After the end of every pod the cluster is as it was at first."""
    rng = np.random.default_rng(seed)
    pods = drawn_pods(seed, 80)
    times = [(i, rng.integers(1, 12)) for i in range(80)]
    last = (1000, 1)
    config = replace(small_config(), ends="recorded", compat="")
    player = Player(config, instance_of(config, workload_of([*pods, ONE_GPU], [*times, last])))
    begin = player.ints[m.USED_GPU], player.floats[m.FRAGMENTS]
    while player.ints[m.NOW] < 80:
        player.look()
        player.act(player.best("fgd")[0])
        classes = player.block(m.ORDER_AT, player.ints[m.CLASSES])
        assert player.ints[player.ints[m.COUNT_AT] + classes].sum() == player.ints[m.NODES]
    assert begin[0] == player.ints[m.USED_GPU] == 0
    assert player.floats[m.FRAGMENTS] == pytest.approx(begin[1], abs=1e-6)
    assert player.ints[m.CLASSES] == 3
    assert player.ints[m.IDLE_GPUS] == 24


def test_drawn_lifetimes_hold_the_demand():
    """With a demand of half the cluster little is refused, and about half is held."""
    config = GpupackConfig(every=60, load=12.0, ends="drawn", demand=0.5)
    found, _ = episode_of(config, NOTHING, "best_fit")
    assert found["refused"] < 5
    assert 50 < found["allocated_peak"] < 90
    assert found["placed"] > 1000


def test_outcomes_of_later_loads_are_left_out():
    names = [o.name for o in SCENARIO.spec(GpupackConfig(load=0.95), "allocated").outcomes]
    assert names[-3:] == ["allocated_95", "fragments_95", "fragment_ratio_95"]
    assert "allocated_100" not in names
    names = [o.name for o in SCENARIO.spec(GpupackConfig(ends="drawn"), "allocated").outcomes]
    assert "shortfall" not in names


def test_the_bound_counts_models():
    """4 GPUs of A and 2 of B; 3 asked of A alone, 4 of B alone, 1 of both: 3 + 2 + 1."""
    gpus = np.array([4000, 2000])
    models = np.array([1, 2, 3])
    assert placed_bound(np.array([3000, 4000, 1000]), models, gpus) == 6000
    assert placed_bound(np.array([5000, 0, 9000]), models, gpus) == 6000
    assert placed_bound(np.array([5000, 1000, 0]), models, gpus) == 5000
    assert placed_bound(np.array([1000, 1000, 1000]), np.array([1, 2, -1]), gpus) == 3000


def test_a_node_without_gpu_leaves_the_bound():
    """6 pods ask for a GPU of the model A, of which there are 8, and 1 for B: all 7 find one."""
    pods = workload_of([replace(ONE_GPU, spec=model) for model in "AAAAAAB"])
    gpus = ("1x16x32Gx8:A", "1x16x64Gx2:B")
    for nodes in (gpus, (*gpus, "1x8x8Gx0")):
        config = GpupackConfig(nodes=nodes, load=0.0)
        assert instance_of(config, pods).floats[m.BOUND] == 7000


@pytest.mark.parametrize("seed", range(4))
def test_no_rule_exceeds_the_bound(seed):
    work = workload_of(drawn_pods(seed))
    for rule in ("fgd", "best_fit", "fit_starved_scarce"):
        found, played = episode_of(small_config(load=1.5), work, rule, seed)
        assert found["placed"] <= found["placed_bound"] + 1e-9
        assert played.total == pytest.approx(found["placed"] / 100)


def test_drawn_orders_use_the_whole_list():
    """No caveat says that few of a million windows are used."""
    recipe = load_recipe("gpupack-openb-v1")
    work = workload_of(drawn_pods(0))
    windows = recipe.windows("all")
    assert trace_caveats(recipe, load_scenario("gpupack"), work, windows) == ()
