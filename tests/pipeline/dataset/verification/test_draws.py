"""Tests that verification draws again: choices, parameters, probabilities and the workload.

Each damage is tried as it is, and sealed: with every size, digest and document recomputed from the
changed files, as a hostile person can do.
"""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hindcast.flows.cli import main
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.verification.verify import VerifyResult, verify
from hindcast.pipeline.errors import DatasetError, InputError, VerificationFailed
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.simulation.seeds import generator
from hindcast.policies.registry import behaviours, recorded_behaviours
from tests.attacks.damages import seal
from tests.conftest import TINY

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures" / "v0.1.0" / "datasets"
PART = "data/part-00000.parquet"
LINEAR = '{policy="random_linear", epsilon=0.1, episodes=2}'
SETTINGS = (
    *TINY,
    'split.train="0..1"',
    'split.validation="2..3"',
    f'behaviours=[{LINEAR}, {{policy="random"}}, {{policy="tetris", temperature=0.001}}]',
)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory) -> Path:
    """Return a dataset whose behaviours draw parameters and choices. Tests copy it."""
    recipe = load_recipe("binpack-synthetic-v1", SETTINGS)
    out = tmp_path_factory.mktemp("drawn") / "dataset"
    build(recipe, behaviours(recipe), out)
    return out


@pytest.fixture
def copy(drawn, tmp_path) -> Path:
    return Path(shutil.copytree(drawn, tmp_path / "copy"))


def check(folder: Path, **settings) -> dict[str, str]:
    """Verify as the command does; return the checks by name."""
    result: VerifyResult = verify(folder, recorded_behaviours(folder), **settings)
    return dict(result.checks)


def set_column(path: Path, name: str, change: Callable[[list], list]) -> None:
    """Replace the values of a column of a table."""
    table = pq.read_table(path)
    at = table.schema.get_field_index(name)
    values = change(table.column(name).to_pylist())
    column = pa.array(values, table.schema.field(at).type)
    assert not column.equals(table.column(name).combine_chunks())
    pq.write_table(table.set_column(at, table.schema.field(at), column), path)


def assert_found(folder: Path, reason: str) -> None:
    """Check that a damage is found, and found for this reason after it was sealed."""
    with pytest.raises((VerificationFailed, InputError)):
        check(folder)
    seal(folder)
    with pytest.raises(VerificationFailed, match=reason):
        check(folder)


def test_a_sound_dataset_says_what_was_compared(drawn):
    checks = check(drawn)
    assert checks["draws"] == "16 episodes drawn again from the recipe's seed"
    assert checks["workload"].endswith("tasks, generated again")
    assert checks["not compared"] == (
        "names and texts of the recipe, its other sections, and package versions"
    )
    assert check(drawn, workers=3) == checks
    assert [*checks] == [
        "manifest", "files", "workload", "episodes", "decisions", "behaviours", "draws", "returns",
        "documents", "not compared",
    ]  # fmt: skip


def test_a_seal_alone_is_no_damage(copy):
    """What is found in a sealed copy is the damage, not the seal."""
    before = {p: p.read_bytes() for p in copy.rglob("*") if p.is_file()}
    seal(copy)
    assert {p: p.read_bytes() for p in copy.rglob("*") if p.is_file()} == before


def test_quick_draws_nothing_again(drawn, capsys):
    assert main(["verify", str(drawn), "--quick", "--json"]) == 0
    checks = {c["check"]: c["detail"] for c in json.loads(capsys.readouterr().out)["checks"]}
    assert "draws" not in checks
    assert checks["not compared"].startswith("draws and the source of the workload (--quick); ")


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["random", "random_linear", "tetris"])
def test_choices_from_other_seeds_than_the_recipe_says_are_found(policy, tmp_path, monkeypatch):
    """Everything fits together, but the behaviours drew from another seed."""
    one = f'behaviours=[{{policy="{policy}", epsilon=0.3}}]'
    recipe = load_recipe("binpack-synthetic-v1", (*SETTINGS, one))
    with monkeypatch.context() as patch:
        patch.setattr(
            "hindcast.pipeline.dataset.building.parts.generator",
            lambda seed, *purpose: generator(seed + 1, *purpose),
        )
        build(recipe, behaviours(recipe), tmp_path / "other")
    assert "draws" not in check(tmp_path / "other", quick=True)
    with pytest.raises(VerificationFailed, match=r"the recipe's seed (draws|gives)"):
        check(tmp_path / "other")
    build(recipe, behaviours(recipe), tmp_path / "right")
    assert check(tmp_path / "right")["draws"].startswith("4 episodes")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["binpack-appended", "slots-rows", "slots-image", "thermal"])
