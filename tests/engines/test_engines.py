"""Commands on real clusters of four worker processes: the same bytes as in one process.

The tests of Dask belong to `make test`, those of Ray to `make test-engines`.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import boto3
import psutil
import pytest

from hindcast.flows import engine, runners, units
from hindcast.flows.commands import build, directly, evaluate, run, study, verify
from hindcast.flows.runs import sweep
from hindcast.pipeline.errors import HindcastError, InputError, VerificationFailed
from hindcast.pipeline.storage.files import sha256_file
from tests.attacks.processes import content
from tests.conftest import TINY
from tests.engines.clusters import ENGINES, ROOT
from tests.pipeline.dataset.building.test_build import digest
from tests.pipeline.storage.test_remote import BUCKET, Server, free_port, surroundings
from tests.representatives import nightly_but

RECIPE = "binpack-synthetic-v1"
AGENTS = (
    'train.agents=["behaviour_cloning"]', "train.seeds=[0,1]", "train.steps=4",
    'evaluate.policies=["random","tetris"]', 'evaluate.references=["tetris"]',
)  # fmt: skip
POLICIES = ("random", "tetris", "rollout")

pytestmark = [
    pytest.mark.slow,
    # Set by Prefect, Dask and Ray.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:ray"),
]


@pytest.fixture(scope="module")
def _prefect(tmp_path_factory):
    """Start Prefect once for these tests; commands have the environment of workers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PREFECT_API_URL", raising=False)
        patch.setenv("PREFECT_HOME", str(tmp_path_factory.mktemp("prefect")))
        patch.setenv("RAY_AUTH_MODE", "disabled")
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            patch.setenv(name, "1")  # these enter provenance.json
        with engine.prefect_engine():
            yield


@pytest.fixture(
    scope="module", params=[*nightly_but({}, ["dask"]), pytest.param("ray", marks=pytest.mark.ray)]
)
def cluster(request, _prefect):
    """Return the name and a cluster of each engine; its workers find the S3 server."""
    pytest.importorskip(f"prefect_{request.param}")
    server = Server(free_port())
    with surroundings(server.port):
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        started = ENGINES[request.param]()
        try:
            yield request.param, started
        finally:
            started.close()
            server.stop()


@pytest.fixture
def there(cluster):
    """Return a function that gives a request the address of the cluster."""
    return lambda request: replace(request, runner=cluster[0], address=cluster[1].address)


def both(place, monkeypatch, here, there):
    """Run a request in folders `here` and `there`, and compare what was written."""
    for name, request, call in (("here", here, directly), ("there", there, engine.run_flow)):
        (place / name).mkdir()
        monkeypatch.chdir(place / name)
        call(request)
    assert content(place / "there") == content(place / "here")


def test_a_whole_run_has_the_same_bytes(there, tmp_path, monkeypatch):
    """Every file is the same: parts, weights, scores, provenance, report and ledger."""
    request = run.Request(RECIPE, "run", (*TINY, *AGENTS), command="hindcast run")
    both(tmp_path, monkeypatch, request, there(request))
    assert len(list(tmp_path.glob("there/run/agents/*/best/weights.safetensors"))) == 2


def test_a_sweep_of_eight_trainings_has_the_same_bytes(there, tiny_dataset, tmp_path, monkeypatch):
    table = {"agents": ["behaviour_cloning"], "steps": 2, "seeds": list(range(8))}
    request = sweep.Request(str(tiny_dataset), table, "sweep")
    both(tmp_path, monkeypatch, request, there(request))
    assert len(list(tmp_path.glob("there/sweep/runs/*/weights.safetensors"))) == 8


def test_a_study_trains_on_the_cluster(there, tmp_path, monkeypatch):
    """Its trainings are tasks; the numbers are those of a study in one process."""
    monkeypatch.chdir(tmp_path)
    values = {"agents": ("behaviour_cloning",), "vary": "windows", "values": ("2",), "steps": 2}
    request = study.Request(RECIPE, "here", overrides=TINY, **values)
    directly(request)
    engine.run_flow(there(replace(request, out="there")))
    tables = [Path(name, "study.parquet").read_bytes() for name in ("here", "there")]
    assert tables[0] == tables[1]


def test_evaluations_are_resumed_and_have_the_same_scores(there, tmp_path, monkeypatch):
    """Runs whose scores are there are not played again; the scores are those of one process."""
    monkeypatch.chdir(tmp_path)
    here = evaluate.Request(RECIPE, "here", POLICIES, overrides=TINY)
    directly(here)
    given = there(replace(here, out="there"))
    with monkeypatch.context() as patch:
        patch.setattr(units, "play_runs", stopping)
        with pytest.raises(HindcastError, match=r"the work was interrupted \(RuntimeError: stop"):
            engine.run_flow(given)
    before = {p.name: p.stat().st_ino for p in Path("there/.evaluating").glob("*-*.parquet")}
    assert before
    with monkeypatch.context() as patch:
        patch.setattr(units, "play_runs", refusing(sorted(before)))
        engine.run_flow(given)
    assert content(tmp_path / "there") == content(tmp_path / "here")


