"""Tests of `gpupack` against the published tables and runs that equal them."""

import csv
import gzip
import hashlib
from functools import cache

import numpy as np
import pytest

from hindcast.pipeline.scenarios.gpupack import go_random
from hindcast.pipeline.scenarios.gpupack import layout as m
from hindcast.pipeline.scenarios.gpupack.config import GpupackConfig
from hindcast.pipeline.scenarios.gpupack.nodes import nodes_of
from hindcast.pipeline.scenarios.gpupack.outcomes import numpy_sum, rounded
from hindcast.pipeline.scenarios.gpupack.requests import read_requests
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.traces import FORMATS
from hindcast.policies.registry import resolve
from tests.conftest import require_traces
from tests.pipeline.scenarios.gpupack.gpupack_cases import PUBLISHED_RULES, RULES, SCENARIO, Player

WORKLOADS = (
    "default", "cpu050", "cpu100", "cpu200", "cpu250", "gpuspec10", "gpuspec20", "gpuspec25",
    "gpuspec33",
)  # fmt: skip
REFUSED = {
    "none": "cpu", "share": "share", "one": "one", "two": "two", "four": "four", "eight": "eight",
}  # fmt: skip


def golden(name):
    path = require_traces().parent / "golden" / "gpupack" / name
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    return list(csv.DictReader(text.splitlines()))


@cache
def workload(name):
    folder = require_traces("alibaba_gpu2023")
    return FORMATS["pods"].reading(folder / f"openb_pod_list_{name}.csv.gz")[0]


def config_of(seed, load=1.3, compat="simulator"):
    return GpupackConfig(seeds=(int(seed),), load=float(load), compat=compat)


@cache
def instance_of(name, seed, load="1.3", compat="simulator"):
    config = config_of(seed, load, compat)
    return SCENARIO.instance(
        config, "allocated", workload(name), 0, np.random.default_rng(int(seed))
    )


def outcomes_of(rule, name, seed, load="1.3", compat="simulator"):
    config = config_of(seed, load, compat)
    spec = SCENARIO.spec(config, "allocated")
    behaviour = resolve(rule, "gpupack", spec)
    instance = instance_of(name, str(seed), load, compat)
    episode = run_episode(SCENARIO, spec, instance, behaviour, np.random.default_rng(int(seed)))
    return dict(zip((o.name for o in spec.outcomes), episode.outcomes, strict=True))


def test_streams_are_those_of_go():
    for row in golden("streams.csv"):
        seed = int(row["seed"])
        stream = go_random.seeded(seed)
        for i in (1, 2, 3):
            assert go_random.draw(stream) % 2**64 == int(row[f"uint64_{i}"])
        limits = (100, 100, 1213, 8152, 1024)
        stream = go_random.seeded(seed)
        assert [go_random.below(stream, n) for n in limits] == numbers(
            row["intn_100_100_1213_8152_1024"]
        )
        items = np.arange(10)
        go_random.shuffle(go_random.seeded(seed), items)
        assert items.tolist() == numbers(row["shuffle_10"])
        go_random.permute(go_random.seeded(seed), items)
        assert items.tolist() == numbers(row["perm_10"])


def numbers(text):
    return [int(word) for word in text.split()]


def test_sums_and_roundings_are_those_of_numpy_and_python():
    rng = np.random.default_rng(0)
    for n in (0, 1, 7, 8, 9, 127, 128, 129, 300, 1001):
        values = rng.random(n) * 100
        assert numpy_sum(values) == np.add.reduce(values)
    halves = np.concatenate([rng.random(2000) * 100, np.arange(4000) / 200])
    assert [rounded(x) for x in halves.tolist()] == [round(x, 2) for x in halves.tolist()]


def check_arrivals(row):
    instance = instance_of(row["workload"], row["seed"], row["load"])
    ints = instance.ints
    assert ints[m.ARRIVALS] == int(row["pods"])
    ranks = ints[ints[m.RANK_AT] :][:12]
    assert ranks.tolist() == numbers(row["rank_of_first_12_nodes"])


def test_arrivals_of_a_run_are_the_published_ones():
    check_arrivals(golden("arrivals.csv")[0])


@pytest.mark.nightly
def test_arrivals_of_every_run_are_the_published_ones():
    for row in golden("arrivals.csv"):
        check_arrivals(row)


@pytest.mark.nightly
@pytest.mark.parametrize("name", WORKLOADS)
def test_typical_pods_are_the_published_ones(name):
    found = read_requests(workload(name), nodes_of(GpupackConfig()))
    rows = [row for row in golden("typical.csv") if row["workload"] == name]
    assert [float(row["weight"]) for row in rows] == found.typical_weight.tolist()
    columns = ("cpu_milli", "gpu_milli", "num_gpu")
    assert [tuple(int(r[c]) for c in columns) for r in rows] == list(
        zip(*found.typical[:3].tolist(), strict=True)
    )


