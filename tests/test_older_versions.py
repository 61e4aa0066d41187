"""Tests that files written by version 0.1.0 still open, verify and act.

tests/fixtures/v0.1.0/README.md says how the files were made; expected.json holds the numbers that
0.1.0 itself read from them. Floats are compared exactly.
"""

import json
import math
import shlex
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import hindcast.pipeline.dataset
from hindcast.flows.cli import main
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.manifest import versions
from hindcast.pipeline.errors import RecipeError
from hindcast.pipeline.recipes import loading
from hindcast.policies.registry import behaviours
from tests.conftest import TINY

pytestmark = pytest.mark.slow

FIXTURES = Path(__file__).resolve().parent / "fixtures" / "v0.1.0"
EXPECTED = json.loads((FIXTURES / "expected.json").read_text(encoding="utf-8"))
COMMANDS = (FIXTURES / "commands.txt").read_text(encoding="utf-8").splitlines()


def measure_dataset(folder: Path) -> dict:
    """Return the counts, digests and exactly rounded sums of everything in a dataset.

    `math.fsum` rounds once, so that the sums of minibatches do not depend on their order.
    """
    dataset = hindcast.pipeline.dataset.open(folder)
    episodes = list(dataset.iter_episodes())
    batches = list(dataset.batches(16, np.random.default_rng(0), images=True))
    shown = [batch.candidates[batch.mask] for batch in batches]
    following = [b.next_candidates[b.next_mask] for b in batches]
    images = [batch.image for batch in batches if batch.image is not None]
    values = [batch.value for batch in batches if batch.value is not None]
    return {
        "id": dataset.recipe.id,
        "digest": dataset.manifest.digest,
        "counts": dict(dataset.manifest.counts),
        "behaviours": dataset.episodes()["behaviour"].to_list(),
        "returns": dataset.episodes()["return"].to_list(),
        "choices": [" ".join(map(str, episode.choice)) for episode in episodes],
        "propensities": [total([episode.propensity]) for episode in episodes],
        "rewards": [total([episode.reward]) for episode in episodes],
        "terms": [total([episode.terms]) for episode in episodes],
        "times_s": [total([episode.time_s]) for episode in episodes],
        "probabilities": total([episode.probabilities for episode in episodes]),
        "batches": {
            "decisions": sum(map(len, batches)),
            "context": total([batch.context for batch in batches]),
            "candidates": total(shown),
            "next_candidates": total(following),
            "unknown": sum(int(np.isnan(values).sum()) for values in shown),
            "choice": sum(int(batch.choice.sum()) for batch in batches),
            "reward": total([batch.reward for batch in batches]),
            "terminated": sum(int(batch.terminated.sum()) for batch in batches),
            "image": sum(int(image.sum()) for image in images),
            "value": total(values),
        },
        "transitions": dataset.transitions().collect().height,
    }


def total(arrays: list[np.ndarray]) -> float:
    """Return the exactly rounded sum of all numbers in the arrays, leaving out NaN (unknown)."""
    numbers = (np.asarray(array, np.float64).ravel() for array in arrays)
    return math.fsum(x for array in numbers for x in array[~np.isnan(array)])


def evaluate(asked: dict, out: Path) -> dict:
    """Return the outcomes of policies on one window: policy -> metric -> value."""
    policies = [str(FIXTURES / p) if "/" in p else p for p in asked["policies"]]
    overrides = [text.replace("FIXTURES", str(FIXTURES)) for text in asked["set"]]
    sets = [word for text in overrides for word in ("--set", text)]
    arguments = ["--split", "test", "--direct", "--out", str(out)]
    assert main(["evaluate", asked["recipe"], *sets, "--policy", *policies, *arguments]) == 0
    outcomes: dict = {}
    for row in pl.read_parquet(out / "scores.parquet").rows(named=True):
        outcomes.setdefault(row["policy"], {})[row["metric"]] = row["value"]
    return outcomes


def overrides_of(out: str) -> list[str]:
    """Return the `--set` options of the first command of 0.1.0 that wrote to this folder."""
    words = next(w for w in map(shlex.split, COMMANDS) if w[-1] == out)
    return [word for i, w in enumerate(words) if w == "--set" for word in words[i : i + 2]]


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the content of every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(params=["0.1.0", "0.2.0"])
def hindcast_version(request, monkeypatch) -> str:
    """Make Hindcast report this version."""
    monkeypatch.setattr("hindcast.pipeline.dataset.manifest.version", lambda: request.param)
    return request.param


@pytest.mark.parametrize("name", EXPECTED["datasets"])
def test_a_dataset_opens_with_the_numbers_of_0_1_0(name):
    assert measure_dataset(FIXTURES / name) == EXPECTED["datasets"][name]


@pytest.mark.parametrize("name", EXPECTED["datasets"])
def test_a_dataset_verifies(name, capsys):
    """All decisions are replayed. Card and metadata are compared only between equal versions."""
    assert main(["verify", str(FIXTURES / name), "--json"]) == 0
    checks = {c["check"] for c in json.loads(capsys.readouterr().out)["checks"]}
    simulated = set() if name.endswith("-recorded") else {"behaviours", "returns"}
    assert {"manifest", "files", "workload", "episodes", "decisions", "documents"} <= checks
    assert simulated <= checks


