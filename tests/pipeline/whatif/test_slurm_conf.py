"""Lines of slurm.conf are read as Slurm reads them, or refused with the line and the nearest."""

from pathlib import Path

import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.whatif.batch_systems.slurm_conf import (
    UNLIMITED,
    SlurmConf,
    is_slurm_conf,
    node_names,
    parse_slurm_conf,
    read_text,
    seconds,
)
from tests.conftest import require_traces

PATH = Path("slurm.conf")


def parsed(text: str, path: Path = PATH) -> SlurmConf:
    return parse_slurm_conf(text, path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7-0", 604_800), ("60", 3_600), ("1:30", 90), ("2:00:00", 7_200), ("0", 0),
        ("2-3:04", 2 * 86_400 + 3 * 3_600 + 240), ("1-2:3:4", 86_400 + 7_200 + 180 + 4),
        ("UNLIMITED", UNLIMITED), ("infinite", UNLIMITED),
    ],
)  # fmt: skip
def test_times_have_the_forms_of_slurm(text, expected):
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "7-", "1-2-3", "1:2:3:4", "1.5", "-1", "7 days"])
def test_other_times_are_refused(text):
    with pytest.raises(ValueError, match="minutes"):
        seconds(text)


def test_a_file_with_comments_continued_lines_and_other_keys():
    conf = parsed(
        "# site\nClusterName=x SlurmctldHost=head\nprioritytype=Priority/Multifactor\n"
        "PriorityWeightAge = 1000 # points\nPriorityMaxAge=14-0\nPriorityFavorSmall=yes\n"
        "PriorityFlags=small_relative_to_time,NO_FAIR_TREE\nPriorityDecayHalfLife=0\n"
        "SchedulerParameters=bf_continue,bf_max_job_test=100,\\\n  bf_job_part_count_reserve=1\n"
        "NodeName=n[01-16] CPUs=4\nPartitionName=DEFAULT MaxTime=60 PriorityJobFactor=3\n"
        'PartitionName=debug Nodes=n[01-02] PriorityJobFactor=7\nPartitionName="long" MaxTime=2-0\n'
    )
    assert (conf.weight_age, conf.max_age_s, conf.favor_small) == (1000, 14 * 86_400, True)
    assert conf.flags == ("SMALL_RELATIVE_TO_TIME", "NO_FAIR_TREE")
    assert (conf.half_life_s, conf.tested, conf.reserving, conf.backfill) == (0, 100, 1, True)
    assert {n: (p.job_factor, p.max_time_s) for n, p in conf.partitions.items()} == {
        "debug": (7, 3_600),
        "long": (3, 172_800),
    }
    assert conf.partitions["debug"].nodes == {"n01", "n02"}
    assert conf.not_modelled == ("SchedulerParameters=bf_continue",)


def test_the_output_of_scontrol_is_read_too():
    conf = parsed(
        "Configuration data as of 2026-11-01T00:00:00\nBatchStartTimeout      = 10 sec\n"
        "PriorityDecayHalfLife   = 7-00:00:00\nPriorityFavorSmall      = No\n"
        "PriorityUsageResetPeriod= NONE\nPriorityWeightTRES      = (null)\n"
        "PriorityWeightFairShare = 10000\nSchedulerParameters     = (null)\n"
        "SchedulerType           = sched/builtin\n\nSlurmctld(primary) at head is UP\n"
    )
    assert (conf.half_life_s, conf.weight_fairshare, conf.backfill) == (604_800, 10_000, False)
    assert [one.partition(":")[0] for one in conf.not_modelled] == ["fair share"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PriorityWeightAge=1\nPriorityMaxAge=x", "line 2: PriorityMaxAge is 'x'; expected min"),
        ("PriorityWeightAges=1", "line 1: unknown key 'PriorityWeightAges'; did you mean 'Prio"),
        ("PriorityWeightAge=-5", "line 1: PriorityWeightAge is '-5'; expected a whole number"),
        ("PriorityFlags=NO_FAIRTREE", "PriorityFlags is 'NO_FAIRTREE'; did you mean 'NO_FAIR"),
        ("SchedulerType=sched/backfil", "did you mean 'sched/backfill'"),
        ("SchedulerTyp=sched/backfill", "unknown key 'SchedulerTyp'; did you mean 'SchedulerType'"),
        ("SchedulerParameters=bf_max_jobtest=5", "did you mean 'bf_max_job_test'"),
        ("SchedulerParameters=bf_max_job_test=0", "expected a whole number from 1 to 1,000,000"),
        ("PriorityWeightAge=1\n\nPriorityWeightAge=2", "line 3: PriorityWeightAge contradicts li"),
        ("PriorityUsageResetPeriod=WEEK", "did you mean 'WEEKLY'"),
        ("PriorityDecayHalfLife=UNLIMITED", "expected a time that ends"),
        ("PartitionName=a\nPartitionName=a", "line 2: PartitionName=a stands there twice"),
        ("PartitionName=a PriorityJobFactor=x", "PriorityJobFactor is 'x'; expected a whole"),
        ("PartitionName=a Nodes=n[5-1]", "Nodes is 'n[5-1]'; expected nodes such as"),
        ("PriorityFlags=FAIR_TREE,NO_FAIR_TREE", "has FAIR_TREE and NO_FAIR_TREE; leave one"),
        ("PriorityWeightAge", "line 1: 'PriorityWeightAge', expected KEY=VALUE"),
    ],
)
def test_what_slurm_would_not_accept_is_refused_with_its_line(text, message):
    with pytest.raises(InputError) as error:
        parsed(text)
    assert str(error.value).startswith("slurm.conf, line ")
    assert message in str(error.value)