def placements(name, seed, load, rule):
    """Return the lines node,gpu of a run; the GPU is -1 unless the pod asks for a share."""
    player = Player(config_of(seed, load), instance_of(name, seed, load))
    while not player.over:
        player.look()
        player.act(player.best(rule)[0])
    arrivals = int(player.ints[m.ARRIVALS])
    pods, nodes = player.block(m.POD_AT, arrivals), player.block(m.NODE_AT, arrivals)
    taken = player.block(m.TAKEN_AT, arrivals)
    milli = player.ints[player.ints[m.MILLI_AT] + pods]
    share = (milli > 0) & (milli < 1000) & (nodes >= 0)
    gpus = [int(t).bit_length() - 1 if s else -1 for t, s in zip(taken, share, strict=True)]
    return [f"{n},{g}" for n, g in zip(nodes.tolist(), gpus, strict=True)]


@pytest.mark.nightly
@pytest.mark.parametrize("rule", PUBLISHED_RULES)
def test_every_placement_of_a_run_is_the_published_one(rule):
    rows = golden(f"placements_default_42_{rule}.csv.gz")
    assert placements("default", "42", "1.3", rule) == [f"{r['node']},{r['gpu']}" for r in rows]


@pytest.mark.nightly
@pytest.mark.parametrize("rule", PUBLISHED_RULES)
def test_digests_of_the_placements_of_first_runs(rule):
    seen = set()
    for row in golden("runs.csv"):
        key = row["workload"], row["load"]
        if row["policy"] == rule and key not in seen:
            seen.add(key)
            lines = "\n".join(placements(*key[:1], row["seed"], row["load"], rule))
            digests = {
                hashlib.sha256(f"{lines}{end}".encode()).hexdigest()[:16] for end in ("", "\n")
            }
            assert row["placements_sha256"] in digests


def check_run(rule, name, seed, load="1.3"):
    """Check the outcomes of one run by the tables; return the number of cells."""
    found = outcomes_of(rule, name, seed, load)
    cells = 0
    for row in golden("runs.csv"):
        if (row["workload"], row["load"], row["policy"], row["seed"]) == (name, load, rule, seed):
            for own, published in REFUSED.items():
                assert found[f"refused_{own}"] == int(row[f"unscheduled_{published}"])
            assert found["placed"] == pytest.approx(int(row["used_milli"]) / 62_120, abs=1e-9)
            cells += len(REFUSED) + 1
    for row in golden("published.csv"):
        if (row["workload"], row["policy"], row["seed"]) == (name, rule, seed):
            for column, slack in (
                ("allocated", 1e-9),
                ("fragments", 1e-9),
                ("fragment_ratio", 1e-6),
            ):
                value = found[f"{column}_{row['load']}"]
                assert value == pytest.approx(float(row[column]), abs=slack), (column, row)
                cells += 1
    return cells


def test_a_run_of_fgd_equals_its_cells():
    assert check_run("fgd", "default", "42") == 37


@pytest.mark.nightly
@pytest.mark.parametrize("rule", PUBLISHED_RULES)
@pytest.mark.parametrize("name", WORKLOADS)
def test_every_cell_of_the_published_tables(name, rule):
    cells = sum(check_run(rule, name, str(seed)) for seed in range(42, 52))
    assert cells == 370


@pytest.mark.nightly
@pytest.mark.parametrize("name", WORKLOADS)
def test_random_is_as_the_published_one_on_average(name):
    """The published one depends on a race of threads: single runs differ by .4 points."""
    rows = [r for r in golden("published.csv") if (r["workload"], r["policy"]) == (name, "random")]
    found = [outcomes_of("random", name, seed) for seed in range(42, 52)]
    for load in (80, 90, 95, 100, 110, 120, 130):
        published = np.mean([float(r["allocated"]) for r in rows if r["load"] == str(load)])
        assert np.mean([o[f"allocated_{load}"] for o in found]) == pytest.approx(published, abs=0.5)


@pytest.mark.nightly
@pytest.mark.parametrize("name", WORKLOADS)
def test_the_rules_of_our_own(name):
    """Their scores are floats, so placements may differ in single ties."""
    rows = [r for r in golden("stronger.csv") if r["workload"] == name and r["rule"] in RULES]
    assert len(rows) == 30
    for row in rows:
        found = outcomes_of(row["rule"], name, row["seed"])
        assert found["placed"] == pytest.approx(float(row["allocated_130"]), abs=0.1)
        assert found["shortfall"] == pytest.approx(float(row["shortfall"]), abs=0.1)


@pytest.mark.nightly
def test_fgd_loses_its_lead_where_ties_are_drawn():
    """Over ten seeds at a load of 100: fixed ties +2.36 over best_fit, drawn ones -3.02."""
    lead = {}
    for compat in ("simulator", ""):
        at_100 = {
            rule: [outcomes_of(rule, "default", s, "1.3", compat)["allocated_100"]
                   for s in range(42, 52)]
            for rule in ("fgd", "best_fit")
        }  # fmt: skip
        lead[compat] = np.mean(at_100["fgd"]) - np.mean(at_100["best_fit"])
    assert lead["simulator"] == pytest.approx(2.36, abs=0.02)
    assert lead[""] == pytest.approx(-3.02, abs=0.4)


def test_a_behaviour_by_name_explores_as_the_rule_says():
    spec = SCENARIO.spec(GpupackConfig(), "allocated")
    assert resolve("random", "gpupack", spec) == Behaviour("random", RULES["random"], 0.0, 1.0)
