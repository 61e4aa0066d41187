"""Formulas of PBS are evaluated as Python would, and refused where they are no arithmetic."""

import math
from pathlib import Path

import numpy as np
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.whatif.batch_systems.pbs_formula import (
    VARIABLES,
    PbsConf,
    is_pbs_conf,
    parse_formula,
    parse_pbs_conf,
)

RNG = np.random.default_rng(3)
JOBS = {name: RNG.integers(1, 50, 40).astype(float) for name in VARIABLES}


def parsed(text: str) -> PbsConf:
    return parse_pbs_conf(text, Path("pbs.txt"))


@pytest.mark.parametrize(
    "text",
    [
        "-walltime",
        "-(walltime*ncpus)",
        "(eligible_time+walltime)/walltime",
        "((eligible_time/walltime)**3)*ncpus",
        "eligible_time/(walltime*log(ncpus if ncpus>2 else 2))",
        "10 * (queue_priority > 20) + pow(2, -(fairshare_tree_usage/fairshare_perc))",
        "walltime // 7 % 3 + (ncpus and 5) + (0 or job_priority) - (not ncpus - 4)",
        "sqrt(ncpus) if 3 < ncpus <= 17 and walltime != 9 else atan2(ncpus, pi) * e",
        "log(ncpus, 2) + log(walltime)",
        "fair_share_perc + 1e3 if ncpus == 4 or walltime < 10 else floor(ncpus / 3)",
    ],
)
def test_a_formula_has_the_values_of_python(text):
    names = {"__builtins__": {}, **vars(math)}
    rows = [{n: values[i] for n, values in JOBS.items()} for i in range(40)]
    expected = [
        float(eval(text, names, {**row, "fair_share_perc": row["fairshare_perc"]})) for row in rows
    ]
    assert parse_formula(text, "f").values(JOBS) == pytest.approx(expected, rel=1e-14)


def test_a_constant_has_a_value_for_every_job():
    assert parse_formula("1", "f").values(JOBS).tolist() == [1.0] * 40


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ncpu * 2", "'ncpu', which a log does not have; did you mean 'ncpus'?"),
        ("mem", "'mem', which a log does not have"),
        ("max(ncpus, 2)", "calls 'max'; PBS knows the functions of Python's math alone"),
        ("sqroot(ncpus)", "did you mean 'sqrt'?"),
        ("__import__('os').system('true')", """calls "__import__('os').system";"""),
        ("ncpus.real", "the formula has 'ncpus.real'"),
        ("[ncpus]", "the formula has '[ncpus]'"),
        ("lambda: 1", "expected arithmetic"),
        ("'a'", "expected arithmetic"),
        ("True", "expected arithmetic"),
        ("ncpus << 3", "expected arithmetic"),
        ("(x := 3)", "expected arithmetic"),
        ("log(ncpus, base=2)", "calls 'log'"),
        ("sqrt(ncpus, 2)", "sqrt takes 1 numbers, the formula gives it 2"),
        ("ncpus in walltime", "expected arithmetic"),
        ("ncpus +", "is no formula"),
        ("", "is no formula"),
        ("-" * 200 + "1", "nested more than 100 levels deep"),
        ("[" + "-" * 700 + "1]", "the formula is nested too deeply"),
        ("1" + "0" * 400, "the formula has the number 1000"),
        ("1" + "0" * 5000, "is no formula"),
        ("1+" * 6000 + "1", "more than 10,000"),
    ],
)
def test_anything_else_is_refused_by_name(text, message):
    with pytest.raises(InputError) as error:
        parse_formula(text, "pbs.txt, line 1")
    assert str(error.value).startswith("pbs.txt, line 1: ")
    assert message in str(error.value)


def test_lines_of_qmgr_and_of_sched_config():
    conf = parsed(
        "# print server\ncreate queue express\nset queue express Priority = 150\n"
        'set server job_sort_formula = "eligible_time * queue_priority"\n'
        "set server backfill_depth = 4\nset server eligible_time_enable = True\n"
        "set server scheduling = True\nstrict_ordering: true ALL\nby_queue: false ALL\n"
        "round_robin: True all\n"
    )
    assert conf.formula is not None
    assert conf.formula.names == {"eligible_time", "queue_priority"}
    assert (conf.depth, conf.strict, conf.queues) == (4, True, {"express": 150})
    assert conf.not_modelled == ("round_robin: True all",)


def test_the_shortest_file_has_the_defaults_of_pbs():
    conf = parsed("job_sort_formula = -walltime")
    assert conf.formula is not None
    assert (conf.formula.text, conf.depth, conf.strict) == ("-walltime", 1, True)
    assert "strict_ordering" in conf.not_modelled[0]
    assert not parsed("strict_ordering: false ALL").strict


def test_a_formula_of_waiting_times_needs_a_setting():
    text = "job_sort_formula = eligible_time\n"
    assert "eligible_time_enable = true" in parsed(text).not_modelled[0]
    with pytest.raises(InputError, match="line 2: the formula has eligible_time"):
        parsed(f"{text}set server eligible_time_enable = false")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("backfill_depth = -1", "line 1: backfill_depth is '-1', expected a whole number from 0"),
        ("strict_ordering: perhaps", "strict_ordering is 'perhaps', expected true or false"),
        ("set queue a Priority = x", "Priority is 'x', expected a whole number from -1,024"),
        ("job_sort_formula = 1\njob_sort_formula = 2", "line 2: job_sort_formula contradicts lin"),
        ("set server job_sort_formulae = 1", "did you mean 'job_sort_formula'?"),
        ('set server job_sort_formula = "ncpu"', "line 1: the formula has 'ncpu'"),
    ],
)
def test_lines_that_pbs_would_not_accept_are_refused(text, message):
    with pytest.raises(InputError) as error:
        parsed(text)
    assert message in str(error.value)


def test_a_file_is_recognised_by_its_lines():
    assert is_pbs_conf('set server job_sort_formula = "ncpus"')
    assert is_pbs_conf("backfill_depth: 3")
    assert not is_pbs_conf("PriorityWeightAge=1000\nclustername=x")