def test_other_seeds_are_found_in_every_scenario(name, monkeypatch):
    """In datasets of rules, of a checkpoint, with an append, and of 0.1.0, all drawn again."""
    assert check(FIXTURES / name)["draws"]
    monkeypatch.setattr(
        "hindcast.pipeline.dataset.verification.verify.generator",
        lambda seed, *purpose: generator(seed + 1, *purpose),
    )
    with pytest.raises(VerificationFailed, match=r"the recipe's seed (draws|gives)"):
        check(FIXTURES / name)


@pytest.mark.slow
def test_a_checkpoint_draws_again(monkeypatch):
    """The choices of a network are compared, whoever plays it."""
    known = recorded_behaviours(FIXTURES / "slots-rows")
    own = {name: b for name, b in known.items() if "natural" in name}
    assert own
    result = dict(verify(FIXTURES / "slots-rows", own).checks)
    assert "behaviours that are not known here" in result["not compared"]
    monkeypatch.setattr(
        "hindcast.pipeline.dataset.verification.verify.generator",
        lambda seed, *purpose: generator(seed + 1, *purpose),
    )
    with pytest.raises(VerificationFailed, match=r"step \d+: the choice is \d+, which is not"):
        verify(FIXTURES / "slots-rows", own)
    monkeypatch.setattr(
        "hindcast.pipeline.dataset.verification.verify.Drawn.versions", lambda *_: {"numpy": "0"}
    )
    result = dict(verify(FIXTURES / "slots-rows", own).checks)
    assert "they differ, but numpy 0 wrote them" in result["not compared"]


def test_draws_of_other_versions_are_said_to_differ(copy, monkeypatch):
    """Another version of numpy may draw otherwise: this is said, and no failure."""
    monkeypatch.setattr(
        "hindcast.pipeline.dataset.verification.verify.generator",
        lambda seed, *purpose: generator(seed + 1, *purpose),
    )
    own = json.loads((copy / "manifest.json").read_text())["versions"]
    monkeypatch.setattr(
        "hindcast.pipeline.dataset.manifest.versions", lambda: {**own, "numpy": "9.0"}
    )
    checks = check(copy)
    assert checks["draws"].startswith("0 episodes")
    assert "the draws of 16 episodes (they differ, but numpy " in checks["not compared"]


def test_changed_parameters_of_a_behaviour_are_found(copy):
    """A change of 1e-9 moves no probability by as much as it is rounded."""

    def change(values):
        return [[x * (1 + 1e-9) for x in parameters] for parameters in values]

    set_column(copy / "episodes.parquet", "behaviour_parameters", change)
    assert_found(copy, r"episode \d+: behaviour_parameters\[\d+\] is .*, the recipe's seed gives")


def test_a_small_probability_that_was_changed_is_found(copy):
    """Probabilities are compared relative to their size."""
    least: list[tuple[float, int, int]] = []

    def find(values):
        found = [(p, row, i) for row, ps in enumerate(values) for i, p in enumerate(ps or [])]
        least.append(min(each for each in found if each[0] > 0.0))
        p, row, i = least[0]
        values[row][i] = p * 0.8
        return values

    set_column(copy / PART, "behaviour_probabilities", find)
    assert least[0][0] < 1e-4
    choices = pq.read_table(copy / PART)["choice"].to_pylist()
    assert choices[least[0][1]] != least[0][2]
    assert_found(copy, "not those of the behaviour policy")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda tasks: tasks.filter((pl.col("job") < 40) | (pl.col("task") != 1)),
            "rows, the recipe's seed gives",
        ),
        (
            lambda tasks: tasks.with_columns(
                pl.when(pl.int_range(pl.len()) == pl.len() - 1).then(7.0)
                .otherwise(pl.col("duration_s")).alias("duration_s")
            ),
            r"tasks\.parquet: row \d+: duration_s is 7\.0, the recipe's seed gives",
        ),
        (lambda tasks: tasks.with_columns(pl.lit(1).alias("extra")), "the columns differ"),
        (
            lambda tasks: tasks.filter(pl.col("job") < pl.col("job").max()),
            r"59 jobs, the recipe generates 60",
        ),
    ],
)  # fmt: skip
def test_a_changed_task_that_no_window_needs_is_found(copy, change, reason):
    """The last windows are test windows, which the dataset does not record."""
    path = copy / "workload" / "tasks.parquet"
    change(pl.read_parquet(path)).write_parquet(path)
    assert_found(copy, reason)


