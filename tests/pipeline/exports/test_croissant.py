"""Tests that mlcroissant validates the metadata and loads records with the dataset's values."""

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from hindcast.pipeline.dataset import open as open_dataset
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.documents.croissant import NAME, croissant
from hindcast.pipeline.dataset.documents.terms import licence_lines
from hindcast.pipeline.dataset.verification.verify import verify
from hindcast.pipeline.decisions.conversion import convert
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.exports import export
from hindcast.pipeline.storage.files import sha256_file
from hindcast.policies.registry import behaviours
from tests.pipeline.decisions.decision_cases import ROWS, long_table
from tests.sample_datasets import KINDS, LONG_STEPS

pytestmark = [  # warnings of rdflib, which mlcroissant uses for JSON-LD, and of pandas
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def load(path: Path):
    mlcroissant = pytest.importorskip("mlcroissant")
    return mlcroissant.Dataset(jsonld=str(path))


def plain(value):
    """Return values as Python has them: bytes as text, names without their record set."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {name.rpartition("/")[2]: plain(v) for name, v in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def records(dataset, record_set: str, schema) -> pl.DataFrame:
    rows = [plain(record) for record in dataset.records(record_set)]
    return pl.DataFrame(rows, schema=schema, orient="row")


def without_nan(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a record with None for null and NaN. Fields of a null struct are null, too."""
    columns = []
    for name, kind in frame.schema.items():
        column = pl.col(name)
        if kind.is_float():
            column = column.fill_nan(None)
        elif isinstance(kind, pl.Struct):
            fields = [column.struct.field(f.name).fill_nan(None) for f in kind.fields]
            column = pl.struct(fields).alias(name)
        elif isinstance(kind, pl.Array):
            column = column.arr.to_list()
        elif isinstance(kind, pl.List) and isinstance(kind.inner, pl.Struct):
            fields = [pl.element().struct.field(f.name).fill_nan(None) for f in kind.inner.fields]
            column = column.list.eval(pl.struct(fields))
        elif isinstance(kind, pl.List) and kind.inner.is_float():
            column = column.list.eval(pl.element().fill_nan(None))
        columns.append(column)
    return frame.select(columns)


@pytest.fixture(params=[kind for kind in KINDS if kind != "long"])
def short(request, sources):
    return sources(request.param)


@pytest.mark.slow
def test_it_is_valid_and_all_records_are_equal(short, tmp_path):
    export(short.folder, "croissant", tmp_path / "x")
    dataset = load(tmp_path / "x" / NAME)
    issues = dataset.metadata.ctx.issues
    assert not issues.errors
    assert all("datePublished" in w for w in issues.warnings)  # no date is known here
    found = records(dataset, "decisions", short.rows.schema)
    assert without_nan(found).equals(without_nan(short.rows))
    found = records(dataset, "episodes", short.episodes.schema)
    assert without_nan(found).equals(without_nan(short.episodes))


@pytest.mark.nightly
def test_a_long_episode_is_whole(long, tmp_path):
    """Only some fields are read, as mlcroissant takes a millisecond for all fields of a record."""
    export(long.folder, "croissant", tmp_path / "x")
    path = tmp_path / "x" / NAME
    metadata = json.loads(path.read_text())
    kept = ("episode", "step", "choice", "feasible")
    [decisions] = [r for r in metadata["recordSet"] if r["@id"] == "decisions"]
    decisions["field"] = [f for f in decisions["field"] if f["name"] in kept]
    path.write_text(json.dumps(metadata))
    found = records(load(path), "decisions", long.rows.select(kept).schema)
    assert found.equals(long.rows.select(kept))
    assert found.filter(episode=0).height == LONG_STEPS + 1


@pytest.mark.slow
def test_every_file_has_its_own_object(short):
    metadata = croissant(short.dataset.manifest)
    files = {o["contentUrl"]: o for o in metadata["distribution"] if "contentUrl" in o}
    assert set(files) == {"episodes.parquet", *(p.path for p in short.dataset.manifest.parts)}
    for name, file in files.items():
        path = short.folder / name
        assert file["sha256"] == sha256_file(path)
        assert file["contentSize"] == f"{path.stat().st_size} B"
        assert file["encodingFormat"] == "application/x-parquet"


@pytest.mark.slow
def test_every_column_is_described(short):
    metadata = croissant(short.dataset.manifest)
    sets = {r["name"]: r for r in metadata["recordSet"]}
    assert [f["name"] for f in sets["decisions"]["field"]] == short.rows.columns
    assert [f["name"] for f in sets["episodes"]["field"]] == short.episodes.columns
    lists = {f["name"]: f["arrayShape"] for f in sets["decisions"]["field"] if f.get("isArray")}
    expected = {"candidates": "-1", "feasible": "-1", "behaviour_probabilities": "-1"}
    if short.dataset.spec.image_shape:
        expected["image"] = str(np.prod(short.dataset.spec.image_shape))
    assert lists == expected
    assert metadata["license"] == "https://www.apache.org/licenses/LICENSE-2.0" or (
        short.dataset.manifest.provenance["format"] == "history"
    )
    assert short.dataset.manifest.digest in metadata["citeAs"]
    assert metadata["url"]


@pytest.mark.slow
def test_every_dataset_has_it(short, tmp_path):
    """A built dataset, one read from a history file, and the export have equal metadata."""
    inside = (short.folder / NAME).read_bytes()
    assert json.loads(inside) == croissant(short.dataset.manifest)
    export(short.folder, "croissant", tmp_path / "x")
    assert (tmp_path / "x" / NAME).read_bytes() == inside
    assert not load(short.folder / NAME).metadata.ctx.issues.errors


@pytest.mark.slow
def test_responsible_fields_follow_from_the_manifest(thermal, tmp_path):
    """The fields of Croissant RAI say that this is a simulation; a log says that it is none."""
    found = croissant(thermal.dataset.manifest)
    assert "http://mlcommons.org/croissant/RAI/1.0" in found["conformsTo"]
    counts = thermal.dataset.manifest.counts
    assert f"{counts['decisions']:,} decisions" in found["rai:dataCollection"]
    assert "simulator of thermal" in found["rai:dataCollection"]
    assert "rai:dataCollectionMissingData" not in found  # nothing is left out
    log = read_log(long_table(), ROWS)
    manifest = open_dataset(convert(log, tmp_path / "d", "log").folder).manifest
    found = croissant(manifest)
    assert "recorded by a service" in found["rai:dataCollection"]
    assert "not simulated again" in found["rai:dataLimitations"][0]
    assert "Ids of decisions" in found["rai:personalSensitiveInformation"][0]
    path = tmp_path / "d" / NAME
    assert not load(path).metadata.ctx.issues.errors


@pytest.mark.slow
def test_the_card_of_other_terms_has_their_link(thermal, tmp_path):
    """A trace has the address of its page, a log of one's own the section of the card."""
    log = read_log(long_table(), ROWS)
    card = (convert(log, tmp_path / "d", "log").folder / "README.md").read_text()
    assert yaml.safe_load(card.split("---")[1])["license_link"] == "#licence-and-citation"
    assert "\n## Licence and citation\n" in card
    provenance = {**thermal.dataset.manifest.provenance, "format": "alibaba2017"}
    assert 'license_link: "https://github.com/alibaba/clusterdata"' in licence_lines(provenance)


@pytest.mark.slow
def test_a_file_that_was_changed_does_not_load(thermal, tmp_path):
    export(thermal.folder, "croissant", tmp_path / "x")
    path = tmp_path / "x" / "episodes.parquet"
    pl.read_parquet(path).with_columns(pl.col("return") + 1).write_parquet(path)
    found = load(tmp_path / "x" / NAME).records("episodes")
    with pytest.raises(Exception, match=r"Download\(episodes.parquet\)") as failed:
        list(found)
    assert "is not identical with the reference" in str(failed.value.__cause__)


@pytest.mark.slow
def test_a_damaged_file_is_not_exported(thermal, tmp_path):
    shutil.copytree(thermal.folder, tmp_path / "d")
    part = tmp_path / "d" / thermal.dataset.manifest.parts[0].path
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)
    with pytest.raises(DatasetError, match="SHA-256 differs from the manifest's"):
        export(tmp_path / "d", "croissant", tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
def test_a_dataset_with_it_is_verified_and_rebuilt_alike(tiny_recipe, tiny_dataset, tmp_path):
    known = behaviours(tiny_recipe)
    build(tiny_recipe, known, tmp_path / "again", workers=2)
    assert (tmp_path / "again" / NAME).read_bytes() == (tiny_dataset / NAME).read_bytes()
    verify(tmp_path / "again", known)
