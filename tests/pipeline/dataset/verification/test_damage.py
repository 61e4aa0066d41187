"""Tests that damage to any byte of a dataset or a checkpoint is reported without a traceback.

Every case is a draw of one seeded generator, so a failing case can be repeated by its number.
"""

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.verification.verify import verify
from hindcast.pipeline.errors import InputError, VerificationFailed
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.policies.networks.checkpoint import Trained, load_policy, save
from hindcast.policies.networks.features import unscaled_map
from hindcast.policies.networks.settings import Network, NetworkSettings
from hindcast.policies.registry import behaviours

pytestmark = pytest.mark.slow

CASES = 1000
DOCUMENTS = 24  # to be compared, README.md and croissant.json are written again
CHECKPOINTS = 400
SMALL = (
    "trace.settings.n_jobs=16",
    "trace.settings.instances_scale=0.02",
    "config.jobs_per_window=2",
    "config.machines=2",
    'split.train="0..1"',
    'split.validation="2..2"',
    'split.test="3..4"',
)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a dataset of two parts and a few kilobytes, which verifies quickly."""
    recipe = load_recipe("binpack-synthetic-v1", SMALL)
    out = tmp_path_factory.mktemp("damage") / "small"
    build(recipe, behaviours(recipe), out)
    verify(out)
    return out


def flipped(content: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(content)
    changed[rng.integers(len(content))] ^= int(rng.integers(1, 256))
    return bytes(changed)


def truncated(content: bytes, rng: np.random.Generator) -> bytes:
    return content[: rng.integers(len(content))]


def inserted(content: bytes, rng: np.random.Generator) -> bytes:
    at = int(rng.integers(len(content) + 1))
    return content[:at] + rng.bytes(int(rng.integers(1, 9))) + content[at:]


def zeroed(content: bytes, rng: np.random.Generator) -> bytes:
    at = int(rng.integers(len(content)))
    length = min(int(rng.integers(1, 65)), len(content) - at)
    return content[:at] + bytes(length) + content[at + length :]


def removed(content: bytes, rng: np.random.Generator) -> bytes:
    at = int(rng.integers(len(content)))
    return content[:at] + content[at + int(rng.integers(1, 65)) :]


DAMAGES: tuple[Callable[[bytes, np.random.Generator], bytes], ...] = (
    flipped, flipped, flipped, truncated, inserted, zeroed, removed,
)  # fmt: skip


def undetected(
    files: list[Path], check: Callable[[], object], cases: int, seed: int
) -> list[tuple[int, str, str]]:
    """Return the cases of damage to a file that `check` does not report as a Hindcast error."""
    rng, missed = np.random.default_rng(seed), []
    for case in range(cases):
        path = files[rng.integers(len(files))]
        damage = DAMAGES[rng.integers(len(DAMAGES))]
        content = path.read_bytes()
        changed = damage(content, rng)
        if changed == content:
            continue
        path.write_bytes(changed)
        with suppress(InputError, VerificationFailed):
            check()
            missed.append((case, path.name, damage.__name__))
        path.write_bytes(content)
    check()
    return missed


@pytest.mark.nightly
def test_a_thousand_damages_to_a_dataset_are_all_found(small, tmp_path):
    """Flips, truncations, insertions and holes are found in all files."""
    copy = Path(shutil.copytree(small, tmp_path / "copy"))
    documents = {"README.md", "croissant.json"}
    files = sorted(p for p in copy.rglob("*") if p.is_file() and p.name not in documents)
    assert {p.name for p in files} >= {"manifest.json", "episodes.parquet", "part-00000.parquet"}
    assert undetected(files, lambda: verify(copy), CASES, seed=4) == []


def test_damage_to_the_documents_is_found(small, tmp_path):
    copy = Path(shutil.copytree(small, tmp_path / "copy"))
    files = [copy / "README.md", copy / "croissant.json"]
    assert undetected(files, lambda: verify(copy), DOCUMENTS, seed=5) == []


def test_every_byte_of_white_space_in_the_manifest_counts(small, tmp_path):
    """The manifest is canonical, so changed white space is found."""
    copy = Path(shutil.copytree(small, tmp_path / "copy"))
    path = copy / "manifest.json"
    text = path.read_text()
    for changed in (text + "\n", text.rstrip("\n"), text.replace(": ", ":", 1), text + "{}"):
        path.write_text(changed)
        with pytest.raises((InputError, VerificationFailed), match=r"manifest\.json"):
            verify(copy)


def test_a_key_twice_in_the_manifest_is_found(small, tmp_path):
    """JSON readers take the last of two equal keys, so a hidden first one is refused."""
    copy = Path(shutil.copytree(small, tmp_path / "copy"))
    path = copy / "manifest.json"
    path.write_text(path.read_text().replace("{\n", '{\n  "id": "another",\n', 1))
    with pytest.raises(VerificationFailed, match=r"manifest\.json: this manifest was changed"):
        verify(copy)


def test_a_version_that_was_edited_is_found(small, tmp_path):
    """The seal finds an edited version although no other file repeats it."""
    copy = Path(shutil.copytree(small, tmp_path / "copy"))
    path = copy / "manifest.json"
    path.write_text(path.read_text().replace('"python": "3', '"python": "4', 1))
    with pytest.raises(VerificationFailed, match=r"manifest\.json: this manifest was changed"):
        verify(copy)


def test_files_in_each_others_place_are_found(small, tmp_path):
    """Every pair of files of a dataset is swapped in turn."""
    copy = Path(shutil.copytree(small, tmp_path / "copy"))
    files = sorted(p for p in copy.rglob("*") if p.is_file())
    for i, one in enumerate(files):
        for other in files[:i]:
            contents = one.read_bytes(), other.read_bytes()
            one.write_bytes(contents[1])
            other.write_bytes(contents[0])
            with pytest.raises((InputError, VerificationFailed)):
                verify(copy)
            one.write_bytes(contents[0])
            other.write_bytes(contents[1])
    verify(copy)


def test_a_file_that_is_gone_is_missed(small, tmp_path):
    copy = Path(shutil.copytree(small, tmp_path / "copy"))
    for path in sorted(p for p in copy.rglob("*") if p.is_file()):
        content = path.read_bytes()
        path.unlink()
        with pytest.raises((InputError, VerificationFailed), match=path.name.replace(".", r"\.")):
            verify(copy)
        path.write_bytes(content)
    verify(copy)


@pytest.fixture
def checkpoint(tiny_dataset, tmp_path) -> Path:
    """Return a small network that acts, with random weights."""
    from hindcast.pipeline import dataset as ds

    spec = ds.open(tiny_dataset).spec
    settings = NetworkSettings(hidden=(8,), context=True)
    network = Network(
        settings,
        unscaled_map(spec.candidates, spec.learned_candidates, settings.quadratic),
        unscaled_map(spec.context, tuple(range(len(spec.context))), quadratic=False),
    )
    rng = np.random.default_rng(3)
    weights = {
        name: rng.normal(size=shape).astype(np.float32) for name, shape in network.shapes.items()
    }
    trained = Trained("cloned", spec, network, weights, {"rate": 0.1}, steps=20, seed=1)
    return save(trained, tmp_path / "checkpoint", {"dataset": "of a test"})


def test_damage_to_a_checkpoint_is_all_found(checkpoint):
    files = sorted(checkpoint.iterdir())
    assert undetected(files, lambda: load_policy(checkpoint), CHECKPOINTS, seed=6) == []
