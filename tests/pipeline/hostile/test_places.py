"""A recipe in a foreign manifest leads nowhere outside its dataset: no file, no address."""

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.storage import remote
from hindcast.pipeline.storage.files import sha256_file
from hindcast.policies.registry import behaviours
from tests.conftest import TINY
from tests.pipeline.hostile.tampering import command, mend

_watched: list[Path] = []
_seen: list[str] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watched:
        return
    if event.startswith(("socket.connect", "socket.getaddrinfo")):
        _seen.append(f"{event} {arguments[1:]}")
    elif event in {"open", "os.listdir", "os.scandir", "shutil.copyfile"}:
        name = str(arguments[0])
        _seen.extend(f"{event} {name}" for folder in _watched if name.startswith(str(folder)))


sys.addaudithook(_hook)  # it cannot be removed; without a watched folder it does nothing


@contextmanager
def watching(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yield what is opened below a folder, and which URLs and addresses are asked for."""
    _seen.clear()
    _watched.append(folder)
    with monkeypatch.context() as patch:
        patch.setattr(remote.RemotePath, "at", lambda url: pytest.fail(f"{url} was asked for"))
        try:
            yield _seen
        finally:
            _watched.clear()


@pytest.fixture
def outside(checkpoint, tmp_path, tiny_dataset) -> Path:
    """A folder with a checkpoint, a log and a workload; tests run in it."""
    folder = tmp_path / "outside"
    (folder / "policies").mkdir(parents=True)
    shutil.copytree(checkpoint, folder / "policies" / "stolen")
    shutil.copytree(tiny_dataset / "workload", folder / "workload")
    (folder / "log.swf").write_text("1 0 0 10 1 -1 -1 1 10 -1 1 1 1 -1 -1 -1 -1 -1\n")
    return folder


def attack(folder: Path, sealed: bool = True, **changes: Any) -> None:
    """Change the recipe in a manifest, and make the manifest fit it again."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["recipe"].update(changes)
    path.write_text(json.dumps(manifest))
    if sealed:
        mend(folder)


def test_the_watch_sees_files_and_urls(outside, monkeypatch):
    with watching(outside, monkeypatch) as seen:
        (outside / "log.swf").read_bytes()
        with pytest.raises(pytest.fail.Exception, match="asked for"):
            load_source(
                load_recipe("binpack-synthetic-v1", ('trace={format="swf",path="memory://b/x"}',))
            )
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("{outside}/policies/stolen", "expected a checkpoint policies/NAME of the dataset"),
        ("../outside/policies/stolen", "expected a checkpoint policies/NAME of the dataset"),
        ("s3://bucket/ck", "expected a checkpoint policies/NAME of the dataset"),
        ("memory://bucket/ck", "expected a checkpoint policies/NAME of the dataset"),
        ("policies/stolen", "no such file"),  # below the working folder
    ],
)
def test_a_checkpoint_outside_is_not_copied(
    policy, said, folder, outside, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(outside)
    sha256 = sha256_file(outside / "policies" / "stolen" / "checkpoint.json")
    policy = policy.format(outside=outside)
    attack(folder, behaviours=[{"policy": policy, "episodes": 1, "sha256": sha256}])
    assert_refused(folder, outside, said, tmp_path, monkeypatch, capsys)


def test_a_folder_of_checkpoints_outside_is_not_searched(
    folder, outside, tmp_path, monkeypatch, capsys
):
    attack(folder, behaviours_from=str(outside / "policies"))
    assert_refused(folder, outside, "behaviours_from", tmp_path, monkeypatch, capsys)


def assert_refused(folder, outside, said, tmp_path, monkeypatch, capsys) -> None:
    """One line and exit code 2 of every command that takes a recipe; nothing outside is opened."""
    with watching(outside, monkeypatch) as seen:
        for name in ("build", "run", "evaluate"):
            code, error = command(capsys, name, folder, "--out", tmp_path / "out", "--direct")
            assert (code, error.count("\n")) == (2, 1), error
            assert said in error
    assert seen == []
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "trace",
    [
        {"format": "swf", "path": "{outside}/log.swf"},
        {"format": "swf", "path": "s3://bucket/log.swf"},
        {"format": "workload", "path": "{outside}/workload"},
    ],
)
def test_the_workload_is_the_one_in_the_dataset(
    trace, folder, outside, tmp_path, monkeypatch, capsys
):
    """It is built, and evaluated, from its own copy; another trace needs a person to name it."""
    trace = {**trace, "path": trace["path"].format(outside=outside)}
    attack(folder, trace=trace)
    with watching(outside, monkeypatch) as seen:
        out = tmp_path / "out"
        code, error = command(capsys, "build", folder, "--out", out, "--direct")
        assert code == 0, error
        code, error = command(
            capsys, "evaluate", folder, "--policy", "tetris", "--split", "validation", "--out",
            tmp_path / "scores", "--direct",
        )  # fmt: skip
        assert code == 0, error
        again = mf.read_manifest(out).recipe
        assert load_source(again).tasks.height
        code, error = command(
            capsys, "build", folder, "--set", 'trace.format="azure2020"', "--out",
            tmp_path / "other", "--direct",
        )  # fmt: skip
        assert code == 2
        assert "give trace.path too" in error
    assert seen == []
    for part in (folder / "data").iterdir():
        assert (out / "data" / part.name).read_bytes() == part.read_bytes()
    named = load_recipe(folder, ('trace.format="workload"', f'trace.path="{outside / "workload"}"'))
    with watching(outside, monkeypatch) as seen:
        if trace["format"] != "workload":
            load_source(named)
    assert bool(seen) == (trace["format"] != "workload")


