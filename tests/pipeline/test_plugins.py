"""Names from outside this repository: registered, of HINDCAST_PLUGINS, of entry points."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hindcast.flows.cli import main
from hindcast.flows.commands import ADDED
from hindcast.flows.completion import words
from hindcast.pipeline import plugins
from hindcast.pipeline.errors import InputError, UnknownName
from hindcast.pipeline.exports import EXPORTS
from hindcast.pipeline.gymnasium_env.rendering import PICTURES
from hindcast.pipeline.plugins import Registry
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.proposals.proposal import PROPOSALS
from hindcast.pipeline.recipes.shipped import RECIPES, known_recipes
from hindcast.pipeline.scenarios import SCENARIOS, load_scenario, register_scenario
from hindcast.pipeline.traces import FORMATS
from hindcast.policies.heuristics import heuristics
from hindcast.policies.offline import AGENTS, Agent
from hindcast.policies.offline import agent as find_agent
from hindcast.policies.online import ONLINE_AGENTS

PLUGIN = """
from hindcast.pipeline.exports import EXPORTS, Export
EXPORTS.register("{name}", Export("{name}", __name__, "a format from outside", "everything"))
"""
REGISTRIES = (SCENARIOS, AGENTS, ONLINE_AGENTS, FORMATS, EXPORTS)
HELD = (*REGISTRIES, ADDED, PICTURES, PROPOSALS, RECIPES)


@pytest.fixture(autouse=True)
def outside(tmp_path, monkeypatch):
    """A folder on the path for modules of plug-ins; what a test registers is forgotten."""
    modules, known = dict(sys.modules), [dict(registry._known) for registry in HELD]
    monkeypatch.syspath_prepend(tmp_path)
    plugins._entry_points.cache_clear()
    yield tmp_path
    plugins._entry_points.cache_clear()
    for registry, before in zip(HELD, known, strict=True):
        registry._known = before
    for name in set(sys.modules) - set(modules):
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in (
            sys.modules[name].__file__
        ):
            del sys.modules[name]


def install(folder, group, **entries):
    """Make the folder hold an installed package with these entry points, beside others."""
    about = folder / "outside-1.0.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in entries.items()]
    with (about / "entry_points.txt").open("a") as file:
        file.write("\n".join([f"[{group}]", *lines, ""]))


def test_a_registered_name_is_found_listed_and_suggested():
    AGENTS.register("ours", Agent(
        "ours", "nowhere", transitions=False, per_episode=60, candidates=32, description="outside",
    ))  # fmt: skip
    assert find_agent("ours").module == "nowhere"
    assert "ours" in list(AGENTS)
    with pytest.raises(UnknownName, match="did you mean 'ours'"):
        find_agent("oursy")


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda r: r._group)
def test_a_name_is_taken_once(registry):
    """A name that comes with Hindcast cannot be replaced, nor one that was registered."""
    with pytest.raises(InputError, match="is taken"):
        registry.register(next(iter(registry)), None)
    registry.register("mine", "first")
    with pytest.raises(InputError, match=f"{registry._group}: the name 'mine' is taken"):
        registry.register("mine", "second")
    assert registry["mine"] == "first"


@pytest.mark.parametrize("form", ["module", "path"])
def test_modules_of_the_environment_variable(outside, monkeypatch, form):
    file = outside / "plugin_of_ours.py"
    file.write_text(PLUGIN.format(name="mine"))
    monkeypatch.setenv(
        plugins.VARIABLE, f" {file.stem if form == 'module' else file} ,,plugin_of_ours"
    )
    assert len(EXPORTS) == len(list(EXPORTS))
    assert EXPORTS["csv"].module == "hindcast.pipeline.exports.csv"
    assert EXPORTS["mine"].module == "plugin_of_ours"
    assert "mine" in list(EXPORTS)


def test_known_names_import_no_plugin(outside, monkeypatch):
    (outside / "broken_plugin.py").write_text("raise RuntimeError('imported')")
    monkeypatch.setenv(plugins.VARIABLE, "broken_plugin")
    assert EXPORTS["csv"].name == "csv"
    assert "csv" in EXPORTS
    with pytest.raises(InputError, match="HINDCAST_PLUGINS: broken_plugin cannot be imported"):
        EXPORTS.get("cvs")


@pytest.mark.parametrize(
    ("plugin", "says"),
    [
        ("no_such_module", "no_such_module cannot be imported .ModuleNotFoundError"),
        ("no/such/file.py", "no/such/file.py cannot be imported .FileNotFoundError"),
        ("{outside}/json.py", "another module is called 'json'; rename the file"),
        ("{outside}/clash.py", "hindcast.exports: the name 'csv' is taken"),
    ],
)
def test_what_is_no_plugin(outside, monkeypatch, plugin, says):
    (outside / "json.py").write_text("")
    (outside / "clash.py").write_text(PLUGIN.format(name="csv"))
    monkeypatch.setenv(plugins.VARIABLE, plugin.format(outside=outside))
    for _ in range(2):  # not only the first time
        with pytest.raises(InputError, match=says):
            EXPORTS.get("mine")
    assert "clash" not in sys.modules


def test_entry_points_are_imported_when_they_are_named(outside):
    """Not for another name, and not for a list of names."""
    (outside / "mine_outside.py").write_text(PLUGIN.format(name="mine"))
    install(outside, "hindcast.exports", mine="mine_outside", other="no_such_module", lies="json")
    assert EXPORTS.get("nothing") is None
    assert {"mine", "other", "lies"} < set(EXPORTS)
    assert "mine_outside" not in sys.modules
    assert EXPORTS["mine"].module == "mine_outside"
    with pytest.raises(InputError, match=r"other = 'no_such_module' of hindcast\.exports cannot"):
        EXPORTS.get("other")
    with pytest.raises(InputError, match="the module does not register 'lies'"):
        EXPORTS.get("lies")
    assert "mine" not in FORMATS  # another group


def test_entry_points_of_a_package_in_an_archive_are_found(outside, monkeypatch):
    with zipfile.ZipFile(outside / "packages.zip", "w") as archive:
        archive.writestr("mine_outside.py", PLUGIN.format(name="mine"))
        archive.writestr("outside-1.0.dist-info/METADATA", "Name: outside\nVersion: 1.0\n")
        archive.writestr(
            "outside-1.0.dist-info/entry_points.txt", "[hindcast.exports]\nmine = mine_outside\n"
        )
    monkeypatch.syspath_prepend(outside / "packages.zip")
    assert EXPORTS["mine"].module == "mine_outside"


def test_a_folder_of_the_path_that_cannot_be_read_is_passed_over(outside, monkeypatch):
    """Permissions bind no administrator, so the refusal of the system is played."""
    scan = os.scandir

    def refuse(place):
        if Path(place) == outside:
            raise PermissionError(13, "Permission denied", str(place))
        return scan(place)

    monkeypatch.syspath_prepend(outside)
    monkeypatch.setattr("os.scandir", refuse)
    assert plugins._may_have("hindcast.exports")
    assert not plugins._may_have("hindcast.of_nobody")


COMMAND = """
from dataclasses import dataclass
from pathlib import Path
from hindcast.flows import parser as p
from hindcast.flows.commands import Added, Command, Shown, refuse_nothing as check