def test_wrong_sizes_in_the_workload_are_found(copy):
    path = copy / "workload" / "manifest.json"
    for key, value in (("bytes", -565), ("bytes", 1), ("more", 1)):
        text = path.read_text()
        manifest = json.loads(text)
        manifest["files"][0][key] = value
        path.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
        digest_only(copy)
        with pytest.raises(VerificationFailed, match=r"manifest\.json: this manifest differs"):
            check(copy)
        path.write_text(text)


def digest_only(folder: Path) -> None:
    """Seal the manifest with the digest of the workload's manifest as it is."""
    from hindcast.pipeline.dataset import manifest as mf
    from hindcast.pipeline.storage.files import sha256_file, write_json

    manifest = mf.read_manifest(folder)
    digest = sha256_file(folder / "workload" / "manifest.json")
    sealed = dataclasses.replace(manifest, workload_sha256=digest)
    write_json(folder / "manifest.json", mf.to_json(sealed))


@pytest.mark.parametrize(
    "name",
    [
        "notes.txt", ".hidden", "policies/x", "episodes-00007.parquet", "recorded.parquet",
        "workload/notes.txt", "workload/machines.parquet", "data/notes.txt", ".building/x",
        "recipe.toml", "folder/x",
    ],
)  # fmt: skip
def test_files_that_no_build_writes_are_found(copy, name):
    (copy / name).parent.mkdir(exist_ok=True)
    (copy / name).write_text("x")
    with pytest.raises(VerificationFailed, match=r": this file is not "):
        check(copy)


def test_what_an_interruption_leaves_is_no_foreign_file(copy):
    """A build that was killed at its end leaves its plan, the same with a temporary file."""
    building = copy / ".building"
    building.mkdir()
    (building / "plan.json").write_text("{}")
    (building / "part-00000.json").write_text("{}")
    (copy / ".README.md.123.partial").write_text("x")
    assert check(copy)["files"]


def test_a_key_of_the_provenance_too_many_is_found(copy):
    from hindcast.pipeline.dataset import manifest as mf
    from hindcast.pipeline.storage.files import write_json

    for key in ("recorded", "more"):
        manifest = mf.read_manifest(copy)
        changed = dataclasses.replace(
            manifest, provenance={**manifest.provenance, key: "elsewhere"}
        )
        write_json(copy / "manifest.json", mf.to_json(changed))
        with pytest.raises(VerificationFailed, match="the provenance differs"):
            check(copy)
        write_json(copy / "manifest.json", mf.to_json(manifest))
    check(copy)


@pytest.mark.slow
def test_a_recorded_dataset_is_compared_in_all_that_it_claims(tmp_path):
    """Its recipe and provenance follow from the recorded file."""
    from hindcast.pipeline.dataset import manifest as mf
    from hindcast.pipeline.storage.files import write_json

    copy = Path(shutil.copytree(FIXTURES / "thermal-recorded", tmp_path / "copy"))
    missing = check(copy)["not compared"]
    assert "the history file, and how its decisions were drawn" in missing
    path = copy / "workload" / "manifest.json"
    text, manifest = path.read_text(), (copy / "manifest.json").read_text()
    for old, new, reason in (
        ('"format": "history"', '"format": "swf"', "trace.format is 'history'"),
        ('"records": 14', '"records": 15', "the provenance differs"),
        ("Propensities are NaN", "Propensities are 1", "the provenance differs"),
    ):
        assert old in text
        path.write_text(text.replace(old, new))
        seal(copy)
        with pytest.raises(VerificationFailed, match=reason):
            check(copy)
        path.write_text(text)
        (copy / "manifest.json").write_text(manifest)
    own = mf.read_manifest(copy)
    recipe = dataclasses.replace(own.recipe, seed=5)
    changed = dataclasses.replace(own, recipe=recipe, digest=recipe.digest)
    write_json(copy / "manifest.json", mf.to_json(changed))
    with pytest.raises(VerificationFailed, match="the recipe differs from that of decisions"):
        check(copy)