@pytest.mark.parametrize("asked", EXPECTED["acting"], ids=lambda a: a["name"])
def test_a_checkpoint_acts_as_it_did_in_0_1_0(asked, tmp_path):
    """`FOLDER@rollout` is left out: since 0.2.0 it has the rules among its members on binpack."""
    policies = [p for p in asked["policies"] if not p.endswith("@rollout")]
    expected = {p: o for p, o in asked["outcomes"].items() if "@rollout" not in p}
    assert evaluate({**asked, "policies": policies}, tmp_path / "e") == expected


def test_every_checkpoint_is_asked_to_act():
    asked = {p.partition("@")[0] for group in EXPECTED["acting"] for p in group["policies"]}
    found = {str(p.parent.relative_to(FIXTURES)) for p in FIXTURES.rglob("checkpoint.json")}
    inside = {name for name in found if "/policies/" in name}
    assert inside
    assert found - inside <= asked


def test_everything_is_listed_as_what_it_is(capsys):
    assert main(["list", str(FIXTURES), "--json"]) == 0
    entries = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert not [e for e in entries if e.get("damage")]
    assert dict(Counter(e["kind"] for e in entries)) == EXPECTED["listed"]


def test_a_dataset_can_be_appended_to(tmp_path, hindcast_version, monkeypatch):
    """The existing parts keep their bytes.

    The verification is that of the true version, since 0.1.0 had other descriptions of features.
    """
    out = tmp_path / "thermal"
    shutil.copytree(FIXTURES / "datasets" / "thermal", out)
    before = files_of(out / "data")
    command = ["build", "thermal-default-v1", *overrides_of("datasets/thermal")]
    assert main([*command, "--append", "--direct", "--out", str(out)]) == 0
    assert before.items() <= files_of(out / "data").items()
    monkeypatch.undo()
    assert main(["verify", str(out)]) == 0
    assert hindcast.pipeline.dataset.open(out).episodes().height == 4


def test_an_interrupted_build_is_finished_by_the_same_versions_or_refused(
    tmp_path, capsys, hindcast_version
):
    """Other versions might write other bytes, so they explain what to do and change nothing."""
    out = tmp_path / "thermal"
    shutil.copytree(FIXTURES / "interrupted", out)
    before = files_of(out)
    sets = overrides_of("interrupted")
    code = main(["build", "thermal-default-v1", *sets, "--direct", "--out", str(out)])
    said = capsys.readouterr().err
    written = json.loads(before[".building/plan.json"])["versions"]
    if written == versions():
        assert code == 0
        assert main(["verify", str(out)]) == 0
        part = "data/part-00000.parquet"
        assert files_of(out)[part] == before[part]
        assert hindcast.pipeline.dataset.open(out).episodes().height == 4
    else:
        assert code == 2
        assert "interrupted build of another recipe or by other package versions" in said
        assert files_of(out) == before


def test_an_interrupted_run_goes_on(tmp_path):
    """Stages that 0.1.0 finished are not run again; only the page is made."""
    out = tmp_path / "run"
    shutil.copytree(FIXTURES / "run", out)
    before = files_of(out)
    sets = overrides_of("run")
    assert main(["run", "binpack-synthetic-v1", *sets, "--direct", "--out", str(out)]) == 0
    after = files_of(out)
    stages = json.loads(after["run.json"])["stages"]
    done = json.loads(before["run.json"])["stages"]
    assert {name: stages[name] for name in done} == done
    assert set(stages) - set(done) == {"report"}
    assert before.items() - {("run.json", before["run.json"])} <= after.items()
    assert {"report.html", "results.csv", "summary.md"} <= set(after)


def test_estimates_are_reported(tmp_path):
    assert main(["report", str(FIXTURES / "ope"), "--direct", "--out", str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "longest_spread" in page
    assert "tempered" in page


def test_training_starts_from_a_checkpoint(tmp_path):
    sets = overrides_of("trainings/online")
    start = ["--from", str(FIXTURES / "trainings" / "online" / "best"), "--device", "cpu"]
    rest = ["--iterations", "1", "--direct", "--out", str(tmp_path / "t")]
    assert main(["train-online", "slots-deeprm-natural", *sets, *start, *rest]) == 0
    description = json.loads((tmp_path / "t" / "checkpoint.json").read_text(encoding="utf-8"))
    assert description["training"]["steps"] == 1


def test_curves_of_trainings_open():
    for name, rows in EXPECTED["curves"].items():
        curves = pl.read_parquet(FIXTURES / "trainings" / name / "metrics.parquet")
        assert curves.height == rows
        assert {"step", "metric", "value"} <= set(curves.columns)


def test_a_dataset_that_names_a_trace_that_it_never_read_still_opens(monkeypatch, tmp_path):
    """Before 0.2.0, --trace was accepted with a recipe that draws its jobs."""
    with monkeypatch.context() as before:
        before.setattr(loading, "_check_path", lambda _recipe, _where: None)
        given = (*TINY, 'split.train="0..1"', 'split.validation="2..2"', 'trace.path="a.swf"')
        recipe = loading.load_recipe("binpack-synthetic-v1", given)
        build(recipe, behaviours(recipe), tmp_path / "d")
    assert hindcast.pipeline.dataset.open(tmp_path / "d").recipe.trace.path == "a.swf"
    assert loading.load_recipe(tmp_path / "d").digest == recipe.digest
    assert main(["verify", str(tmp_path / "d")]) == 0
    with pytest.raises(RecipeError, match="which reads no file"):
        loading.load_recipe(tmp_path / "d", ['trace.path="b.swf"'])
