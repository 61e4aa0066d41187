"""`import hindcast`: its names, what they cost, and a whole pass through them."""

import doctest
import html
import inspect
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hindcast
from hindcast.flows import cli
from hindcast.pipeline.dataset import Dataset
from tests.conftest import TINY
from tests.flows.test_whatif import JOBS, write_log
from tests.made_logs import sacct

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ("numba", "polars", "pyarrow", "torch", "d3rlpy", "prefect", "pipeline", "policies")
FUNCTIONS = [name for name in hindcast.__all__ if inspect.isfunction(getattr(hindcast, name))]


def test_every_name_is_there_and_explained():
    """Each has a docstring, and a place on a page of the API reference."""
    pages = (ROOT / "docs" / "reference" / "api").glob("*.md")
    text = "\n".join(page.read_text() for page in pages)
    for name in hindcast.__all__:
        found = getattr(hindcast, name)
        assert found is not None
        assert found is getattr(hindcast, name) or name == "__version__"
        assert re.search(rf"\bhindcast\.{name}\b|`{name}`", text), name
        if name != "__version__":
            assert found.__doc__, name
            assert not found.__doc__.startswith(f"{name}("), name  # as a dataclass writes it


def test_nothing_else_is_public():
    """All other names of the module are private, for typing, or libraries."""
    assert hindcast.__all__ == sorted(hindcast.__all__)
    assert dir(hindcast) == sorted(hindcast.__all__)
    own = {
        name for name, value in vars(hindcast).items()
        if inspect.isfunction(value) and value.__module__ == "hindcast"
        and not name.startswith("_")
    }  # fmt: skip
    assert own <= set(hindcast.__all__)
    with pytest.raises(AttributeError, match="module 'hindcast' has no attribute 'biuld'"):
        _ = hindcast.biuld


def test_every_argument_of_a_function_is_explained():
    for name in FUNCTIONS:
        function = getattr(hindcast, name)
        told = inspect.getdoc(function)
        for argument in inspect.signature(function).parameters:
            assert re.search(rf"^    {argument}: \S", told, re.MULTILINE), (name, argument)
        assert "Raises:\n" in told, name


def test_what_type_checkers_see_is_what_is_there():
    """The names under TYPE_CHECKING come from the places that __getattr__ knows."""
    source = (ROOT / "hindcast.py").read_text()
    for name, place in hindcast._PLACES.items():
        module, _, attribute = place.partition(":")
        parent, _, last = module.rpartition(".")
        package = module if attribute else parent
        assert name in {attribute, last}
        assert re.search(rf"    from {re.escape(package)} import .*\b{name}\b", source), name


