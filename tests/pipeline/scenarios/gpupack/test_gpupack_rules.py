"""Tests of `gpupack` against a second implementation in plain Python, and worked examples."""

import numpy as np
import pytest

from hindcast.pipeline.scenarios.gpupack import layout as m
from hindcast.pipeline.scenarios.gpupack.classes import _leave, count, enter
from hindcast.pipeline.scenarios.gpupack.config import GpupackConfig
from hindcast.pipeline.scenarios.gpupack.dynamics import find_rows
from hindcast.pipeline.scenarios.gpupack.layout import KINDS, G
from hindcast.pipeline.testing import check_scenario
from tests.pipeline.scenarios.gpupack import plain_gpupack as plain
from tests.pipeline.scenarios.gpupack.gpupack_cases import (
    PUBLISHED_RULES,
    RULES,
    SCENARIO,
    Player,
    drawn_pods,
    instance_of,
    small_config,
    workload_of,
)

MODELS = ["A"] * 3 + ["B"] * 3
SIZES = [(16_000, 32, 4)] * 3 + [(24_000, 64, 2)] * 2 + [(32_000, 64, 8)]


def cluster_of(player):
    ranks = player.block(m.RANK_AT, len(SIZES))
    return plain.PlainCluster(
        plain.PlainNode(cpu, memory * 1024, [1000] * gpus, model, int(rank))
        for (cpu, memory, gpus), model, rank in zip(SIZES, MODELS, ranks, strict=True)
    )


def typical_of(pods):
    """Return the typical pods of a list: the most frequent kinds for 95 % of the pods."""
    keys = [(p.cpu, p.milli, p.number, p.spec) for p in pods]
    ordered = sorted(((keys.count(k), k) for k in set(keys)), reverse=True)
    kept, chosen = 0, []
    while kept < 0.95 * len(pods):
        n, (cpu, milli, number, spec) = ordered[len(chosen)]
        chosen.append((n, plain.PlainPod(cpu, 0, milli, number, spec)))
        kept += n
    scale = kept / len(pods) if kept < len(pods) else 1.0
    return [(k, n / len(pods) / scale) for n, k in chosen]


def play_beside(rule, seed, checks):
    """Play a rule, and the same in plain Python; call `checks` after every placement."""
    pods = drawn_pods(seed)
    player = Player(
        small_config(load=1.4), instance_of(small_config(load=1.4), workload_of(pods), seed)
    )
    cluster, typical = cluster_of(player), typical_of(pods)
    by_kind = list(dict.fromkeys(pods))
    arrivals = int(player.ints[m.ARRIVALS])
    order = [by_kind[i] for i in player.block(m.POD_AT, arrivals)]
    now = 0
    while not player.over:
        rows = player.look()
        while (place := plain.choose(rule, cluster, order[now], typical)) is None:
            now += 1  # refused
        assert now == player.ints[m.NOW]
        row, _ = player.best(rule)
        node, gpu = place
        assert player.place(row) == (cluster.index(node), gpu)
        checks(player, cluster, typical, order[now], rows)
        after = plain.put(node, order[now], gpu)
        cluster.all[cluster.index(node)] = after
        player.act(row)
        now += 1
    left = [plain.choose(rule, cluster, pod, typical) for pod in order[now:]]
    assert not any(left)


def check_rows(player, cluster, typical, pod, rows):
    """Rows are the distinct places in the order of ranks; their numbers follow the definitions."""
    state = {}
    for node, gpu in plain.places(cluster.all, pod):
        kinds = frozenset(kind for kind, n in node.held.items() if n and kind)
        left = node.gpus[gpu] if gpu >= 0 else 0
        key = (node.model, node.cpu, node.memory, tuple(sorted(node.gpus)), kinds, left)
        state.setdefault(key, []).append((node, gpu))
    assert len(rows["count"]) == len(state)
    for i, alike in enumerate(state.values()):
        node, gpu = alike[0]
        assert player.place(i) == (cluster.index(node), gpu)
        assert rows["count"][i] == len({id(n) for n, _ in alike})
        after = plain.put(node, pod, gpu)
        assert rows["free_cpu"][i] == after.cpu >= 0
        assert rows["free_memory"][i] == after.memory >= 0
        assert rows["free_gpu"][i] == sum(after.gpus)
        assert min(after.gpus) >= 0
        assert rows["idle_gpus"][i] == after.gpus.count(1000)
        broken = sum(w * plain.unusable(after, k)[0] for k, w in typical)
        assert rows["fragments"][i] * 1000 == pytest.approx(broken, abs=1e-6)
        is_tightest = gpu < 0 or node.gpus[gpu] == node.gpus[plain.tightest(node, pod)]
        assert rows["tightest"][i] == is_tightest
        room = [g for g in node.gpus if g >= pod.milli]
        share = room.count(node.gpus[gpu]) / len(room) if gpu >= 0 else 1.0
        assert rows["weight"][i] == pytest.approx(rows["count"][i] * share)


