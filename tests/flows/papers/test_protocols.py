"""Tests of the protocols of all papers: their stages are commands that a reader could type."""

import re

import pytest

from hindcast.flows.parser import parse
from hindcast.flows.protocols import OUT, PROTOCOLS, Setting, find
from hindcast.flows.runs.reproduce import reads
from hindcast.pipeline.errors import InputError

FULL, QUICK = Setting((0, 1, 2, 3, 4)), Setting((0, 1), quick=True)
CHECKPOINT = re.compile("/(best|delivered)$")
HOURS = {"osdec": 6, "timecritical": 6}  # of a full run on two cores; 3 for the others


@pytest.mark.parametrize("setting", [FULL, QUICK])
@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_stage_is_a_command_line_that_writes_its_output(name, setting):
    stages = find(name).stages(setting)
    assert len({stage.name for stage in stages}) == len(stages)
    assert len({stage.output for stage in stages}) == len(stages)
    for stage in stages:
        words = [word.replace(OUT, "/tmp/reproduction") for word in stage.words]
        arguments = parse(words)
        assert f"/tmp/reproduction/{stage.output}".startswith(arguments.read(arguments).out)
        assert stage.minutes > 0.0


@pytest.mark.parametrize("setting", [FULL, QUICK])
@pytest.mark.parametrize("name", PROTOCOLS)
def test_no_stage_writes_into_the_folder_of_another(name, setting):
    """The folder of a stage is removed if its command has changed."""
    written = [
        f"{stage.words[stage.words.index('--out') + 1]}/" for stage in find(name).stages(setting)
    ]
    inside = [(a, b) for a in written for b in written if a is not b and a.startswith(b)]
    assert not inside


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_stage_reads_what_an_earlier_one_has_written(name):
    for setting in (FULL, QUICK):
        written = []
        for stage in find(name).stages(setting):
            for before, word in zip(stage.words, stage.words[1:], strict=False):
                if word.startswith(f"{OUT}/") and before != "--out":
                    folder = CHECKPOINT.sub("", word.removeprefix(f"{OUT}/").partition("@")[0])
                    assert any(output.startswith(folder) for output in written), word
            written.append(stage.output)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_stages_that_a_stage_waits_for_are_those_whose_output_it_names(name):
    stages = find(name).stages(FULL)
    outputs = {stage.name: f"{OUT}/{stage.output}" for stage in stages}
    found = reads(stages)
    for stage in stages:
        named = [word for word in stage.words if word.startswith(f"{OUT}/")]
        named.remove(stage.words[stage.words.index("--out") + 1])
        for word in named:
            folder = CHECKPOINT.sub("", word.partition("@")[0])
            assert any(outputs[other].startswith(folder) for other in found[stage.name]), word
        assert bool(named) == bool(found[stage.name])
        assert "--workers" not in stage.words


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_stated_times_are_within_the_limits(name):
    assert sum(stage.minutes for stage in find(name).stages(QUICK)) <= 10.0
    full = sum(stage.minutes for stage in find(name).stages(FULL))
    assert full <= 60.0 * HOURS.get(name, 3)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_each_seed_of_the_setting_is_trained(name):
    """The name of a seed stands in the commands of a run that has it, and in no other."""
    commands = [" ".join(stage.words) for stage in find(name).stages(Setting((7,), quick=True))]
    assert not commands or any(
        "--seed 7" in command or "--seeds 7" in command for command in commands
    )
    assert not any("seed0" in command for command in commands)


def test_an_unknown_paper_gets_the_nearest_name():
    with pytest.raises(InputError, match="did you mean 'deeprm'"):
        find("deeprn")
