"""Tests that a training's key changes with the code of an agent from elsewhere, and no other."""

import importlib
import shutil
import sys

import pytest

from hindcast.pipeline.storage.provenance import PORTABLE
from hindcast.policies.offline import AGENTS, read_config
from hindcast.policies.online import ONLINE_AGENTS
from hindcast.policies.training import fingerprint
from hindcast.policies.training.fingerprint import Identity
from hindcast.policies.training.learner import CPU

CODE = "class Config:\n    pass\n"


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Make a package `mine` with an agent's module and another module, and one without modules."""
    for name in ("mine", "elsewhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
        monkeypatch.delitem(sys.modules, name, raising=False)  # modules of an earlier test
    (tmp_path / "mine" / "agent.py").write_text(CODE)
    (tmp_path / "mine" / "other.py").write_text("A = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def key(module: str) -> str:
    importlib.invalidate_caches()
    config = read_config("behaviour_cloning")
    return Identity("mine", module, config, 10, 0, {"digest": "d"}, CPU).key


def test_an_edit_of_the_agent_s_module_gives_another_key(packages):
    before = key("mine.agent")
    (packages / "mine" / "agent.py").write_text(CODE + "# another\n")
    assert key("mine.agent") != before
    (packages / "mine" / "agent.py").write_text(CODE)
    assert key("mine.agent") == before


def test_an_edit_of_another_file_gives_the_same_key(packages):
    before = key("mine.agent")
    (packages / "mine" / "other.py").write_text("A = 2\n")
    (packages / "mine" / "new.py").touch()
    assert key("mine.agent") == before


def test_the_same_code_at_another_place_gives_the_same_key(packages):
    before = key("mine.agent")
    shutil.move(packages / "mine" / "agent.py", packages / "elsewhere" / "renamed.py")
    assert key("elsewhere.renamed") == before


def test_portable_kernels_give_another_key(packages, monkeypatch):
    """They give other weights, so a training with others is neither finished nor continued."""
    for name in PORTABLE:
        monkeypatch.delenv(name, raising=False)
    before = key("mine.agent")
    for name, value in PORTABLE.items():
        monkeypatch.setenv(name, value)
    assert key("mine.agent") != before


def test_an_agent_that_is_a_package_is_all_of_its_modules(packages):
    before = key("mine")
    (packages / "mine" / "other.py").write_text("A = 3\n")
    assert key("mine") != before
    before = key("mine")
    (packages / "mine" / "other.py").rename(packages / "mine" / "renamed.py")
    assert key("mine") == before


def test_other_versions_of_the_package_give_other_keys(packages, monkeypatch):
    before = key("mine.agent")
    monkeypatch.setattr(fingerprint, "version", lambda: "999")
    assert key("mine.agent") != before


def test_the_version_stands_for_the_code_of_this_package(monkeypatch):
    """A comment in an agent of this package does not make finished trainings start again."""
    monkeypatch.setattr(fingerprint, "agent_sources", pytest.fail)
    for agent in (*AGENTS.values(), *ONLINE_AGENTS.values()):
        assert key(agent.module)
