"""Tests of `hindcast push`: an upload folder, and a server with the interface of the Hub."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import constants
from huggingface_hub.errors import HFValidationError

from hindcast.flows.cli import main
from hindcast.flows.commands.publish.push import _notes
from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.building.append import append
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.documents import publication
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.storage.files import json_text, write_text
from hindcast.policies.registry import behaviours
from tests.flows.hub_server import TOKEN, Hub, hub

REPOSITORY = "someone/pushed"
PLACE = f"hf://datasets/{REPOSITORY}"
# The client passes files to its own library in a form that this deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
ADDED = {publication.ZENODO, publication.DATASHEET, publication.SUMS}


def make(folder: Path, *settings: str, how: Any = build) -> Path:
    """Build a small dataset, whose id is pushed-v1 unless a setting says otherwise."""
    words = ('id="pushed-v1"', 'split.train="0..0"', "config.max_time_steps=20", *settings)
    recipe = load_recipe("slots-demo-v1", words)
    recipe = replace(recipe, behaviours=(replace(recipe.behaviours[0], episodes=1),))
    how(recipe, behaviours(recipe), folder)
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    return make(tmp_path_factory.mktemp("push") / "dataset")


@pytest.fixture
def dataset(built, tmp_path, monkeypatch) -> str:
    """Return a copy of the dataset, in the present folder."""
    shutil.copytree(built, tmp_path / "dataset")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return "dataset"


@pytest.fixture
def server(dataset, monkeypatch):
    """Yield a server; large files go to it as Git LFS, since it has no Xet."""
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    with hub() as state:
        monkeypatch.setenv("HF_ENDPOINT", state.url)
        yield state


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def refused(capsys, *words: str, code: int = 2) -> str:
    """Run a push that fails, and return its message."""
    capsys.readouterr()
    assert main(["push", *words]) == code
    said = capsys.readouterr()
    assert TOKEN not in said.out + said.err
    return said.err


def pushed(capsys, *words: str) -> dict:
    capsys.readouterr()
    assert main(["push", "dataset", "--to", PLACE, "--json", *words]) == 0
    said = capsys.readouterr()
    assert TOKEN not in said.out + said.err
    return json.loads(said.out)


@pytest.mark.slow
def test_a_folder_is_the_dataset_with_checksums_and_metadata(dataset, capsys):
    assert main(["push", dataset, "--to", "up", "--creator", "A. Person"]) == 0
    there, own = contents(Path("up")), contents(Path(dataset))
    assert {name: there[name] for name in own} == own
    assert there.keys() - own.keys() == ADDED
    sums = dict(reversed(row.split("  ")) for row in there["SHA256SUMS"].decode().splitlines())
    assert sums == {
        name: hashlib.sha256(content).hexdigest()
        for name, content in there.items()
        if name != "SHA256SUMS"
    }
    metadata = json.loads(there[".zenodo.json"])
    assert metadata["creators"] == [{"name": "A. Person"}]
    assert (metadata["upload_type"], metadata["license"]) == ("dataset", "apache-2.0")
    datasheet = there["DATASHEET.md"].decode()
    about = json.loads(there["croissant.json"])
    for key in ("rai:dataCollection", "license", "citeAs"):
        assert " ".join(about[key].split()) in " ".join(datasheet.split())
    capsys.readouterr()
    assert main(["verify", "up"]) == 0
    assert "not compared: .zenodo.json, DATASHEET.md, SHA256SUMS" in capsys.readouterr().out
    assert "exists already" in refused(capsys, dataset, "--to", "up")


@pytest.mark.slow
def test_a_dry_run_names_what_would_go_and_leaves_nothing(dataset, capsys):
    assert main(["push", dataset, "--to", "up", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert not Path("up").exists()
    own = contents(Path(dataset)).keys()
    assert {line.split(":")[0].strip() for line in said.splitlines()} >= own | ADDED
    assert "licence: apache-2.0" in said
    assert "creators: The Hindcast developers" in said
    people = ["--creator", "A. Person", "--creator", "B. Person"]
    assert main(["push", dataset, "--to", "up", "--dry-run", "--quick", *people]) == 0
    assert "creators: A. Person; B. Person" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["part", "seal", "card"])
def test_a_dataset_that_does_not_verify_is_refused(dataset, server, damage, capsys):
    folder = Path(dataset)
    if damage == "part":
        part = folder / mf.read_manifest(folder).parts[0].path
        part.write_bytes(part.read_bytes()[:-1] + b"x")
    elif damage == "seal":
        value = json.loads((folder / mf.NAME).read_text())
        value["versions"]["numpy"] = "1.0"
        write_text(folder / mf.NAME, json_text(value))
    else:
        (folder / mf.CARD).write_text("another card")
    for place in ("up", PLACE):
        refused(capsys, dataset, "--to", place, code=1)
    assert not Path("up").exists()
    assert not server.commits


@pytest.mark.slow
def test_terms_that_are_no_licence_need_a_statement_which_is_published(
    dataset, monkeypatch, capsys
):
    monkeypatch.setattr(publication, "licence_of", lambda _: ("other", "ask its owner"))
    monkeypatch.setattr(publication, "FORMATS", {**publication.FORMATS, "generated": None})
    assert "--permission" in refused(capsys, dataset, "--to", "up")
    assert "--permission" in refused(capsys, dataset, "--to", "up", "--dry-run")
    words = ["--permission", "The owner, B. Person, allowed it in writing."]
    assert main(["push", dataset, "--to", "up", *words]) == 0
    metadata = json.loads(Path("up/.zenodo.json").read_text())
    assert "license" not in metadata
    for text in (metadata["notes"], Path("up/DATASHEET.md").read_text()):
        assert "ask its owner" in text
        assert words[1] in text


def test_restrictions_of_traces_and_grids():
    from hindcast.pipeline.recipes.shipped import known_recipes

    assert "deferrable-grid-v1" in known_recipes()
    for name, expected in (
        ("alibaba2017", ["research use"]), ("azure2020", []), ("synthetic", []),
        ("unknown format", ["not known here"]),
    ):  # fmt: skip
        found = publication.restrictions(_manifest(name, "synthetic"))
        assert len(found) == len(expected)
        assert all(part in text for part, text in zip(expected, found, strict=True))
    assert "ODbL" in publication.restrictions(_manifest("synthetic", "grids/carbon.parquet"))[0]


def _manifest(source: str, series: str):
    from types import SimpleNamespace as Some

    return Some(provenance={"format": source}, recipe=Some(config=Some(series=series)))


@pytest.mark.slow
def test_a_repository_gets_all_files_in_one_commit(dataset, server, capsys):
    assert main(["push", dataset, "--to", "up"]) == 0
    result = pushed(capsys)
    assert len(server.commits[REPOSITORY]) == 2  # the server's own, and the dataset
    there = dict(server.files(REPOSITORY))
    del there[".gitattributes"]
    assert there == contents(Path("up"))
    assert result["commit"].startswith(f"{server.url}/datasets/{REPOSITORY}/commit/")
    assert set(result["sent"]) == there.keys()
    assert server.private[REPOSITORY] in {None, "public"}


@pytest.mark.slow
def test_what_was_pushed_verifies_where_it_is_downloaded(dataset, server, capsys):
    pushed(capsys)
    huggingface_hub.snapshot_download(
        REPOSITORY, repo_type="dataset", local_dir="down", token=TOKEN, endpoint=server.url
    )
    assert Path("down/.gitattributes").exists()
    assert main(["verify", "down"]) == 0


@pytest.mark.slow
def test_a_second_push_sends_only_what_changed(dataset, server, capsys):
    pushed(capsys, "--private")
    assert server.private[REPOSITORY] == "private"
    sent = list(server.uploaded)
    again = pushed(capsys)
    assert (again["sent"], again["removed"]) == ([], [])
    assert len(server.commits[REPOSITORY]) == 2
    other = pushed(capsys, "--creator", "A. Person")
    assert set(other["sent"]) == {".zenodo.json", "SHA256SUMS"}
    assert server.uploaded == sent
    server.add(REPOSITORY, {**server.files(REPOSITORY), "data/part-99999.parquet": b"x"})
    assert pushed(capsys)["removed"] == ["data/part-99999.parquet"]
    assert len(server.commits[REPOSITORY]) == 5


@pytest.mark.slow
def test_an_appended_dataset_replaces_its_earlier_state(dataset, server, capsys):
    pushed(capsys)
    make(Path(dataset), 'split.train="1..1"', how=append)
    grown = pushed(capsys)
    parts = [part.path for part in mf.read_manifest(Path(dataset)).parts]
    assert not set(parts) <= set(grown["sent"])
    assert set(parts) & set(grown["sent"])
    assert "episodes.parquet" in grown["removed"]


@pytest.mark.slow
def test_a_selection_does_not_replace_its_parent_nor_the_reverse(dataset, server, capsys):
    """Both have the same recipe and the same parts."""
    assert main(["filter", dataset, "--where", "steps > 0", "--out", "selected"]) == 0
    parts = [mf.read_manifest(Path(folder)).parts for folder in (dataset, "selected")]
    assert parts[0] == parts[1]
    for first, second in ((dataset, "selected"), ("selected", dataset)):
        place = f"hf://datasets/someone/of-{first}"
        assert main(["push", first, "--to", place]) == 0
        assert "was made of others" in refused(capsys, second, "--to", place)


@pytest.mark.slow
def test_a_damaged_manifest_of_a_repository_is_named_with_it(dataset, server, capsys):
    server.add(REPOSITORY, {mf.NAME: b"{"})
    message = refused(capsys, dataset, "--to", PLACE)
    assert f"{PLACE}: {mf.NAME}" in message
    assert "/hindcast-" not in message


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Exception, KeyError, HFValidationError])
def test_an_error_of_any_kind_hides_the_token(dataset, server, kind, monkeypatch, capsys):
    def fail(*_words, **_settings):
        raise kind(f"the header Bearer {TOKEN} is refused") from ValueError(TOKEN)

    monkeypatch.setattr(huggingface_hub.HfApi, "create_commit", fail)
    message = refused(capsys, dataset, "--to", PLACE)
    assert f"{PLACE}: nothing was committed" in message
    assert "the header Bearer ... is refused" in message


def test_paths_of_this_machine_are_named_wherever_they_are(dataset):
    manifest = mf.read_manifest(Path(dataset))
    assert _notes(manifest) == []
    recipe = replace(manifest.recipe, trace=replace(manifest.recipe.trace, path=Path("/a/trace")))
    provenance = {**manifest.provenance, "sources": [{"file": "/b/series"}, {"file": "/a/trace"}]}
    notes = _notes(replace(manifest, merged=(recipe,), provenance=provenance))
    assert {note.rpartition(": ")[2] for note in notes} == {"/a/trace", "/b/series"}
    assert len(notes) == 2


@pytest.mark.slow
def test_other_data_and_other_repositories_are_left_alone(dataset, server, capsys):
    pushed(capsys)
    before = server.files(REPOSITORY)
    make(Path("other"), "seed=8")
    assert "do not change" in refused(capsys, "other", "--to", PLACE)
    make(Path("third"), 'id="third-v1"')
    assert "holds pushed-v1" in refused(capsys, "third", "--to", PLACE)
    server.add("someone/model", {"weights.bin": b"1"})
    place = "hf://datasets/someone/model"
    assert "is no dataset of Hindcast" in refused(capsys, dataset, "--to", place)
    assert server.files(REPOSITORY) == before
    assert server.files("someone/model") == {"weights.bin": b"1"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "refuses", ["PUT /lfs/", f"POST /api/datasets/{REPOSITORY}/commit", "POST /api/repos/create"]
)
def test_a_push_that_fails_leaves_the_repository_and_can_be_repeated(
    dataset, server: Hub, refuses, capsys
):
    server.refused = (refuses,)
    assert f"{PLACE}: nothing was committed" in refused(capsys, dataset, "--to", PLACE)
    for name in server.commits:
        assert set(server.files(name)) == {".gitattributes"}
    server.refused = ()
    pushed(capsys)
    assert mf.NAME in server.files(REPOSITORY)


@pytest.mark.slow
def test_a_repository_with_other_bytes_afterwards_is_no_success(dataset, server, capsys):
    server.spoils = True
    assert "another README.md than was sent" in refused(capsys, dataset, "--to", PLACE)


@pytest.mark.slow
def test_a_commit_in_between_is_not_overwritten(dataset, server, monkeypatch, capsys):
    create = huggingface_hub.HfApi.create_commit

    def late(self, name, *words, **settings):
        server.add(name, {**server.files(name), "other.txt": b"1"})
        return create(self, name, *words, **settings)

    monkeypatch.setattr(huggingface_hub.HfApi, "create_commit", late)
    assert "nothing was committed" in refused(capsys, dataset, "--to", PLACE)
    assert set(server.files(REPOSITORY)) == {".gitattributes", "other.txt"}


@pytest.mark.slow
def test_a_token_is_read_from_the_environment_alone(dataset, server, monkeypatch, capsys):
    Path("home").mkdir()
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", "home/token")
    Path("home/token").write_text(TOKEN)
    monkeypatch.delenv("HF_TOKEN")
    assert "HF_TOKEN is not set" in refused(capsys, dataset, "--to", PLACE)
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    message = refused(capsys, dataset, "--to", PLACE)
    assert "401" in message
    assert "hf_wrong" not in message
    assert not server.commits


@pytest.mark.parametrize(
    "place", ["hf://someone/name", "hf://datasets/name", "hf://datasets/a/b/c"]
)
def test_a_place_that_is_no_repository_is_refused(dataset, place, capsys):
    assert "expected hf://datasets/OWNER/NAME" in refused(capsys, dataset, "--to", place)


def test_private_is_for_repositories(dataset, capsys):
    assert "--private is for hf://" in refused(capsys, dataset, "--to", "up", "--private")