@dataclass(frozen=True)
class Request:
    name: str = p.argument("whom to greet")

def run(request):
    return {"greeted": request.name}

def show(result):
    return Shown([f"hello {result['greeted']}"])

COMMANDS = {"greet": Command("hindcast greet you", Request)}
GREET = Added(__name__, "greet somebody")
RECIPE = Path(__file__).with_name("recipe.toml")
HERE = __name__

def draw(view, axes):
    return None

def propose(source, path, name, nodes):
    from types import SimpleNamespace
    return SimpleNamespace(toml=f"# {path}", columns={"a": "b"}, facts=(), unsure=())
"""


def test_a_package_brings_a_command_a_recipe_a_picture_and_a_proposal(outside, capsys):
    (outside / "brought.py").write_text(COMMAND)
    (outside / "recipe.toml").write_text(
        'id = "brought-v1"\nscenario = "binpack"\nsplit = {train = "0..3"}\n'
        'trace = {format = "synthetic"}\n'
    )
    install(outside, "hindcast.commands", greet="brought:GREET")
    install(outside, "hindcast.recipes", **{"brought-v1": "brought:RECIPE"})
    install(outside, "hindcast.pictures", queue="brought:draw")
    install(outside, "hindcast.proposals", mine="brought:HERE")
    assert main(["greet", "you"]) == 0
    assert capsys.readouterr().out == "hello you\n"
    assert main(["--help"]) == 0
    assert "greet somebody" in capsys.readouterr().out
    assert words(["gre"]) == ["greet"]
    assert words(["greet", "--js"]) == ["--json"]
    assert main(["gret"]) == 2
    assert "did you mean 'greet'" in capsys.readouterr().err
    assert "brought-v1" in known_recipes()
    assert load_recipe("brought-v1").base == outside
    with pytest.raises(InputError, match="did you mean 'brought-v1'"):
        load_recipe("brought-v2")
    assert PICTURES["queue"].__module__ == "brought"
    table = outside / "t.csv"
    table.write_text("b\n1\n")
    assert main(["init", str(table), "--scenario", "mine"]) == 0
    assert "a recipe for scenario mine" in capsys.readouterr().out
    assert (outside / "t.toml").read_text() == "# t.csv"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["broken"], "entry point broken = 'boom:GREET' .* cannot be imported (RuntimeError: no)"),
        (["text"], "entry point text = 'brought:HERE' .* expected Added, found 'brought'"),
        (["absent"], "the module no_such_module of a plug-in cannot be imported"),
        (["empty"], "command 'empty': brought.COMMANDS has no such name"),
        (["build", "text-v1", "--out", "x"], "expected Path, found 'brought'"),
    ],
)
def test_a_broken_plugin_is_one_line(outside, capsys, words, says):
    (outside / "boom.py").write_text("raise RuntimeError('no')")
    (outside / "brought.py").write_text(
        COMMAND + "ABSENT = Added('no_such_module', 'nothing')\nEMPTY = Added(__name__, 'nothing')"
    )
    names = {"broken": "boom:GREET", "text": "brought:HERE"}
    install(outside, "hindcast.commands", **names, absent="brought:ABSENT", empty="brought:EMPTY")
    install(outside, "hindcast.recipes", **{"text-v1": "brought:HERE"})
    assert main(words) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert all(part in printed for part in says.split(" .* "))


def test_a_name_of_a_stranger_imports_nothing(outside, tiny_recipe, tmp_path):
    """A recipe's words are compared with names; modules are named by the user and by packages."""
    for scenario in (
        "stranger",
        "stranger:SCENARIO",
        "hindcast.pipeline.scenarios.binpack",
        "../stranger",
    ):
        (outside / "stranger.py").write_text("raise SystemExit('imported')")
        recipe = tmp_path / "recipe.toml"
        recipe.write_text(
            f'id = "x"\nscenario = "{scenario}"\n[trace]\nformat = "stranger"\n[split]\n'
            'train = "0..1"\n'
        )
        with pytest.raises(UnknownName, match=r"unknown scenario|the name of a known scenario"):
            load_recipe(recipe)
        with pytest.raises(UnknownName, match=r"unknown scenario|the name of a known scenario"):
            heuristics(scenario)
        assert not any(scenario in registry for registry in REGISTRIES)
    assert "stranger" not in sys.modules


