"""Tests of what jobs ask for: reading, units, unknown asks, settings, and a log of Slurm."""

import re

import numpy as np
import pytest

from hindcast.flows.cli import main
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.queue import caveats
from hindcast.pipeline.scenarios.queue import layout as m
from hindcast.pipeline.scenarios.queue.asks import (
    equivalents,
    in_order_of_capacity,
    read_asks,
    shape_of,
    too_wide,
    units_of,
)
from hindcast.pipeline.scenarios.queue.config import QueueConfig
from hindcast.pipeline.scenarios.queue.instances import read_log
from hindcast.pipeline.scenarios.queue.machines import machine_of
from hindcast.pipeline.simulation.memory_rules import play_rule
from hindcast.pipeline.workloads.log_columns import peak
from hindcast.policies.heuristics.queue import MEMORY_RULES
from tests.resource_logs import workload_of

TYPES = ("processors", "gpus:x", "gpus:y", "memory")
GPUS = ("processors", "gpus")


def log_of(*jobs, **common):
    base = {"submit": 0, "run": 10, "requested": 10, "processors": 1, "start": 0, **common}
    return workload_of([{**base, **job} for job in jobs], 8)


def asks_of(names, *jobs):
    tasks = log_of(*jobs).tasks
    cpu = np.ones(len(jobs), np.int64)
    return read_asks(tasks, cpu, names, units_of(tasks, names))


def test_fractions_of_gpus_are_thousandths_rounded_up_and_whole_ones_are_not():
    assert asks_of(GPUS, {"gpus": 2}, {"gpus": 0}).asked[:, 1].tolist() == [2, 0]
    found = asks_of(GPUS, {"gpus": 0.07}, {"gpus": 1 / 3}, {"gpus": 2}, {"gpus": 1.1})
    assert found.asked[:, 1].tolist() == [70, 334, 2000, 1100]


def test_what_is_not_named_is_of_any_type_and_types_add_up_where_they_are_not_told_apart():
    jobs = (
        {"gpus": 3, "types": {"x": 1}},
        {"gpus": 2, "types": {"y": 2}},
        {"gpus": 2},
        {"gpus": 0},
    )
    found = asks_of((*TYPES[:3],), *jobs)
    assert found.asked[:, 1:].tolist() == [[1, 0], [0, 2], [0, 0], [0, 0]]
    assert found.any_gpus.tolist() == [2, 0, 2, 0]
    assert found.rows.tolist()[0] == [1, 1, 0, 2]
    assert asks_of(GPUS, *jobs).asked[:, 1].tolist() == [3, 2, 2, 0]


def test_memory_is_rounded_up_and_an_unknown_ask_is_counted_but_a_known_0_is_not():
    names = ("processors", "memory")
    found = asks_of(names, {"memory": 10.2}, {"memory": 0}, {"memory": None})
    assert found.asked[:, 1].tolist() == [11, 0, 0]
    assert found.unknown[:, 1].tolist() == [False, False, True]
    load = log_of({"memory": 1, "run": 30}, {"memory": 0, "run": 50}, {"run": 20})
    config = QueueConfig(resources=names, capacity={"memory": 8})
    (caveat,) = caveats(config, load)
    assert (caveat.code, caveat.numbers) == ("unknown_asks", {"jobs": 1, "share": 0.2})
    assert "memory: 1 jobs (20.0% of the processor-seconds)" in caveat.text


def test_jobs_are_too_wide_in_the_first_resource_or_in_every_type():
    jobs = ({"gpus": 5, "types": {"x": 5}, "memory": 99}, {"gpus": 4, "memory": 0},
            {"gpus": 3, "memory": 9}, {"gpus": 4, "types": {"x": 3}, "memory": 1})  # fmt: skip
    found, shape = asks_of(TYPES, *jobs), shape_of(TYPES)
    capacity = np.array([8, 4, 3, 8])
    assert too_wide(found, capacity, shape).tolist() == [1, -1, 3, -1]
    assert too_wide(found, np.array([8, 3, 3, 8]), shape).tolist() == [1, 4, 3, -1]
    # ceil(1000 a P / C): 4 of any type count 8,000 at x; 3 named and 1 of any 6,000 at y.
    assert equivalents(found, capacity, shape)[[1, 3]].tolist() == [8000, 6000]