def test_equal_lines_do_not_contradict_each_other():
    assert parsed("PriorityMaxAge=7-0\nPriorityMaxAge=168:00:00").max_age_s == 604_800


def test_settings_that_are_not_simulated_are_named():
    conf = parsed(
        "Include nodes.conf\nPriorityWeightQOS=5\nPriorityFlags=MAX_TRES,ACCRUE_ALWAYS\n"
        "PriorityWeightAssoc=0\nPriorityWeightTRES=CPU=1000\nPreemptType=preempt/none\n"
        "SchedulerParameters=bf_window=4320,bf_max_job_user=10\n"
        "PartitionName=a PriorityTier=2\nPartitionName=b\n"
    )
    assert [one.partition(":")[0] for one in conf.not_modelled] == [
        "Include nodes.conf", "PriorityWeightTRES=CPU=1000",
        "SchedulerParameters=bf_max_job_user=10", "PriorityFlags=MAX_TRES", "PriorityWeightQOS=5",
        "PriorityTier",
    ]  # fmt: skip
    assert conf.window_s == 4_320 * 60
    basic = parsed("PriorityType=priority/basic\nPriorityWeightAge=1")
    assert basic.not_modelled == ("weights: PriorityType=priority/basic does not use them",)


def test_lists_of_nodes():
    assert node_names("n[01-03,07],gpu1") == {"n01", "n02", "n03", "n07", "gpu1"}
    assert len(node_names("r[0-1]n[1-3]")) == 6
    assert node_names("ALL") == frozenset()
    for text in ("n[1-", "n[a-b]", "n[0-9999999]", "n[0-9999]x[0-9999]"):
        with pytest.raises(ValueError, match="nodes"):
            node_names(text)


def test_a_file_is_recognised_by_its_lines():
    assert is_slurm_conf("x=1\n PriorityMaxAge = 7-0")
    assert is_slurm_conf("PartitionName=a")
    assert not is_slurm_conf("# PriorityMaxAge=7-0\njob_sort_formula = ncpus")


def test_what_is_no_text_is_refused(tmp_path):
    path = tmp_path / "slurm.conf"
    with pytest.raises(InputError, match="there is no such file"):
        read_text(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_text(tmp_path)
    path.write_bytes(b"PriorityMaxAge=7-0\0")
    with pytest.raises(InputError, match="this is no text"):
        read_text(path)


def test_comments_of_any_encoding_and_lines_of_any_system(tmp_path):
    path = tmp_path / "slurm.conf"
    path.write_bytes(b"\xef\xbb\xbfPriorityWeightAge=5 # W\xe4hler\r\nPriorityMaxAge=1-0\r\n")
    conf = parsed(read_text(path), path)
    assert (conf.weight_age, conf.max_age_s) == (5, 86_400)


def test_the_nine_settings_are_read():
    folder = require_traces("../golden/whatif/conf")
    read = {path.stem: parsed(read_text(path), path) for path in folder.glob("*.conf")}
    assert len(read) == 9
    assert read["relative"].weight_size == 10_000_000
    assert "SMALL_RELATIVE_TO_TIME" in read["relative"].flags
    assert [p.job_factor for p in read["queues"].partitions.values()] == [1, 4, 2, 1]
    assert {(c.tested, c.reserving, c.backfill) for c in read.values()} == {(500, 0, True)}
