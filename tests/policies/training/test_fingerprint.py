"""Tests that a training's fingerprint changes with the agent's own code, and with no other code."""

import importlib
import shutil
import sys
from pathlib import Path

import pytest

from pipeline.storage.provenance import PORTABLE
from policies.offline import AGENTS, read_config
from policies.online import ONLINE_AGENTS
from policies.training import fingerprint
from policies.training.fingerprint import agent_sources, training_key

CODE = "class Config:\n    pass\n"


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Make a package `mine` with an agent's module, another module, and a folder for a paper."""
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
    return training_key("mine", module, config, 10, 0, {"digest": "d"}, "cpu")


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


def test_an_agent_of_several_modules_is_all_of_them(packages, monkeypatch):
    """An agent may be a package, or be in the folder of its paper."""
    paper = packages / "mine"
    monkeypatch.setattr(fingerprint, "_PAPERS", "mine.")
    for module in ("mine", "mine.agent"):
        before = key(module)
        (paper / "other.py").write_text(f"A = {module!r}\n")
        assert key(module) != before
        before = key(module)
        (paper / "other.py").rename(paper / "renamed.py")
        assert key(module) == before
        (paper / "renamed.py").rename(paper / "other.py")


def test_other_versions_of_the_package_give_other_keys(packages, monkeypatch):
    before = key("mine.agent")
    monkeypatch.setattr(fingerprint, "version", lambda: "999")
    assert key("mine.agent") != before


def test_what_belongs_to_the_agents_of_this_package():
    def names(module: str) -> set[str]:
        return {str(Path(p).relative_to(Path(p).parents[1])) for p in agent_sources(module)}

    assert names(AGENTS["cql"].module) == {"q_learning/agents.py"}
    assert names(AGENTS["iql"].module) == {"actor_critic/iql.py"}
    assert names(ONLINE_AGENTS["ppo"].module) == {"online/ppo.py"}
    assert "counterfactual/rollouts.py" in names(ONLINE_AGENTS["counterfactual"].module)
    assert {"liu/agent.py", "liu/network.py"} <= names(ONLINE_AGENTS["monte_carlo_value"].module)
    for agent in (*AGENTS.values(), *ONLINE_AGENTS.values()):
        assert agent_sources(agent.module)