def write_log(path: Path, jobs: int = 40) -> None:
    """Write a log in the Standard Workload Format."""
    rows = [
        f"{i + 1} {60 * i} 0 {60 + 7 * (i % 5)} {1 + i % 3} -1 -1 {1 + i % 3} {60 + 7 * (i % 5)} "
        "-1 1 1 1 -1 1 -1 -1 -1"
        for i in range(jobs)
    ]
    path.parent.mkdir(exist_ok=True)
    path.write_text("; MaxProcs: 8\n" + "\n".join(rows) + "\n")


@pytest.fixture
def of_log(tmp_path, monkeypatch) -> Path:
    """Return a dataset of a log that is below the folder of traces."""
    monkeypatch.setenv("HINDCAST_TRACES", str(tmp_path / "traces"))
    write_log(tmp_path / "traces" / "small.swf")
    recipe = load_recipe("queue-kth-v1", (
        'trace.path="small.swf"', "config.starts=[]", "config.jobs=5", "config.follow=0",
        'split.train="0..1"', 'split.validation="2..2"', 'split.test="3..3"',
        'behaviours=[{policy="random"}]',
    ))  # fmt: skip
    build(recipe, behaviours(recipe), tmp_path / "dataset")
    return tmp_path / "dataset"


@pytest.mark.slow
def test_a_raw_trace_is_read_again_where_it_is_at_hand(of_log, tmp_path, monkeypatch):
    traces = tmp_path / "traces"
    assert check(of_log)["workload"] == f"40 tasks, read again from {traces / 'small.swf'}"
    changed = Path(shutil.copytree(of_log, tmp_path / "changed"))
    tasks = pl.read_parquet(changed / "workload" / "tasks.parquet")
    tasks[:-1].write_parquet(changed / "workload" / "tasks.parquet")
    assert_found(changed, r"tasks\.parquet: this table has 39 rows, .*small\.swf gives 40")
    aside = (traces / "small.swf").rename(tmp_path / "aside.swf")
    for missing in (None, 39):
        if missing:
            write_log(traces / "small.swf", missing)
        checks = check(of_log)
        assert checks["workload"] == "40 tasks, not compared with its source"
        assert checks["not compared"].startswith("the raw trace, ")
    assert check(of_log, trace=aside)["workload"].endswith("aside.swf")
    with pytest.raises(VerificationFailed, match="39 rows"):
        check(changed, trace=aside)
    with pytest.raises(DatasetError, match="this is not the trace of"):
        check(of_log, trace=traces / "small.swf")


@pytest.mark.slow
def test_a_foreign_manifest_leads_to_no_file_elsewhere(of_log, tmp_path):
    """Only a path below the folder of traces is looked at, and only its digest, unless it fits."""
    from hindcast.pipeline.dataset.verification.workload import _at_hand

    (tmp_path / "outside.swf").write_text("x")
    recipe = load_recipe(of_log)
    for path in (str(tmp_path / "outside.swf"), "../outside.swf", "s3://bucket/x.swf", "", "."):
        trace = dataclasses.replace(recipe.trace, path=path)
        assert _at_hand(dataclasses.replace(recipe, trace=trace)) is None


def test_a_trace_for_a_generated_workload_is_refused(drawn, capsys):
    assert main(["verify", str(drawn), "--trace", str(drawn)]) == 2
    assert "so no raw trace was read for it" in capsys.readouterr().err


def test_changed_words_of_the_spec_are_found(copy):
    """They are compared where the same versions wrote them: later versions may explain better."""
    path = copy / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["spec"]["outcomes"][0]["description"] += " or so"
    path.write_text(json.dumps(manifest))
    assert_found(copy, "the spec differs from that of the scenario binpack in its descriptions")
    manifest = json.loads(path.read_text())
    manifest["versions"]["hindcast"] = "0.0.9"
    path.write_text(json.dumps(manifest))
    seal(copy)
    assert check(copy)["not compared"].startswith("descriptions of the spec, which other versions")


def test_a_behaviour_that_is_not_known_is_named(drawn):
    known = recorded_behaviours(drawn)
    del known["random"]
    checks = dict(verify(drawn, known).checks)
    assert checks["draws"].startswith("12 episodes")
    assert checks["not compared"].startswith(
        "probabilities and draws of behaviours that are not known here (random); "
    )
