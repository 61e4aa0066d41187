"""Tests that a wrong value at any key of any JSON file is found or does no harm."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.verification.verify import verify
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.evaluation.summary.evaluations import read_evaluation, read_scores
from hindcast.pipeline.workloads.folder import load_workload
from hindcast.policies.networks.checkpoint import load_policy
from tests.pipeline.hostile.tampering import (
    VALUES,
    changed,
    command,
    leaves,
    mend,
    read_all,
    refused,
    tried,
)


@pytest.mark.slow
def test_a_wrong_value_anywhere_in_a_manifest_is_found(folder):
    found = tried(folder / "manifest.json", [lambda: verify(folder)], each=3)
    assert found["cases"] > 1000
    assert found["accepted"] == 0


@pytest.mark.slow
def test_a_wrong_value_in_a_manifest_harms_no_reader(folder):
    """Without verification, readers use what is valid and refuse the rest."""
    found = tried(folder / "manifest.json", [lambda: ds.open(folder)], each=2)
    assert 0 < found["accepted"] < found["cases"]


@pytest.mark.nightly
def test_a_wrong_value_in_a_workload_manifest_is_found(folder):
    found = tried(folder / "workload" / "manifest.json", [lambda: verify(folder)], each=len(VALUES))
    assert found["accepted"] == 0
    found = tried(
        folder / "workload" / "manifest.json", [lambda: load_workload(folder / "workload")], each=8
    )
    assert found["cases"] > 100


@pytest.mark.slow
def test_a_wrong_value_in_a_recipe_with_its_digest_mended_is_harmless(folder):
    """Settings behind a fitting digest must not exhaust memory or crash any reader."""
    text, rng = (folder / "manifest.json").read_text(), np.random.default_rng(9)
    manifest = json.loads(text)
    for section in ("config", "split", "behaviours", "dataset_splits"):
        for path in leaves({section: manifest["recipe"][section]}):
            for value in rng.permutation(np.array(VALUES, object))[:5]:
                recipe, different = changed(manifest["recipe"], path, value)
                if different and not (isinstance(value, float) and np.isnan(value)):
                    with suppress(UnicodeEncodeError):
                        mend(folder, recipe=recipe)
                        refused(lambda: verify(folder))
                    (folder / "manifest.json").write_text(text)


def evaluation_of(tiny_recipe: Any, out: Path) -> Path:
    """Make a small evaluation."""
    from hindcast.pipeline.evaluation.evaluate import evaluate
    from hindcast.policies.entrants import entrants

    evaluate(tiny_recipe, entrants(tiny_recipe, ["random", "first_fit"]), split="test", out=out)
    return out


@pytest.mark.slow
def test_a_wrong_value_in_an_evaluation_is_harmless(tiny_recipe, tmp_path, capsys):
    out = evaluation_of(tiny_recipe, tmp_path / "evaluation")
    found = tried(out / "evaluation.json", [lambda: read_evaluation(out)], each=6)
    assert 0 < found["accepted"] < found["cases"]
    (out / "scores.parquet").write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    assert "scores.parquet" in refused(lambda: read_scores(out))
    code, said = command(capsys, "report", out, "--out", tmp_path / "report", "--direct")
    assert (code, said.count("\n")) == (2, 1)


@pytest.mark.slow
def test_a_wrong_value_in_a_checkpoint_is_found(checkpoint):
    found = tried(checkpoint / "checkpoint.json", [lambda: load_policy(checkpoint)], each=2)
    assert found["cases"] > 100
    assert found["accepted"] == 0


@pytest.mark.slow
def test_a_hostile_ledger_is_harmless(tmp_path):
    """A run.json with any values is refused, or its stages run again."""
    from hindcast.flows.runs.ledger import Ledger
    from hindcast.pipeline.recipes.loading import load_recipe

    recipe = load_recipe("binpack-synthetic-v1")
    output = tmp_path / "out"
    output.write_text("made")
    result = {"report": "out"}

    def run() -> dict[str, Any]:
        return result

    Ledger(tmp_path, recipe.id, recipe.digest).stage("report", {"a": 1}, output, run)

    def again() -> None:
        assert (
            Ledger(tmp_path, recipe.id, recipe.digest).stage("report", {"a": 1}, output, run)
            == result
        )

    text = (tmp_path / "run.json").read_text()
    value = json.loads(text)
    for path in leaves(value):
        for wrong in VALUES:
            hostile, _different = changed(value, path, wrong)
            (tmp_path / "run.json").write_text(json.dumps(hostile), errors="surrogatepass")
            try:
                found = Ledger(tmp_path, recipe.id, recipe.digest).stage(
                    "report", {"a": 1}, output, run
                )
            except InputError:
                continue
            assert isinstance(found["report"], str)
    (tmp_path / "run.json").write_text(text)
    again()


@pytest.mark.parametrize(
    "shape", [[10**9], [-1], [0], [2**31, 2**31], [1] * 1000 + [10**7], [1.5], "x", None]
)
def test_an_image_of_any_size_allocates_nothing(folder, shape):
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["spec"]["image_shape"] = shape
    (folder / "manifest.json").write_text(json.dumps(manifest))
    for read in read_all(folder):
        refused(read)


@pytest.mark.parametrize("key", ["rows", "bytes"])
@pytest.mark.parametrize("value", [2**62, 10**30, 2**40, -1])
def test_claims_of_any_size_allocate_nothing(folder, key, value):
    for entry in ("parts", "episodes"):
        manifest = json.loads((folder / "manifest.json").read_text())
        (manifest["parts"][0] if entry == "parts" else manifest["episodes"])[key] = value
        (folder / "manifest.json").write_text(json.dumps(manifest))
        refused(lambda: verify(folder))