def stopping(items, evaluation):
    from hindcast.flows.units import play_runs

    play_runs(items[:1], evaluation)
    raise RuntimeError("stop")


def refusing(names):
    """Return a unit that fails if it has to write a file of these names."""

    def unit(items, evaluation):
        from hindcast.flows import units
        from hindcast.pipeline.evaluation import evaluate

        job, policies = units._evaluation(evaluation)
        for number, start in items:
            assert evaluate._path(job, policies[number], start).name not in names
        return units.play_runs(items, evaluation)

    return unit


def test_another_recipe_on_the_workers_is_refused(there, tmp_path):
    """A recipe that was changed meanwhile does not give scores of two recipes."""
    request = there(evaluate.Request(RECIPE, str(tmp_path / "e"), ("tetris",), overrides=TINY))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "hindcast.pipeline.evaluation.evaluate.claim_of", lambda _recipe, _policies: "other"
        )
        with pytest.raises(InputError, match="a policy of it is another one on"):
            engine.run_flow(request)


def test_verify_gives_the_same_checks_and_the_same_fault(there, tiny_dataset, tmp_path):
    """The fault is the one of the first part that differs, whichever is found first."""
    request = verify.Request(str(tiny_dataset))
    assert engine.run_flow(there(request)) == directly(request)
    out = tmp_path / "d"
    damaged(tiny_dataset, out)
    request = verify.Request(str(out))
    with pytest.raises(VerificationFailed) as alone:
        directly(request)
    with pytest.raises(VerificationFailed) as found:
        engine.run_flow(there(request))
    assert "part-00001" in str(alone.value)
    assert str(found.value) == str(alone.value)


def damaged(dataset, out):
    """Copy a dataset with a changed reward in two of its parts; its manifest is as it should be."""
    import shutil

    import pyarrow as pa
    import pyarrow.parquet as pq

    from hindcast.pipeline.dataset import manifest as mf
    from hindcast.pipeline.storage.files import write_json

    shutil.copytree(dataset, out)
    manifest = mf.read_manifest(out)
    parts = list(manifest.parts)
    for number in (1, 2):
        path = out / parts[number].path
        table = pq.read_table(path)
        rewards = table["reward"].to_pylist()
        rewards[3] = -123.0
        at = table.schema.get_field_index("reward")
        table = table.set_column(at, table.schema.field(at), pa.array(rewards, pa.float64()))
        pq.write_table(table, path, compression="zstd")
        parts[number] = replace(parts[number], bytes=path.stat().st_size, sha256=sha256_file(path))
    write_json(out / mf.NAME, mf.to_json(replace(manifest, parts=tuple(parts))))


def test_parts_in_a_store(there, tiny_dataset):
    """Workers write parts to a bucket, and read them there for the verification."""
    out = f"s3://{BUCKET}/{os.getpid()}/demo"
    engine.run_flow(there(build.Request(RECIPE, out, TINY)))
    client, prefix = boto3.client("s3"), out.removeprefix(f"s3://{BUCKET}/")
    stored = client.list_objects_v2(Bucket=BUCKET, Prefix=f"{prefix}/")["Contents"]
    names = {each["Key"].removeprefix(f"{prefix}/") for each in stored}
    local = {p.relative_to(tiny_dataset).as_posix() for p in tiny_dataset.rglob("*") if p.is_file()}
    assert names == local
    for name in sorted(names):
        body = client.get_object(Bucket=BUCKET, Key=f"{prefix}/{name}")["Body"].read()
        assert body == (tiny_dataset / name).read_bytes(), name
    checks = engine.run_flow(there(verify.Request(out)))["checks"]
    assert checks == directly(verify.Request(str(tiny_dataset)))["checks"]
    scores = f"s3://{BUCKET}/{os.getpid()}/scores"
    result = engine.run_flow(there(evaluate.Request(RECIPE, scores, ("tetris",), overrides=TINY)))
    assert result["scores"] > 0


def test_a_worker_that_is_killed_does_not_count(
    there, cluster, tiny_dataset, tmp_path, monkeypatch
):
    """The worker dies after its first part, before anybody knows of it; the part stays."""
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
    engine.run_flow(there(build.Request(RECIPE, str(out), TINY)))
    assert digest(out) == digest(tiny_dataset)
    part, node, process = killed.read_text().split()
    assert Path(part).stat().st_ino == int(node)
    assert not psutil.pid_exists(int(process))


