"""Tests that a release with a fault is refused."""

import json

import pytest

from hindcast.pipeline.dataset.documents import terms
from tests import release

FILES = [
    "hindcast.py", "flows/cli.py", "datasets/a-v1/recipe.toml", "docs/index.md", "tests/release.py",
]  # fmt: skip
DOCUMENTS = {
    "pyproject.toml": '[project]\nversion = "1.2.0"\n',
    "CHANGELOG.md": "# Changelog\n\n## 1.2.0 (2027-01-31)\n\n- New.\n\n## 1.1.0 (2026-12-01)\n",
    "CITATION.cff": (
        'cff-version: 1.2.0\ntitle: "A: b"\nauthors:\n  - name: We\nversion: 1.2.0\n'
        "date-released: 2027-01-31\nlicense: MIT\n"
    ),
    ".zenodo.json": json.dumps({
        "title": "A: b", "creators": [{"name": "We"}], "version": "1.2.0", "license": "MIT",
        "publication_date": "2027-01-31",
    }),
}  # fmt: skip
METADATA = "x.dist-info/METADATA"


def test_a_wheel_has_one_package_recipes_and_metadata():
    names = release.wheel_names(FILES, "1.2.0")
    shared = "hindcast_scheduling-1.2.0.data/data/share/hindcast/datasets/a-v1/recipe.toml"
    assert {"hindcast/__init__.py", "hindcast/flows/cli.py", shared} < names
    assert all(name.startswith(("hindcast/", "hindcast_scheduling-1.2.0.")) for name in names)
    assert "hindcast_scheduling-1.2.0.dist-info/licenses/LICENSE" in names
    assert not names & {"docs/index.md", "tests/release.py", "datasets/a-v1/recipe.toml"}


@pytest.mark.parametrize("name", ["flows/cli.py", "recipe.toml", "METADATA", "LICENSE"])
def test_a_wheel_without_one_of_its_files_is_refused(name):
    expected = release.wheel_names(FILES, "1.2.0")
    [lacking] = [path for path in expected if path.endswith(name)]
    contents = dict.fromkeys(expected - {lacking}, b"")
    assert release.file_faults(contents, expected, "x.whl") == [f"x.whl lacks {lacking}"]


def test_a_wheel_with_tests_is_refused():
    expected = release.wheel_names(FILES, "1.2.0")
    contents = dict.fromkeys({*expected, "tests/release.py"}, b"")
    assert release.file_faults(contents, expected, "x.whl") == ["x.whl has tests/release.py"]


def test_versions_and_dates_of_a_tag_are_equal():
    assert release.version_faults(DOCUMENTS, "v1.2.0") == []
    assert release.version_faults(DOCUMENTS, "") == []


@pytest.mark.parametrize(
    ("document", "old", "new", "tag", "fault"),
    [
        ("pyproject.toml", "1.2.0", "1.2.0", "v1.3.0", "the tag is of version 1.3.0, pyproject"),
        ("pyproject.toml", "1.2.0", "1.2.0", "1.2.0", "the tag is 1.2.0, not v1.2.0"),
        ("CHANGELOG.md", "## 1.2.0", "## 1.3.0", "", "CHANGELOG.md is of version 1.3.0"),
        ("CITATION.cff", "\nversion: 1.2.0", "\nversion: 1.1.0", "", "CITATION.cff is of version"),
        ("CHANGELOG.md", "2027-01-31", "unreleased", "v1.2.0", "CHANGELOG.md is dated unreleased"),
        (".zenodo.json", '"1.2.0"', '"1.1.0"', "", ".zenodo.json is of version 1.1.0"),
        (".zenodo.json", "A: b", "A", "", ".zenodo.json has the title 'A', CITATION.cff 'A: b'"),
        (".zenodo.json", "MIT", "GPL", "", ".zenodo.json has the license 'GPL'"),
        ("CITATION.cff", "name: We", "name: You", "", ".zenodo.json has the name 'We'"),
        ("CITATION.cff", "2027-01-31", "2027-02-01", "", ".zenodo.json has the date-released"),
    ],
)
def test_a_version_or_date_that_differs_is_refused(document, old, new, tag, fault):
    changed = {**DOCUMENTS, document: DOCUMENTS[document].replace(old, new)}
    [found] = release.version_faults(changed, tag)
    assert found.startswith(fault)


def test_a_folder_of_this_machine_is_refused():
    contents = {
        METADATA: b"",
        "flows/cli.py": b"open('/home/me/x')",
        "weights.safetensors": b"/home/me/",
    }
    faults = release.text_faults(contents, {"/home/me"})
    assert faults == ["flows/cli.py names /home/me"]


def test_a_page_that_an_index_cannot_show_is_refused():
    page = b"Name: x\n\n[a](https://a.example/b) [b](#here) [c](docs/index.md)\n"
    [fault] = release.text_faults({METADATA: page}, set())
    assert "docs/index.md" in fault


def test_a_tag_without_an_address_is_refused():
    citation = DOCUMENTS["CITATION.cff"] + f"repository-code: https://{release.UNSET}\n"
    documents = {**DOCUMENTS, "CITATION.cff": citation}
    assert release.version_faults(documents, "") == []
    [fault] = release.version_faults(documents, "v1.2.0")
    assert fault == "CITATION.cff has hindcast.example for the address of the repository"


def test_the_notes_are_the_newest_section_of_the_changelog():
    assert release.section(DOCUMENTS["CHANGELOG.md"]) == "- New.\n"


def test_the_documents_of_this_checkout_agree():
    documents = {n: (release.ROOT / n).read_text(encoding="utf-8") for n in release.DOCUMENTS}
    assert release.version_faults(documents, "") == []
    assert f"  - name: {terms.AUTHORS}\n" in documents["CITATION.cff"]
    assert f"date-released: {terms.YEAR}-" in documents["CITATION.cff"]
