"""Runners: how items are handed out, what is refused, and a build whose worker is killed."""

import importlib.util
import os
import signal
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from hindcast.flows import cli, commands, engine, units
from hindcast.flows.commands import build, directly, train_online
from hindcast.flows.progress import Lines, showing
from hindcast.flows.runners import dask, runner, workers
from hindcast.flows.runners.runner import Runner
from hindcast.flows.runs import sweep
from hindcast.pipeline.errors import HindcastError, InputError, StorageError
from tests.conftest import TINY
from tests.pipeline.dataset.building.test_build import digest

SET = [word for override in TINY for word in ("--set", override)]
BUILD = ["build", "binpack-synthetic-v1", *SET]

# Set by Prefect and Dask.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


class Future:
    """A future of Prefect that ends when the test says so."""

    def __init__(self, number, unit, parameters):
        self.task_run_id, self.unit, self.parameters = number, unit, parameters

    def add_done_callback(self, told):
        self.told = told

    def end(self):
        self.told(self)

    def result(self):
        return self.unit(**self.parameters)


class Pool:
    """A pool of so many threads that ends one unit, the last one, whenever it is looked at."""

    def __init__(self, threads):
        self.free, self.futures, self.sizes, self.most = threads, [], [], 0

    def submit(self, task, parameters):
        self.futures.append(Future(len(self.sizes), task.fn, parameters))
        self.sizes.append(len(parameters["items"]))
        self.most = max(self.most, len(self.futures))
        return self.futures[-1]

    def threads(self):
        if self.futures:
            self.futures.pop().end()
        return self.free

    def runner(self):
        return Runner("the pool", self.submit, self.threads)


@pytest.fixture(autouse=True)
def _quickly(monkeypatch):
    monkeypatch.setattr(runner, "_POLL_S", 0.01)


def at_most_four(items, log):
    """Do four items, as if they took long enough."""
    log += items[:4]
    return {"done": len(items[:4])}


def test_what_a_unit_has_not_done_is_handed_out_again():
    """Every item is done once, with no more units at a time than there are threads."""
    pool, log = Pool(3), []
    found = list(pool.runner().map_units(at_most_four, range(40), log=log))
    assert sorted(log) == list(range(40))
    assert sorted(item for done, _ in found for item in done) == list(range(40))
    assert all(result == {"done": len(done)} for done, result in found)
    assert pool.most == 3
    assert pool.sizes[0] == 14
    assert len(pool.sizes) < 40


def test_workers_that_join_get_units_and_a_pool_without_workers_is_waited_for():
    pool, log, lines = Pool(0), [], []
    with showing(Lines(lines.append)):
        units = pool.runner().map_units(at_most_four, range(20), log=log)
        next(units)
        pool.free = 4
        list(units)
    assert sorted(log) == list(range(20))
    assert pool.most == 4
    assert lines == ["the pool: there is no worker; waiting for one"]


def refusing(items):
    raise StorageError("the disk is full")


def dying(items):
    raise RuntimeError("worker lost")


def test_errors_of_a_unit_are_those_of_the_command():
    """An error of Hindcast is raised as it is, any other in one line that says what to do."""
    with pytest.raises(StorageError, match="the disk is full"):
        list(Pool(2).runner().map_units(refusing, [1]))
    with pytest.raises(HindcastError, match=r"pool: the work was.*RuntimeError: worker lost"):
        list(Pool(2).runner().map_units(dying, [1]))


def refusal(capsys, *argv):
    assert cli.main(list(argv)) == 2
    (line,) = [x for x in capsys.readouterr().err.splitlines() if x != "starting Prefect"]
    return line


def test_a_worker_finds_the_command_of_a_request_by_its_module(tmp_path):
    """The name of the module has an underscore where that of the command has a hyphen."""
    request = train_online.Request("no-such-recipe", str(tmp_path / "out"))
    assert commands.name_of(request) == "train_online"
    with pytest.raises(InputError, match="no-such-recipe"):
        units.command(commands.name_of(request), dict(vars(request)))


