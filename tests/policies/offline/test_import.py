"""Tests of side effects that importing and training must not have."""

import subprocess
import sys

import pytest


def _run(code):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )


@pytest.mark.slow
def test_the_registry_loads_no_heavy_library():
    code = (
        "import sys, hindcast.policies.offline;"
        "from hindcast.policies.networks import checkpoint, policy;"
        "print([m for m in ('torch', 'd3rlpy', 'prefect') if m in sys.modules])"
    )
    assert _run(code).stdout.strip() == "[]"


@pytest.mark.nightly
def test_d3rlpy_is_loaded_quietly_and_structlog_stays_as_it_was():
    code = (
        "import structlog, torch, random;"
        "state = torch.get_rng_state();"
        "from hindcast.policies.offline.q_learning import agents, masked_q;"
        "assert not structlog.is_configured();"
        "assert torch.equal(state, torch.get_rng_state())"
    )
    done = _run(code)
    assert done.stdout == ""
    assert done.stderr == ""