def test_a_registered_scenario_has_its_rules():
    """As objects; and as the name of a module, which is not imported before it is used."""
    rules = {"one": heuristics("binpack")["tetris"]}
    import dataclasses

    again = dataclasses.replace(load_scenario("binpack"), name="again")
    register_scenario("again", again, rules)
    assert load_scenario("again") is again
    assert set(heuristics("again")) == {"random", "random_linear", "one"}
    register_scenario("later", "no_such_module")
    assert "later" in SCENARIOS
    with pytest.raises(InputError, match=r"no_such_module of a plug-in .* .ModuleNotFoundError"):
        load_scenario("later")
    with pytest.raises(InputError, match="rules of the module no_such_module are its HEURISTICS"):
        register_scenario("both", "no_such_module", rules)
    register_scenario("misnamed", again)
    with pytest.raises(InputError, match="is not a Scenario of that name"):
        load_scenario("misnamed")


def test_registering_loads_nothing_heavy():
    """Names and registrations need neither numba nor torch."""
    script = """
import sys
from hindcast.pipeline.exports import EXPORTS, Export
from hindcast.pipeline.scenarios import register_scenario
from hindcast.policies.offline import AGENTS, Agent
from hindcast.policies.online import ONLINE_AGENTS, OnlineAgent
register_scenario("mine", "somewhere")
AGENTS.register("mine", Agent("mine", "somewhere", False, 60, 32, "mine"))
ONLINE_AGENTS.register("mine", OnlineAgent("mine", "somewhere", "mine"))
EXPORTS.register("mine", Export("mine", "somewhere", "mine", "nothing"))
from hindcast.flows.cli import main
assert main(["--help"]) == 0  # looks for commands of plug-ins
heavy = {"numba", "polars", "torch", "d3rlpy", "prefect", "importlib.metadata"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_registry_of_its_own():
    registry = Registry("things", {"one": 1})
    registry.register("two", 2)
    assert dict(registry) == {"one": 1, "two": 2}