def test_options_that_do_not_go_together(capsys, tmp_path, monkeypatch):
    out = ["--out", str(tmp_path / "d")]
    line = refusal(capsys, *BUILD, *out, "--runner", "dask", "--direct")
    assert "runs through Prefect, which --direct leaves out" in line
    line = refusal(capsys, *BUILD, *out, "--address", "tcp://127.0.0.1:1")
    assert "the runner is local, which has none; give --runner dask or --runner ray too" in line
    line = refusal(capsys, *BUILD, *out, "--runner", "rey")
    assert "invalid choice: 'rey'" in line
    train = ["train", str(tmp_path), "--agent", "behaviour_cloning", *out]
    line = refusal(capsys, *train, "--runner", "dask")
    assert "--runner is for several trainings: --sweep or --seeds" in line
    line = refusal(capsys, *train, "--seeds", "0", "--address", "tcp://127.0.0.1:1")
    assert "the runner is local, which has none; give --runner dask or --runner ray too" in line
    find = importlib.util.find_spec
    absent = {"prefect_dask", "prefect_ray"}
    monkeypatch.setattr("importlib.util.find_spec", lambda n: None if n in absent else find(n))
    for name in ("dask", "ray"):
        line = refusal(capsys, *BUILD, *out, "--runner", name)
        assert f"--runner {name} needs prefect-{name}, which is not installed; " in line
        assert f"'hindcast-scheduling[{name}]'" in line
    assert not (tmp_path / "d").exists()


