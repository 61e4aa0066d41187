"""Tests of flows without a server: their arguments, parameters and deployments."""

import dataclasses
import importlib
import inspect
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from hindcast.flows import commands
from hindcast.flows.commands import build, train_online
from hindcast.pipeline.errors import InputError

ROOT = Path(__file__).resolve().parent.parent.parent
PARAMETERS = json.loads(Path(__file__).with_name("parameters.json").read_text(encoding="utf-8"))
NAMES = (
    "ingest", "build", "verify", "train", "train_online", "evaluate", "ope", "report", "run",
    "study", "nightly", "sweep", "reproduce",
)  # fmt: skip
DEPLOYED = (
    "ingest", "build", "verify", "train", "train_online", "evaluate", "ope", "report", "study",
    "run", "nightly", "reproduce",
)  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:prefect")


@pytest.fixture(scope="module", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Set PREFECT_HOME before Prefect is imported, so that the user's folder is not used."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_HOME", str(tmp_path_factory.mktemp("prefect")))
        patch.setenv("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
        patch.setenv("DO_NOT_TRACK", "1")
        yield


def flow(name: str):
    return getattr(importlib.import_module("hindcast.flows.deployments"), name)


def request_of(name: str) -> type:
    folder = "runs" if name == "sweep" else "commands"
    return importlib.import_module(f"hindcast.flows.{folder}.{name}").Request


def deployments() -> dict[str, dict]:
    text = (ROOT / "prefect.yaml").read_text(encoding="utf-8")
    return {d["name"]: d for d in yaml.safe_load(text)["deployments"]}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_parameters_of_a_flow_are_what_its_users_know(name):
    """Names, types, limits, defaults and form texts stay as recorded. New ones may be added."""
    found, known = flow(name), PARAMETERS[name]
    schema = found.parameters.model_dump()
    assert {key: schema["properties"][key] for key in known["properties"]} == known["properties"]
    assert schema["required"] == known["required"]
    named = found.flow_run_name
    assert getattr(named, "__name__", named) == known["flow_run_name"]
    assert found.description.partition("\n")[0] == known["description"]
    assert set(PARAMETERS) == set(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_parameters_of_a_flow_are_the_fields_of_its_request(name):
    """A flow and its command with --direct have the same parameters."""
    request = request_of(name)
    signature = inspect.signature(flow(name).fn)
    assert list(signature.parameters) == [field.name for field in dataclasses.fields(request)]
    assert [p.annotation for p in signature.parameters.values()] == [
        field.type for field in dataclasses.fields(request)
    ]
    assert name == "sweep" or name.replace("_", "-") in commands.SUMMARIES


def test_a_new_field_of_a_request_is_an_option_and_a_parameter_of_the_flow(monkeypatch):
    """A new field needs a change of the dataclass only: no parser and no deployment changes."""
    from hindcast.flows import deployments as module
    from hindcast.flows import parser

    @dataclasses.dataclass(frozen=True)
    class Request(build.Request):
        shards: parser.Count = parser.option("files to write", default=3)  # noqa: RUF009

    command = dataclasses.replace(build.COMMANDS["build"], request=Request)
    monkeypatch.setattr(build, "COMMANDS", {"build": command})
    argv = ["build", "r", "--out", "o", "--shards", "5"]
    arguments = parser.parse(argv)
    assert arguments.read(arguments) == Request("r", "o", shards=5)
    assert parser.parse(argv[:4]).read(arguments).shards == 5
    with pytest.raises(InputError, match="at least 1"):
        parser.parse([*argv[:-1], "0"])

    taken = []

    def body(request):
        """Build."""
        taken.append(request)
        return {}

    flat = module._takes(Request)(body)
    schema = prefect_schema(flat)
    assert schema["properties"]["shards"] == {
        "default": 3, "description": "Files to write.", "minimum": 1, "position": 9,
        "title": "shards", "type": "integer",
    }  # fmt: skip
    flat("r", "o", shards=4)
    assert taken == [Request("r", "o", shards=4)]


def prefect_schema(function) -> dict:
    from prefect.utilities.callables import parameter_schema

    return parameter_schema(function).model_dump()


@pytest.mark.parametrize("name", NAMES)
def test_a_flow_keeps_its_result_as_json_and_is_not_retried(name):
    found = flow(name)
    assert found.name == name
    assert found.persist_result is True
    assert found.result_serializer == "json"
    assert found.retries == 0


def test_a_flow_is_one_task_with_its_request(monkeypatch):
    """The body of a flow is the call of one command."""
    calls = []
    module = importlib.import_module("hindcast.flows.deployments")
    monkeypatch.setattr(module, "call_as_task", lambda request: calls.append(request) or {})
    assert flow("build").fn("r", "o", ("seed=2",), 3) == {}
    assert flow("train_online").fn("r", "o", seed=4) == {}
    assert calls == [
        build.Request("r", "o", ("seed=2",), 3),
        train_online.Request("r", "o", seed=4),
    ]


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
    """URLs are passed as text: a Path would drop a slash, and cannot be written as JSON."""
    from hindcast.pipeline.storage.location import location

    url = location("memory://bucket/x")
    as_json = {"evaluations": ("memory://bucket/x", "e"), "out": "memory://bucket/x"}
    for parameters in ({"evaluations": (url, Path("e")), "out": url}, as_json):
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
    assert found["entrypoint"] == f"flows/deployments.py:{name}"
    assert (ROOT / "flows/deployments.py").is_file()
    assert found["description"]
    assert not found["schedules"]
    assert found["work_pool"]["name"] == "hindcast"
    assert set(found["parameters"]) <= set(flow(name).parameters.properties)
    assert flow(name).validate_parameters(found["parameters"])


def test_only_a_store_that_does_not_answer_is_worth_another_try(monkeypatch):
    """Every other error is raised at once; a store gets three more calls, then its error counts."""
    from hindcast.flows import tasks
    from hindcast.pipeline.errors import FolderBusy, RecipeError, StorageError, StoreUnavailable

    said, slept, errors = [], [], []

    class Logger:
        def warning(self, text, *values):
            said.append(text % values)

    def run():
        if errors:
            raise errors.pop(0)
        return {"done": True}

    monkeypatch.setattr(tasks, "get_run_logger", Logger)
    monkeypatch.setattr(tasks.time, "sleep", slept.append)
    for error in (RecipeError("r"), StorageError("s"), FolderBusy("f"), ValueError("v")):
        errors.append(error)
        with pytest.raises(type(error)):
            tasks.patiently(run)
    assert not slept

    errors += [StoreUnavailable(f"s3://b/{n}: not reached") for n in range(3)]
    assert tasks.patiently(run) == {"done": True}
    assert slept == [*tasks.RETRY_DELAYS_S] == [20, 60, 300]
    assert said[0] == "s3://b/0: not reached; trying again in 20 s"

    errors += [StoreUnavailable(f"s3://b/{n}: not reached") for n in range(4)]
    with pytest.raises(StoreUnavailable, match="s3://b/3"):
        tasks.patiently(run)


def test_trainings_have_the_tag_that_limits_them():
    """How many tasks of a tag run at a time is a setting of the server."""
    from hindcast.flows.tasks import RUN_NAMES, TAGS

    assert TAGS["train"] == TAGS["train_online"] == TAGS["stack"] == ("training",)
    assert set(TAGS) <= set(RUN_NAMES) <= {*NAMES, "stack"}  # a stack is a task of a sweep alone


def test_automations_crash_runs_that_are_gone_and_spare_those_that_are_not():
    """Every state that a run can go on to ends the wait, so that no run at work is crashed."""
    from prefect.client.schemas.objects import TERMINAL_STATES
    from prefect.events.schemas.automations import AutomationCore
    from prefect.settings import get_current_settings

    text = (ROOT / "automations.yaml").read_text(encoding="utf-8")
    pending, running = map(AutomationCore.model_validate, yaml.safe_load(text)["automations"])
    ended = {f"prefect.flow-run.{state.value.title()}" for state in TERMINAL_STATES}
    assert pending.trigger.expect == ended | {"prefect.flow-run.Running"}
    assert running.trigger.expect == ended | {"prefect.flow-run.heartbeat"}
    heartbeat_s = get_current_settings().flows.heartbeat_frequency
    assert running.trigger.within.total_seconds() > 3 * heartbeat_s
    for automation in (pending, running):
        assert automation.trigger.for_each == {"prefect.resource.id"}
        (action,) = automation.actions
        assert (action.type, action.state.value) == ("change-flow-run-state", "CRASHED")