@pytest.mark.slow
def test_another_workload_in_the_folder_is_refused(folder, tmp_path):
    recipe = load_recipe("binpack-synthetic-v1", (*TINY, "seed=5"))
    build(recipe, behaviours(recipe), tmp_path / "other")
    attack(folder, trace={"format": "swf", "path": "x.swf"})
    shutil.rmtree(folder / "workload")
    shutil.copytree(tmp_path / "other" / "workload", folder / "workload")
    with pytest.raises(InputError, match="another SHA-256 than the dataset's manifest says"):
        load_source(load_recipe(folder))
    shutil.rmtree(folder / "workload")
    (folder / "workload").symlink_to(tmp_path / "other" / "workload")
    with pytest.raises(InputError, match="symbolic link"):
        load_source(load_recipe(folder))


@pytest.mark.slow
def test_policies_to_evaluate_are_rules_or_named_by_a_person(
    folder, outside, tmp_path, monkeypatch, capsys
):
    stolen = str(outside / "policies" / "stolen")
    for name in (stolen, "s3://bucket/ck"):
        attack(folder, evaluate={"policies": ["tetris", name]})
        with watching(outside, monkeypatch) as seen:
            for argv in (
                ("evaluate", folder, "--out", tmp_path / "out", "--direct"),
                ("run", folder, "--out", tmp_path / "out", "--direct"),
                ("ope", folder, "--out", tmp_path / "out"),
            ):
                code, error = command(capsys, *argv)
                assert (code, error.count("\n")) == (2, 1), error
                assert "name it yourself with --policy" in error
        assert seen == []
    asked = ("evaluate", folder, "--policy", stolen, "--split", "validation")
    code, error = command(capsys, *asked, "--out", tmp_path / "out", "--direct")
    assert code == 0, error


def test_a_recipe_that_was_changed_below_its_digest_is_refused(folder):
    attack(folder, sealed=False, seed=99)
    with pytest.raises(InputError, match="one of them was changed"):
        load_recipe(folder)


def test_a_file_of_a_person_may_name_any_place(outside):
    trace = f'trace={{format="workload", path="{outside / "workload"}"}}'
    behaviour = f'behaviours=[{{policy="{outside / "policies" / "stolen"}"}}]'
    recipe = load_recipe("binpack-synthetic-v1", (*TINY, trace, behaviour))
    assert recipe.origin is None
    assert load_source(recipe).tasks.height
    assert [b.sha256 for b in recipe.behaviours] != [""]


def test_a_person_may_name_any_behaviour_of_a_dataset(folder, outside):
    place = outside / "policies" / "stolen"
    recipe = load_recipe(folder, (f'behaviours=[{{policy="{place}"}}]',))
    assert list(recipe.places.values()) == [place]