def check_sums(player, cluster, typical, pod, rows):
    """Sums of the cluster equal those over its nodes."""
    broken = sum(w * plain.unusable(n, k)[0] for n in cluster.all for k, w in typical)
    assert player.floats[m.FRAGMENTS] == pytest.approx(broken, abs=1e-6)
    free = sum(sum(n.gpus) for n in cluster.all)
    assert player.ints[m.CLUSTER_GPU] - player.ints[m.USED_GPU] == free
    assert player.ints[m.IDLE_GPUS] == sum(n.gpus.count(1000) for n in cluster.all)


@pytest.mark.parametrize("rule", PUBLISHED_RULES)
def test_a_rule_takes_the_place_of_the_plain_one(rule):
    play_beside(rule, 1, check_sums)


def test_rows_are_the_distinct_places_and_follow_their_definitions():
    play_beside("fgd", 2, check_rows)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3, 23))
@pytest.mark.parametrize("rule", PUBLISHED_RULES)
def test_rules_and_rows_on_many_clusters(rule, seed):
    play_beside(rule, seed, check_rows)


A, B, LARGEST = 0, 1, 2  # nodes of the worked example


def worked_example():
    """Return the state of the specification: pods a, b, c with weights .5, .3, .2; a arrives."""
    a = plain.PlainPod(4000, 0, 500, 1, "")
    b = plain.PlainPod(6000, 0, 1000, 1, "")
    c = plain.PlainPod(2000, 0, 0, 0, "")
    config = GpupackConfig(
        nodes=("8x64Gx2:M", "4x64Gx1:M", "128x64Gx8:M"), compat="simulator", load=0.9
    )
    player = Player(config, instance_of(config, workload_of([a] * 5 + [b] * 3 + [c] * 2)))
    ints, floats = player.ints, player.floats
    for node, cpu, shares in ((A, 8000, (1000, 300)), (B, 4000, (600,)), (LARGEST, 0, (1000,) * 8)):
        count(ints, floats, node, -1)
        _leave(ints, node)
        ints[ints[m.FREE_CPU_AT] + node] = cpu
        ints[ints[m.FREE_AT] + node * G :][: len(shares)] = shares
        ints[ints[m.HELD_AT] + node * KINDS + 1] = 1
        enter(ints, floats, node)
        count(ints, floats, node, 1)
    ints[ints[m.POD_AT] + ints[m.NOW]] = 0
    find_rows(ints)
    return player


def test_fragments_of_the_worked_example():
    player = worked_example()
    rows = player.look()
    of = {player.place(row)[0]: row for row in range(len(rows["count"]))}
    assert of.keys() == {A, B}
    assert rows["fragments"][of[A]] == pytest.approx(0.550)
    assert rows["delta_fragments"][of[A]] == pytest.approx(0.050)
    assert rows["fragments"][of[B]] == pytest.approx(0.100)
    assert rows["delta_fragments"][of[B]] == pytest.approx(-0.200)


@pytest.mark.parametrize(
    ("rule", "on_a", "on_b"),
    [("dot_product", 99, 99), ("clustering", 95, 98), ("packing", 49, 94), ("best_fit", 93, 99),
     ("fgd", 48, 54)],
)  # fmt: skip
def test_scores_of_the_worked_example(rule, on_a, on_b):
    player = worked_example()
    player.look()
    _, scores = player.best(rule)
    of = {player.place(row)[0]: score for row, score in enumerate(scores)}
    assert of == {A: on_a, B: on_b}


def test_random_draws_a_node_and_then_its_gpu():
    """Two nodes with room: one has it on three GPUs in two states, the other on one."""
    player = worked_example()
    player.ints[player.ints[m.MILLI_AT]] = 300
    find_rows(player.ints)
    rows = player.look()
    of = {player.place(row): rows["weight"][row] for row in range(len(rows["weight"]))}
    assert of == {(A, 0): 0.5, (A, 1): 0.5, (B, 0): 1.0}
    _, scores = player.best("random")
    assert np.exp(scores).sum() == pytest.approx(2.0)
    assert RULES["random"].exploration == (0.0, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("objective", SCENARIO.objectives)
def test_it_is_a_scenario(objective):
    config = small_config(load=1.2, node_scarcity=True)  # which a rule reads
    work = workload_of(drawn_pods(0))
    check_scenario(
        SCENARIO, config, objective,
        lambda n: SCENARIO.instance(config, objective, work, n, np.random.default_rng(n)), RULES,
    )  # fmt: skip