@pytest.fixture(scope="module")
def _prefect(tmp_path_factory):
    """Start Prefect once for these tests, with its own home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PREFECT_API_URL", raising=False)
        patch.setenv("PREFECT_HOME", str(tmp_path_factory.mktemp("prefect")))
        with engine.prefect_engine():
            yield


@pytest.mark.nightly
@pytest.mark.usefixtures("_prefect")
def test_a_build_with_dask_survives_a_killed_worker(tiny_dataset, tmp_path, monkeypatch):
    """A worker dies after its first part, before anybody knows of it; the part is left as it is."""
    killed = tmp_path / "killed"

    def dying(items, out, plan):
        from hindcast.flows.units import record_parts

        try:
            with killed.open("x") as report:
                record_parts(items[:1], out, plan)
                part = Path(out, "data", f"part-{items[0]:05d}.parquet")
                report.write(f"{part} {part.stat().st_ino} {os.getpid()}")
        except FileExistsError:
            return record_parts(items, out, plan)
        return os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(units, "record_parts", dying)
    out = tmp_path / "d"
    request = build.Request("binpack-synthetic-v1", str(out), TINY, runner="dask")
    assert engine.run_flow(request)["dataset"] == str(out)
    assert digest(out) == digest(tiny_dataset)
    part, node, process = killed.read_text().split()
    assert Path(part).stat().st_ino == int(node)
    assert not psutil.pid_exists(int(process))
    left = psutil.Process().children(recursive=True)
    assert not [child for child in left if "spawn" in " ".join(child.cmdline())]


@pytest.fixture(scope="module")
def address(_prefect):
    """Return the address of a scheduler with a worker of two threads."""
    from distributed import LocalCluster

    settings = {"dashboard_address": "127.0.0.1:0", "processes": False, "protocol": "tcp"}
    with LocalCluster(n_workers=1, threads_per_worker=2, **settings) as cluster:
        yield cluster.scheduler_address


@pytest.mark.slow
def test_a_build_with_an_existing_scheduler(address, tiny_dataset, tmp_path, monkeypatch):
    """Its workers are asked first whether they can do the work."""
    out = tmp_path / "d"
    request = build.Request("binpack-synthetic-v1", str(out), TINY, runner="dask", address=address)
    host, versions = workers.worker_facts()
    for facts, said in (
        ((host, {**versions, "numpy": "0.9"}), "other versions .numpy 0.9, here"),
        (("far", versions), "workers on far, which cannot reach Prefect's server"),
    ):
        monkeypatch.setattr(dask, "worker_facts", lambda facts=facts: facts)
        with pytest.raises(InputError, match=said):
            engine.run_flow(request)
    monkeypatch.setattr(dask, "worker_facts", lambda: 1 / 0)
    with pytest.raises(InputError, match=r"cannot run Hindcast \(ZeroDivisionError"):
        engine.run_flow(request)
    assert not out.exists()
    monkeypatch.undo()
    engine.run_flow(request)
    assert digest(out) == digest(tiny_dataset)


class Answers:
    """A client of Dask whose workers give these answers."""

    def __init__(self, *answers: object) -> None:
        self.answers = answers

    def run(self, _function, *, on_error):
        assert on_error == "return"
        return dict(enumerate(self.answers))


def test_a_worker_that_ends_while_it_is_asked_does_not_count():
    facts = workers.worker_facts()
    assert dask._facts(Answers(ConnectionResetError(), facts)) == [facts]
    with pytest.raises(ModuleNotFoundError):
        dask._facts(Answers(facts, ModuleNotFoundError("hindcast")))


def weights(folder):
    return {p.parent.name: p.read_bytes() for p in folder.glob("runs/*/weights.safetensors")}


@pytest.mark.nightly
def test_a_sweep_with_dask_has_the_same_weights(address, tiny_dataset, tmp_path, monkeypatch):
    """A training that diverges gets its row in the table, as it does without a runner."""
    settings = {"learning_rate": [0.01, 1e30], "network.hidden": [[4]]}
    table = {"agents": ["behaviour_cloning"], "steps": 3, "seeds": [0, 1], "settings": settings}
    monkeypatch.chdir(tmp_path)
    here = sweep.Request(str(tiny_dataset), table, "here")
    there = replace(here, out="there", runner="dask", address=address)
    alone, results = directly(here), engine.run_flow(there)
    assert weights(Path("there")) == weights(Path("here"))
    assert len(weights(Path("there"))) == len(results["failed"]) == 2
    assert results["failed"] == {
        name: said.replace("here", str(tmp_path / "there"))
        for name, said in alone["failed"].items()
    }


@pytest.mark.nightly
def test_seeds_of_an_online_agent_with_dask_have_the_same_weights(address, tmp_path, monkeypatch):
    overrides = (
        *TINY, "online.agent=reinforce", "online.iterations=1",
        "online.settings={sampling={trajectories=3, stay=2}, network={hidden=[4]}}",
    )  # fmt: skip
    monkeypatch.chdir(tmp_path)
    here = train_online.Request("binpack-synthetic-v1", "here", overrides, seeds=(0, 1))
    there = replace(here, out="there", runner="dask", address=address)
    alone, results = directly(here), engine.run_flow(there)
    assert weights(Path("there")) == weights(Path("here"))
    assert [run["seed"] for run in results["runs"]] == [0, 1]
    assert len(alone["runs"]) == len(weights(Path("here"))) == 2


@pytest.mark.nightly
@pytest.mark.usefixtures("_prefect")
@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("nowhere", "is not the address of a Dask scheduler .missing port number"),
        ("http://127.0.0.1:1", "is not the address of a Dask scheduler .unknown address scheme"),
        ("tcp://127.0.0.1:1", "does not answer .Timed out trying to connect"),
    ],
)
def test_an_address_without_a_scheduler(tmp_path, monkeypatch, address, said):
    monkeypatch.setattr(dask, "_ANSWER_S", 0.2)
    request = build.Request(
        "binpack-synthetic-v1", str(tmp_path / "d"), TINY, runner="dask", address=address
    )
    with pytest.raises(InputError, match=said):
        engine.run_flow(request)
    assert not (tmp_path / "d").exists()