@pytest.mark.slow
def test_importing_it_loads_nothing():
    script = f"""
import sys
import hindcast
loaded = {HEAVY!r}
assert not set(loaded) & set(sys.modules), set(loaded) & set(sys.modules)
hindcast.errors, hindcast.register_scenario, hindcast.register_agent, hindcast.Agent
hindcast.register_scenario("mine", "nowhere")
hindcast.register_agent(hindcast.Agent("mine", "nowhere", False, None, 1, "mine"))
hindcast.whatif, hindcast.ope, hindcast.train_online
heavy = {{"numba", "polars", "torch", "d3rlpy", "prefect"}} & set(sys.modules)
assert not heavy, heavy
hindcast.Dataset, hindcast.kernel, hindcast.TraceFormat
assert not {{"torch", "d3rlpy", "prefect"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


@pytest.mark.slow
def test_a_whole_pass(tmp_path):
    """Build, append, verify, train, evaluate, export, play: nothing but the face."""
    recipe = hindcast.load_recipe("binpack-synthetic-v1", TINY)
    dataset = hindcast.build(recipe, tmp_path / "dataset", workers=2)
    assert isinstance(dataset, Dataset)
    again = hindcast.build("binpack-synthetic-v1", str(tmp_path / "dataset"), overrides=TINY)
    assert again.manifest == dataset.manifest
    named = dict(hindcast.verify(dataset).checks)
    decisions = dataset.manifest.counts["decisions"]
    assert named["behaviours"] == f"probabilities of {decisions:,} decisions recomputed"

    agent = hindcast.train(
        dataset, "behaviour_cloning", out=tmp_path / "agent", steps=5,
        settings={"network.hidden": [8]}, device="cpu",
    )  # fmt: skip
    policy = hindcast.load_policy(str(agent))
    assert policy.network.settings.hidden == (8,)

    class Last:
        """A policy in plain Python."""

        name = "last"

        def scores(self, observation):
            return observation.candidates[:, 0] * 0.0 + range(len(observation.feasible))

    assert isinstance(Last(), hindcast.Policy)
    result = hindcast.evaluate(
        recipe, ["tetris", agent, Last()], out=tmp_path / "evaluation", workers=2
    )
    assert set(result.means) == {"tetris", "behaviour_cloning-seed0", "last"}
    assert (tmp_path / "evaluation" / "evaluation.json").is_file()

    exported = hindcast.export(tmp_path / "dataset", "csv", tmp_path / "csv")
    assert exported.files == len(list((tmp_path / "csv").iterdir()))

    more = hindcast.append(recipe, tmp_path / "dataset")
    assert more.manifest.counts["episodes"] == 2 * dataset.manifest.counts["episodes"]
    assert hindcast.open_dataset(tmp_path / "dataset").manifest == more.manifest

    env = hindcast.make_env(recipe, split="validation", candidates=8)
    _, info = env.reset(seed=0)
    assert info["window"] in recipe.windows("validation")
    with pytest.raises(hindcast.errors.InputError, match="is loaded already"):
        hindcast.make_env(recipe, overrides=["seed=2"])


# Name -> the examples that go before, and whether the names that the example leaves are right.
EXAMPLES = {
    "behaviour": ((), lambda model, **_: model.tested > 0 and model.scores[0].name == "logit"),
    "ingest": ((), lambda made, **_: made.folder.is_dir() and made.workload.tasks.height == JOBS),
    "init": (("ingest",), lambda proposed, recipe, **_: recipe.scenario == "queue"),
    "ope": ((), lambda found, **_: found.rows["policy"].to_list() == ["tetris"]),
    "report": ((), lambda scored, page, **_: page.is_file() and set(scored.means) == TWO),
    "train_online": ((), lambda agent, policy, **_: policy.name == "evolution"),
    "whatif": ((), lambda found, **_: found.lines[-1] in html.unescape(PAGE.read_text())),
}
TWO = {"tetris", "random"}
PAGE = Path("whatif-jobs", "whatif.html")


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_function_runs(name, tiny_dataset, tmp_path, monkeypatch):
    """It runs as it stands in the docstring, in a folder with a log and a dataset."""
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "jobs.swf")
    shutil.copytree(tiny_dataset, "dataset")
    before, is_right = EXAMPLES[name]
    there: dict = {}
    for each in (*before, name):
        for example in doctest.DocTestParser().get_examples(getattr(hindcast, each).__doc__):
            exec(example.source, {"hindcast": hindcast, "SMALL": TINY}, there)
    assert is_right(**there)


@pytest.mark.slow
def test_calls_refuse_what_their_commands_refuse(tmp_path):
    """They check the request as the command line does, before any work."""
    log, error = tmp_path / "jobs.txt", hindcast.errors.InputError
    log.write_text(sacct(50, np.random.default_rng(0)))
    with pytest.raises(error, match=r"no such file or folder, .*; did you mean 'jobs.txt'\?"):
        hindcast.whatif(tmp_path / "jobs.tx", tmp_path / "page")
    with pytest.raises(error, match="unknown key 'procesors'; did you mean 'processors'"):
        hindcast.ingest("slurm", log, tmp_path / "out", settings={"procesors": 8})
    with pytest.raises(error, match=r"the page is always named report\.html"):
        hindcast.report(tmp_path, tmp_path / "june.html")
    made = hindcast.ingest("slurm", log, tmp_path / "out", settings={"processors": 256})
    assert made.workload.machines["cores"].sum() == 256
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs.txt", "out"]


@pytest.mark.slow
def test_an_agent_that_was_loaded_is_scored_as_an_agent(tmp_path):
    """It is no rule in a report, and beside its own folder no further training seed."""
    recipe = hindcast.load_recipe("multicluster-foresight-online", ['split.test="30..31"'])
    folder = ROOT / "datasets" / "multicluster-foresight-online" / "agents" / "evolution-seed0"
    agent = hindcast.load_policy(folder)

    def entries(out: str, *policies) -> list[dict]:
        hindcast.evaluate(recipe, policies, out=tmp_path / out)
        return json.loads((tmp_path / out / "evaluation.json").read_text())["policies"]

    (alone,) = entries("alone", agent)
    assert (alone["name"], alone["kind"], alone["group"]) == ("evolution", "learned", "evolution")
    beside, of_folder = entries("both", agent, folder)
    assert alone["digest"] == beside["digest"] == of_folder["digest"]
    assert beside["kind"] == of_folder["kind"] == "learned"
    assert beside["name"] == beside["group"] == f"evolution-{alone['digest'][:8]}"
    report = ["report", str(tmp_path / "both"), "--out", str(tmp_path / "page"), "--direct"]
    assert cli.main(report) == 0


@pytest.mark.slow
def test_an_unknown_gate_is_refused(tmp_path):
    with pytest.raises(hindcast.errors.UnknownName, match="unknown gate 'flods'; did you mean 'fo"):
        hindcast.train(tmp_path, "cql", out=tmp_path / "x", gate="flods")


def test_what_is_registered_is_what_the_registries_know():
    from hindcast.pipeline.exports import EXPORTS
    from hindcast.pipeline.traces import FORMATS
    from hindcast.policies.offline import AGENTS
    from hindcast.policies.online import ONLINE_AGENTS

    known = [dict(r._known) for r in (EXPORTS, FORMATS, AGENTS, ONLINE_AGENTS)]
    form = hindcast.TraceFormat("mine", "d", "p", "s", "t", "c", None)
    try:
        hindcast.register_export(hindcast.Export("mine", "nowhere", "d", "l"))
        hindcast.register_trace_format(form)
        hindcast.register_agent(hindcast.OnlineAgent("mine", "nowhere", "d"))
        assert EXPORTS["mine"].module == ONLINE_AGENTS["mine"].module == "nowhere"
        assert FORMATS["mine"] is form
        assert "mine" not in AGENTS
        with pytest.raises(hindcast.errors.InputError, match="the name 'mine' is taken"):
            hindcast.register_trace_format(form)
    finally:
        for registry, before in zip((EXPORTS, FORMATS, AGENTS, ONLINE_AGENTS), known, strict=True):
            registry._known = before


def test_the_version_is_that_of_the_project():
    """Of the distribution, whose name is not that of the import; "hindcast" is a stranger's."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == "hindcast-scheduling"
    assert hindcast.__version__ == project["version"]


@pytest.mark.slow
def test_nobody_is_told_to_install_a_strangers_package():
    said = re.compile(
        r"(pip3? install|uv add|uvx|uv tool install|pipx install|pipx run)(\s+-\S+)*\s+['\"]?"
        r"hindcast\b(?!-)|hindcast\[(all|train|flows|export|s3|dask|ray)"
    )
    names = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    other = (".safetensors", ".csv", ".png", ".npz", ".parquet", ".gz")  # nobody reads them
    found = [
        name for name in names
        if (ROOT / name).is_file() and not name.endswith(other) and name != "tests/test_face.py"
        and said.search((ROOT / name).read_text(encoding="utf-8", errors="ignore"))
    ]  # fmt: skip
    assert not found
    assert said.search("pip install -U hindcast")
    assert not said.search("pip install hindcast-scheduling")


def test_extras_are_installed_by_the_distributions_name():
    """`.` is another project in any folder but the checkout."""
    folders = ("flows", "pipeline", "policies", "docs/how-to", "docs/tutorials")
    found = [
        str(path) for folder in folders for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in {".py", ".md"} and "pip install '.[" in path.read_text(encoding="utf-8")
    ]  # fmt: skip
    assert not found