def test_versions_of_the_workers_are_compared(there, cluster, tmp_path, monkeypatch):
    request = there(build.Request(RECIPE, str(tmp_path / "d"), TINY))
    module = getattr(runners, cluster[0])
    host, versions = socket.gethostname(), {"numpy": "0.9"}
    monkeypatch.setattr(module, "worker_facts", lambda: (host, versions))
    with pytest.raises(InputError, match=r"other versions .*numpy 0.9, here"):
        engine.run_flow(request)
    assert not (tmp_path / "d").exists()


@pytest.mark.ray
def test_a_build_with_ray_alone(tiny_dataset, tmp_path):
    """Ray starts with the command and ends with it.

    It listens on the loopback interface alone, prints nothing, and leaves neither processes nor
    files. Ray keeps its settings for the life of a process, so the command has its own one.
    """
    pytest.importorskip("prefect_ray")
    # Not below tmp_path: names of sockets are short.
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as scratch:
        own = {"HOME": str(tmp_path), "TMPDIR": scratch, "PREFECT_HOME": str(tmp_path / "prefect")}
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "PREFECT_"))}
        words = [word for override in TINY for word in ("--set", override)]
        begun = subprocess.Popen(
            [sys.executable, "-m", "hindcast.flows.cli", "build", RECIPE, *words,
             "--out", tmp_path / "d", "--runner", "ray", "--workers", "2"],
            env={**kept, **own, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        hosts, seen = set[str](), dict[int, psutil.Process]()
        while begun.poll() is None:
            with contextlib.suppress(psutil.NoSuchProcess):
                for process in psutil.Process(begun.pid).children(recursive=True):
                    seen[process.pid] = process
                    hosts |= listening(process)
            time.sleep(0.2)
        out, err = begun.communicate()
        assert begun.returncode == 0, err
        assert not list(Path(scratch).iterdir())
    assert out.startswith(str(tmp_path / "d"))
    # A slow machine has a line of progress, and one says that simulators are compiled.
    own_lines = ("starting Prefect", "warning:", f"build {RECIPE}", "compiling simulators ")
    assert not [line for line in err.splitlines() if not line.startswith(own_lines)]
    assert digest(tmp_path / "d") == digest(tiny_dataset)
    assert hosts
    assert hosts <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    assert not psutil.wait_procs(seen.values(), timeout=30)[1]
    assert not (tmp_path / ".ray").exists()


def listening(process):
    """Return the addresses on which a process listens."""
    with contextlib.suppress(psutil.AccessDenied, psutil.NoSuchProcess):
        found = process.net_connections("inet")
        return {each.laddr.ip for each in found if each.status == psutil.CONN_LISTEN}
    return set()


@pytest.mark.ray
@pytest.mark.usefixtures("_prefect")
@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("10.0.0.5:6379", "is not the address of a Ray cluster"),
        ("ray://127.0.0.1:99999", "is not the address of a Ray cluster"),
        ("ray://127.0.0.1:1", "does not answer .Connection refused"),
    ],
)
def test_an_address_without_a_cluster(tmp_path, address, said):
    request = build.Request(RECIPE, str(tmp_path / "d"), TINY, runner="ray", address=address)
    with pytest.raises(InputError, match=said):
        engine.run_flow(request)
    assert not (tmp_path / "d").exists()


@pytest.mark.ray
@pytest.mark.parametrize(("failures", "connected"), [(2, True), (3, False)])
def test_a_client_that_the_cluster_fails_to_start(monkeypatch, failures, connected):
    """Connecting is tried again, because a process of the cluster may end while it starts."""
    task_runners = pytest.importorskip("prefect_ray.task_runners")
    module, calls = runners.ray, []

    def init(*address, **_settings):
        calls.extend(address)  # Ray calls it without one where it is not connected
        if len(calls) <= failures:
            raise ConnectionAbortedError("Starting Ray client server failed")

    monkeypatch.setattr(task_runners.ray, "init", init)
    monkeypatch.setattr(task_runners.ray, "nodes", list)
    monkeypatch.setattr(module, "_check_address", lambda *_: None)
    monkeypatch.setattr(module, "check_workers", lambda *_: None)
    with contextlib.ExitStack() as stack:
        if connected:
            stack.enter_context(module.started("ray://127.0.0.1:10001", 1))
        else:
            with pytest.raises(InputError, match=r"cannot be used .Starting Ray"):
                stack.enter_context(module.started("ray://127.0.0.1:10001", 1))
    assert len(calls) == 3