def test_equivalents_of_amounts_beyond_64_bits_are_exact():
    found = asks_of(("processors", "memory"), {"memory": 10**12})
    assert equivalents(found, np.array([10**7, 10**12]), shape_of(GPUS)).tolist() == [10**10]


def test_types_stand_in_order_of_their_capacity_and_gpus_stand_for_them():
    capacity = {"gpus:b": 6, "memory": 5, "gpus:c": 14, "gpus:a": 6}
    assert in_order_of_capacity(capacity) == ("processors", "gpus:c", "gpus:a", "gpus:b", "memory")
    config = QueueConfig(resources=("processors", "memory", "gpus"), capacity=capacity)
    assert machine_of(config).names == ("processors", "memory", "gpus:c", "gpus:a", "gpus:b")


def test_a_resource_without_capacity_is_left_out_and_its_peak_is_named():
    """20 GPUs are held at second 5; those that end there hold none."""
    load = log_of({"gpus": 8, "run": 5}, {"gpus": 12, "submit": 5, "start": 5},
                  {"gpus": 8, "submit": 5, "start": 5}, {"gpus": 0})  # fmt: skip
    config = QueueConfig(resources=GPUS)
    assert not machine_of(config).is_several
    config = QueueConfig(resources=(*GPUS, "memory"), capacity={"memory": 5})
    assert machine_of(config).left_out == ("gpus",)
    assert peak(np.array([0, 5, 5]), np.array([5, 15, 15]), np.array([8, 12, 8])) == 20
    tasks = log_of({"memory": 1}, {"memory": 1}, {"memory": 1}, {"memory": 1}).tasks
    load = type(load)(load.tasks.with_columns(tasks["memory_mib"]), load.provenance, load.machines)
    texts = [caveat.text for caveat in caveats(config, load)]
    assert any("at least 20 GPUs were held at once" in text for text in texts)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"resources": ("processors", "gpu")}, "unknown resource 'gpu'; did you mean 'gpus'?"),
        ({"resources": ("gpus", "processors")}, "expected 'processors' first"),
        ({"resources": ("processors", "gpus", "gpus:a")}, "types of GPUs, expected one or the"),
        ({"resources": ("processors", "gpus:a", "memory", "gpus:b")}, "side by side"),
        ({"resources": GPUS, "capacity": {"gpu": 1}}, "'gpu' is none of the resources; did you"),
        ({"resources": GPUS, "pools": {"p": {"gpus": 1}}}, "config.pools.p has no processors"),
        ({"capacity": {"processors": 1}, "pools": {"p": {"processors": 1}}}, "are both given"),
    ],
)
def test_settings_that_contradict_each_other_are_named(settings, message):
    with pytest.raises(InputError, match=re.escape(message)):
        machine_of(QueueConfig(**settings))


def test_logs_that_do_not_have_what_the_settings_need_are_named():
    load = log_of({"gpus": 1})
    config = QueueConfig(resources=TYPES[:3], capacity={"gpus:x": 4, "gpus:y": 4})
    with pytest.raises(InputError, match="no job of the log names a GPU type; expected 'gpus'"):
        read_log(load, machine=machine_of(config))
    tasks = load.tasks.drop("memory_mib")
    config = QueueConfig(resources=("processors", "memory"), capacity={"memory": 1})
    with pytest.raises(InputError, match=r"does not say what jobs ask for of memory .*leave"):
        read_log(type(load)(tasks, load.provenance, load.machines), machine=machine_of(config))
    config = QueueConfig(pools={"batch": {"processors": 4}})
    load = log_of({"partition": "batsh"})
    with pytest.raises(InputError, match="no job is in partition 'batch'; did you mean 'batsh'"):
        read_log(load, machine=machine_of(config))


