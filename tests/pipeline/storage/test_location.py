"""Tests of texts that name folders, and of errors for those that cannot be used."""

import subprocess
import sys
from pathlib import Path

import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.storage.location import is_remote, location


def test_paths_of_this_machine_are_plain_paths(tmp_path):
    assert location("demo/dataset") == Path("demo/dataset")
    assert location(tmp_path) is tmp_path
    assert location(f"file://{tmp_path}/a%20b") == tmp_path / "a b"
    assert not is_remote(location("demo"))


def test_urls_keep_their_slashes():
    """A URL is kept as given, names are joined below it, and its parts are named."""
    folder = location("memory://bucket/a/")
    assert str(folder) == "memory://bucket/a"
    assert is_remote(folder)
    assert location(folder) is folder
    assert str(folder / "data" / "x.parquet") == "memory://bucket/a/data/x.parquet"
    assert (folder / "data" / "x.parquet").relative_to(folder).as_posix() == "data/x.parquet"
    assert (folder.name, str(folder.parent)) == ("a", "memory://bucket")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s4://bucket/x", r"s4://bucket/x: unknown scheme 's4'; did you mean 's3'\?"),
        ("https://host/x", "unknown scheme 'https'"),
        ("simplecache::s3://bucket/x", "unknown scheme"),
        ("s3:/bucket/x", r"did you mean s3://\.\.\."),
        ("s3://", "names no bucket"),
        ("s3:///x", "names no bucket"),
        ("s3://bucket/x::y", "'::'"),
        ("s3://bucket/../x", r"'\.\.'"),
        ("file://host/x", "expected file:///absolute/path"),
    ],
)
def test_what_cannot_be_used_is_named(text, message):
    with pytest.raises(InputError, match=message):
        location(text)


def test_a_secret_in_a_url_is_refused_and_not_repeated():
    with pytest.raises(InputError, match="belong in the environment") as refused:
        location("s3://key:hunter2@bucket/x")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(("scheme", "extra"), [("s3", "s3"), ("gs", "gs"), ("az", "az")])
def test_a_missing_package_names_its_extra(scheme, extra, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(InputError, match=rf"pip install 'hindcast-scheduling\[{extra}\]'"):
        location(f"{scheme}://bucket/x")


def test_plain_paths_load_no_store(tmp_path):
    """The command line loads a store's client only if a URL is given."""
    script = (
        "import sys; from hindcast.pipeline.storage.location import location; location('a'); "
        "from hindcast.flows.parser import parse; parse(['verify', 'a']); "
        "assert not {'fsspec', 'upath', 's3fs'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
