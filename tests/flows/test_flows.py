"""Flows without a server: what they pass on, the parameters they accept, their deployments."""

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from flows import arguments, stages, steps

ROOT = Path(__file__).resolve().parent.parent.parent
NAMES = ("ingest", "build", "train", "train_online", "evaluate", "report", "run")
DEPLOYED = ("build", "train", "train_online", "evaluate", "run")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:prefect")


@pytest.fixture(scope="module", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Prefect looks at PREFECT_HOME when it is imported: not the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_HOME", str(tmp_path_factory.mktemp("prefect")))
        patch.setenv("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
        patch.setenv("DO_NOT_TRACK", "1")
        yield


def module(name: str):
    return importlib.import_module(f"flows.{name}")


def flow(name: str):
    return getattr(module(name), name)


def deployments() -> dict[str, dict]:
    text = (ROOT / "prefect.yaml").read_text(encoding="utf-8")
    return {d["name"]: d for d in yaml.safe_load(text)["deployments"]}


@pytest.mark.parametrize("name", NAMES)
def test_a_flow_describes_every_parameter(name):
    """Prefect shows these texts where somebody fills in a run."""
    schema = flow(name).parameters.model_dump()
    for parameter, value in schema["properties"].items():
        assert value.get("description"), f"{name}: {parameter}"


@pytest.mark.parametrize("name", NAMES)
def test_a_flow_takes_what_the_command_line_gives_it(name):
    """`execute` passes one set of parameters to a flow, or to its step with --direct."""
    direct = stages.run_stages if name == "run" else getattr(steps, name)
    wanted = set(inspect.signature(direct).parameters) - {"call"}
    wanted |= {"seeds"} if name == "train_online" else set()  # a step for each of them
    assert set(flow(name).parameters.properties) == wanted
    assert name.replace("_", "-") in arguments.COMMANDS


def test_the_flow_of_a_sweep_describes_and_takes_what_the_command_gives_it():
    """It is run by `hindcast train`, and has no command of its own."""
    from flows.sweep_runs import run_sweep

    properties = flow("sweep").parameters.model_dump()["properties"]
    assert all(value.get("description") for value in properties.values())
    assert set(properties) == set(inspect.signature(run_sweep).parameters) - {"call"}


@pytest.mark.parametrize("name", NAMES)
def test_a_flow_keeps_its_result_as_json_and_is_not_retried(name):
    found = flow(name)
    assert found.name == name
    assert found.persist_result is True
    assert found.result_serializer == "json"
    assert found.retries == 0


def test_a_flow_is_one_task_with_its_parameters(monkeypatch):
    """The body of a flow is the call of one step."""
    calls = []
    monkeypatch.setattr(
        module("build"), "call_as_task", lambda step, **given: calls.append((step, given)) or {}
    )
    assert flow("build").fn("r", Path("o"), ("seed=2",), 3) == {}
    given = {
        "recipe": "r", "out": Path("o"), "overrides": ("seed=2",), "workers": 3, "append": False,
    }  # fmt: skip
    assert calls == [(steps.build, given)]


def validate(name: str, parameters: dict) -> None:
    inspect.signature(flow(name).fn).bind(**parameters)
    flow(name).validate_parameters(parameters)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("build", {"recipe": "", "out": "o"}),
        ("build", {"recipe": "r", "out": "o", "workers": 0}),
        ("build", {"recipe": "r", "out": "o", "overrides": ["no value"]}),
        ("train", {"dataset": "d", "agent": "cql", "out": "o", "steps": 0}),
        ("train", {"dataset": "d", "agent": "cql", "out": "o", "seed": -1}),
        ("run", {"recipe": "r"}),
    ],
)
def test_wrong_parameters_are_refused_before_a_run(name, wrong):
    from prefect.exceptions import ParameterTypeError

    with pytest.raises((ParameterTypeError, TypeError)):
        validate(name, wrong)


def test_urls_survive_the_parameters_of_a_flow():
    """A URL stays text: as a Path it would lose a slash, and JSON does not know it otherwise."""
    from flows.engine import as_text
    from pipeline.storage.location import location

    url = location("memory://bucket/x")
    given = {"evaluations": (url, Path("e")), "out": url}
    as_json = {key: as_text(value) for key, value in given.items()}
    assert as_json == {"evaluations": ("memory://bucket/x", "e"), "out": "memory://bucket/x"}
    for parameters in (given, as_json):
        checked = flow("report").validate_parameters(parameters)
        assert checked["out"] == "memory://bucket/x"
        assert checked["evaluations"] == ("memory://bucket/x", "e")


@pytest.mark.parametrize("name", NAMES)
def test_no_flow_takes_a_path_apart(name):
    hints = [p.annotation for p in inspect.signature(flow(name).fn).parameters.values()]
    assert not any("pathlib" in str(hint) for hint in hints)


def test_what_is_deployed_is_what_the_readme_names():
    assert tuple(deployments()) == DEPLOYED


@pytest.mark.parametrize("name", DEPLOYED)
def test_a_deployment_has_valid_parameters_and_no_schedule(name):
    found = deployments()[name]
    assert found["entrypoint"] == f"flows/{name}.py:{name}"
    assert (ROOT / f"flows/{name}.py").is_file()
    assert found["description"]
    assert not found["schedules"]
    assert found["work_pool"]["name"] == "hindcast"
    assert set(found["parameters"]) <= set(flow(name).parameters.properties)
    assert flow(name).validate_parameters(found["parameters"])