def test_pools_whose_partitions_are_unknown_are_one_machine():
    load = log_of({"partition": "a"}, {"partition": None})
    config = QueueConfig(pools={"a": {"processors": 3}})
    log = read_log(load, machine=machine_of(config))
    assert log.several is not None
    assert log.several.capacity.tolist() == [[3]]
    assert [caveat.code for caveat in caveats(config, load)] == ["pools_as_one"]


SACCT = """\
JobID|User|Partition|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocCPUS|AllocTRES
1|ann|gpu|COMPLETED|2024-01-08T06:00:00|2024-01-08T06:00:00|2024-01-08T06:08:00|480|10|4|cpu=4,mem=8G,gres/gpu=2,gres/gpu:a100=2
2|bob|cpu|COMPLETED|2024-01-08T06:00:00|2024-01-08T06:00:00|2024-01-08T06:10:00|600|10|4|cpu=4,mem=4G
3|bob|gpu|COMPLETED|2024-01-08T06:01:00|2024-01-08T06:08:00|2024-01-08T06:18:00|600|10|2|cpu=2,mem=2G,gres/gpu=1,gres/gpu:a100=1
4|ann|gpu|COMPLETED|2024-01-08T06:02:00|2024-01-08T06:08:00|2024-01-08T06:12:00|240|5|1|cpu=1,mem=1G,gres/gpu=1,gres/gpu:v100=1
5|ann|cpu|COMPLETED|2024-01-08T06:02:00|2024-01-08T06:10:00|2024-01-08T06:12:00|120|2|1|cpu=1,mem=1G
6|cat|gpu|COMPLETED|2024-01-08T06:03:00|2024-01-08T06:20:00|2024-01-08T06:40:00|1200|20|1|cpu=1,mem=6G
"""
RECIPE = """\
id = "two-partitions"
scenario = "queue"
objective = "wait"
seed = 1
[config]
jobs = 6
follow = 0
warm = false
resources = ["processors", "gpus:a100", "gpus:v100", "memory"]
[config.pools.gpu]
processors = 8
"gpus:a100" = 2
"gpus:v100" = 1
memory = 12288
[config.pools.cpu]
processors = 4
"gpus:a100" = 1
"gpus:v100" = 1
memory = 8192
[trace]
format = "slurm"
path = "log.txt"
[split]
train = "0..0"
[[behaviours]]
policy = "saf_easy"
temperature = 0.5
episodes = 2
"""


def test_a_log_of_slurm_with_gpus_and_two_partitions_has_the_schedule_worked_out_by_hand(tmp_path):
    """gpu: 1 starts (4 processors, 2 a100, 8 GiB free of 12 remain 4). 3 has processors and
    memory, but no a100 until 10:00. It is the head, and 4 is safe: it ends by 7:00. At 3:00 job 6
    finds 3 processors, but 3 GiB; 4 frees 1 GiB at 6:00; 1 ends at 8:00: 3 and 6 start.
    cpu: 2 takes all processors until 10:00, then 5 starts.
    """  # fmt: skip
    (tmp_path / "log.txt").write_text(SACCT)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    recipe = load_recipe(str(tmp_path / "recipe.toml"))
    scenario = load_scenario("queue")
    instance = scenario.instance(
        recipe.config, "wait", load_source(recipe), 0, np.random.default_rng(0)
    )
    spec = scenario.spec(recipe.config, "wait")
    _, ints, _ = play_rule(scenario, spec, instance, MEMORY_RULES["conservative"])
    starts = ints[ints[m.START_AT] : ints[m.START_AT] + 6]
    assert (starts / 60).tolist() == [0, 0, 8, 2, 10, 8]


@pytest.mark.slow
def test_a_dataset_of_several_resources_is_built_verified_and_trained_on(tmp_path, capsys):
    (tmp_path / "log.txt").write_text(SACCT)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    out = str(tmp_path / "out")
    assert main(["build", str(tmp_path / "recipe.toml"), "--direct", "--out", out]) == 0
    assert main(["verify", out]) == 0
    assert "replayed in the simulator" in capsys.readouterr().out
    words = ["train", out, "--agent", "behaviour_cloning", "--steps", "5", "--direct"]
    assert main([*words, "--out", str(tmp_path / "agent")]) == 0
