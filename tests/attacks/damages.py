"""Random damages and what verification says: `python -m tests.attacks.damages --out FILE`.

Small datasets of all scenarios, a workload and a checkpoint are made in a scratch folder. Each
damage is a draw of a seeded generator on a fresh copy: bytes are changed, rows and values of
tables, keys of JSON files, and whole files. Half of the damages to datasets are sealed again: every
size, digest and document is recomputed from the changed files, as a hostile person can do.

    found      verification refuses the copy with one of Hindcast's errors
    equal      it does not, and every table and text that can be read is the original's
    beyond     it does not, and only BEYOND differs, which nothing in the folder can contradict
    MISSED     it does not, and something else differs
    TRACEBACK  another exception than Hindcast's

FILE is a CSV table with one line per damage. The exit code is 1 if one was MISSED or a TRACEBACK.
"""

import argparse
import csv
import json
import re
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.building.append import append
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.building.results import counts_of, describe
from hindcast.pipeline.dataset.documents.card.coverage import measure
from hindcast.pipeline.dataset.verification.verify import verify
from hindcast.pipeline.errors import HindcastError, InputError, VerificationFailed
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.storage import files
from hindcast.pipeline.workloads.folder import load_workload
from hindcast.policies.networks.checkpoint import Trained, load_policy, save
from hindcast.policies.networks.features import unscaled_map
from hindcast.policies.networks.settings import Network, NetworkSettings
from hindcast.policies.registry import behaviours, recorded_behaviours
from tests import sample_datasets
from tests.pipeline.dataset.verification.test_damage import DAMAGES, SMALL

Rng = np.random.Generator
Damage = tuple[str, str]  # kind, and the place in words

LINEAR = '{policy="random_linear", epsilon=0.1}'

# Keys of a sealed manifest that follow from no other claim of the dataset, as patterns of
# dotted paths. docs/concepts/reproducibility.md lists them in words.
BEYOND = re.compile(
    r"(appended\.\d+\.)?("
    r"id|digest|versions\..*"
    r"|recipe\.(id|description|level|trace\.path)"
    r"|recipe\.(train|evaluate|online)(\..*)?"
    r"|recipe\.split\.\w+|recipe\.dataset_splits\.\d+"
    r"|provenance\.(files\.\d+\..*|counts\..*|left_out\..*|notes\.\d+)"
    r")"
)
# Settings of the simulator, and checkpoints, that changed nothing in the recorded episodes.
WITHOUT_EFFECT = re.compile(
    r"(appended\.\d+\.)?recipe\.(config\..*|seed)|policies/[^/]+/(checkpoint\.json|weights.*)"
)


def made(folder: Path) -> dict[str, Path]:
    """Make the things that are damaged: name -> folder."""
    small = load_recipe("binpack-synthetic-v1", (
        *SMALL, f'behaviours=[{LINEAR}, {{policy="tetris", temperature=0.05}}]',
    ))  # fmt: skip
    things = {"binpack": folder / "binpack"}
    build(small, behaviours(small), things["binpack"])
    things["appended"] = Path(shutil.copytree(things["binpack"], folder / "appended"))
    more = load_recipe(
        "binpack-synthetic-v1", (*SMALL, 'behaviours=[{policy="tetris", epsilon=0.5}]')
    )
    append(more, behaviours(more), things["appended"])
    things["checkpoint"] = make_checkpoint(small, folder / "checkpoint")
    learned = load_recipe("binpack-synthetic-v1", (
        *SMALL, f'behaviours=[{{policy="{things["checkpoint"]}", temperature=1.0, epsilon=0.1}}]',
    ))  # fmt: skip
    things["learned"] = folder / "learned"
    build(learned, behaviours(learned), things["learned"])
    for name in ("thermal", "valued", "images", "recorded"):
        things[name] = getattr(sample_datasets, f"build_{name}")(folder / f"{name}-made")
    deferrable = load_recipe("deferrable-base-v1", (
        *sample_datasets.SPLITS, 'behaviours=[{policy="random", episodes=1}]',
    ))  # fmt: skip
    things["deferrable"] = folder / "deferrable"
    build(deferrable, behaviours(deferrable), things["deferrable"])
    things["workload"] = Path(shutil.copytree(things["binpack"] / "workload", folder / "workload"))
    return things


def make_checkpoint(recipe: Any, out: Path) -> Path:
    """Save a small network with random weights that acts on the recipe's scenario."""
    spec = load_scenario(recipe.scenario).spec(recipe.config, recipe.objective)
    settings = NetworkSettings(hidden=(4,), context=True)
    network = Network(
        settings,
        unscaled_map(spec.candidates, spec.learned_candidates, settings.quadratic),
        unscaled_map(spec.context, tuple(range(len(spec.context))), quadratic=False),
    )
    rng = np.random.default_rng(3)
    weights = {
        name: rng.normal(0.0, 0.05, size=shape).astype(np.float32)
        for name, shape in network.shapes.items()
    }
    return save(Trained("cloned", spec, network, weights, {}, steps=20, seed=1), out, {})


def seal(folder: Path) -> None:
    """Recompute all sizes, digests and documents of a dataset from its files, as far as possible.

    Whatever a damage has made unreadable, in any way, is left as it is.
    """
    for step in (_seal_workload, _seal_policies, _seal_manifest, _seal_documents):
        with suppress(Exception):
            step(folder)


def _seal_documents(folder: Path) -> None:
    manifest = mf.read_manifest(folder)
    episodes = pl.read_parquet(folder / manifest.episodes.path)
    files.write_json(folder / mf.NAME, mf.to_json(manifest))
    scenario = load_scenario(manifest.recipe.scenario)
    describe(folder, manifest, scenario, episodes, measure(folder, manifest, episodes))


def _entry(path: Path) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    with suppress(pa.ArrowException, OSError):
        entry["rows"] = pq.read_metadata(path).num_rows
    return {**entry, "bytes": path.stat().st_size, "sha256": files.sha256_file(path)}


def _seal_workload(folder: Path) -> None:
    path = folder / "workload" / "manifest.json"
    workload = json.loads(path.read_text())
    for entry in workload["files"]:
        if (path.parent / entry["name"]).is_file():
            entry.update(_entry(path.parent / entry["name"]))
    for entry in workload["provenance"]["files"]:
        if (folder / entry["name"]).is_file():  # recorded.parquet
            own = _entry(folder / entry["name"])
            entry.update({k: v for k, v in own.items() if k != "rows"})
    files.write_json(path, workload)


def _seal_policies(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    for behaviour in manifest["recipe"]["behaviours"]:
        if behaviour.get("sha256"):
            path = folder / behaviour["policy"] / "checkpoint.json"
            value = json.loads(path.read_text())
            value["weights"]["sha256"] = files.sha256_file(path.parent / "weights.safetensors")
            with suppress(KeyError):
                unsealed = {k: v for k, v in value.items() if k != "sealed"}
                text = json.dumps(unsealed, separators=(",", ":"))
                value["sealed"] = files.sha256_text(text)
            files.write_json(path, value)
            behaviour["sha256"] = files.sha256_file(path)
    files.write_json(folder / "manifest.json", manifest)


def _seal_manifest(folder: Path) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    for entry in [*manifest["parts"], manifest["episodes"]]:
        if (folder / entry["path"]).is_file():
            entry.update(_entry(folder / entry["path"]))
    workload = folder / "workload" / "manifest.json"
    manifest["workload_sha256"] = files.sha256_file(workload)
    recorded = {k: v for k, v in manifest["provenance"].items() if k == "recorded"}
    manifest["provenance"] = json.loads(workload.read_text())["provenance"] | recorded
    files.write_json(path, manifest)
    with suppress(HindcastError):
        own = mf.read_manifest(folder)
        manifest["digest"] = mf.digest_of(own.recipes)
        for entry, segment in zip(manifest.get("appended", []), own.appended, strict=True):
            entry["digest"] = segment.recipe.digest
        with suppress(pl.exceptions.PolarsError):
            episodes = pl.read_parquet(folder / own.episodes.path)
            manifest["counts"] = counts_of(own.parts, episodes, own.spec)
    files.write_json(path, manifest)


def damage_bytes(folder: Path, rng: Rng) -> Damage:
    """Change bytes of any file."""
    path = _any_file(folder, rng)
    change = DAMAGES[rng.integers(len(DAMAGES))]
    path.write_bytes(change(path.read_bytes() or b"\0", rng))
    return f"bytes {change.__name__}", str(path.relative_to(folder))


def damage_rows(folder: Path, rng: Rng) -> Damage:
    """Drop, repeat or exchange rows of a table, or write the same rows again."""
    path, table = _any_table(folder, rng)
    rows, kind = list(range(table.num_rows)), ("drop", "repeat", "swap", "rewrite")[rng.integers(4)]
    if rows:
        one, other = rng.integers(len(rows), size=2)
        if kind == "drop":
            del rows[one]
        elif kind == "repeat":
            rows.insert(one, rows[other])
        elif kind == "swap":
            rows[one], rows[other] = rows[other], rows[one]
    size = int(rng.integers(1, 200)) if kind == "rewrite" else None
    pq.write_table(table.take(pa.array(rows, pa.int64())), path, row_group_size=size)
    return f"rows {kind}", str(path.relative_to(folder))


def damage_value(folder: Path, rng: Rng) -> Damage:
    """Change one value of a table."""
    path, table = _any_table(folder, rng)
    if not table.num_rows:
        return "value", f"{path.relative_to(folder)}: no rows"
    at, row = int(rng.integers(table.num_columns)), int(rng.integers(table.num_rows))
    field = table.schema.field(at)
    values = table.column(at).to_pylist()
    values[row] = _changed(values[row], field.type, rng)
    with suppress(pa.ArrowException, OverflowError):
        table = table.set_column(at, field, pa.array(values, field.type))
    pq.write_table(table, path)
    return "value", f"{path.relative_to(folder)}: {field.name}, row {row}"


def damage_json(folder: Path, rng: Rng) -> Damage:
    """Change, remove or add a key of a JSON file."""
    known = sorted(p for p in folder.rglob("*.json") if p.name != "croissant.json")
    path = known[rng.integers(len(known))]
    value = json.loads(path.read_text())
    places = list(leaves(value))
    place = places[rng.integers(len(places))]
    at = value
    for key in place[:-1]:
        at = at[key]
    kind = ("change", "change", "change", "remove", "add")[rng.integers(5)]
    if kind == "change":
        at[place[-1]] = _other(at[place[-1]], rng)
    elif kind == "remove":
        del at[place[-1]]
    elif isinstance(at, dict):
        at[f"key{rng.integers(10)}"] = 1
    else:
        at.append(at[0])
    files.write_json(path, value)
    return f"json {kind}", f"{path.relative_to(folder)}: {'.'.join(map(str, place))}"


def damage_files(folder: Path, rng: Rng) -> Damage:
    """Remove, add, exchange or copy whole files."""
    one, other = _any_file(folder, rng), _any_file(folder, rng)
    kind = ("remove", "add", "swap", "copy", "folder")[rng.integers(5)]
    if kind == "remove":
        one.unlink()
    elif kind in {"add", "folder"}:
        names = ("notes.txt", "part-00077.parquet", ".hidden", "machines.parquet", "x.json")
        other = one.parent / names[rng.integers(len(names))]
        if kind == "folder":
            other.mkdir(exist_ok=True)
        else:
            shutil.copy(one, other)
    else:
        content = one.read_bytes()
        if kind == "swap":
            one.write_bytes(other.read_bytes())
        other.write_bytes(content)
    return f"files {kind}", f"{one.relative_to(folder)}, {other.relative_to(folder)}"


KINDS: tuple[Callable[[Path, Rng], Damage], ...] = (
    damage_bytes, damage_rows, damage_value, damage_value, damage_json, damage_json, damage_files,
)  # fmt: skip


def _any_file(folder: Path, rng: Rng) -> Path:
    known = sorted(p for p in folder.rglob("*") if p.is_file())
    return known[rng.integers(len(known))]


def _any_table(folder: Path, rng: Rng) -> tuple[Path, pa.Table]:
    known = [p for p in sorted(folder.rglob("*.parquet")) if pq.read_metadata(p).num_rows]
    if not known:  # a checkpoint
        return _any_file(folder, rng), pa.table({})
    path = known[rng.integers(len(known))]
    return path, pq.read_table(path)


def _changed(value: Any, kind: pa.DataType, rng: Rng) -> Any:
    """Return another value of the same type, somewhere inside of a list or struct."""
    if isinstance(value, dict) and value:
        key = list(value)[rng.integers(len(value))]
        return {**value, key: _changed(value[key], kind.field(key).type, rng)}
    if isinstance(value, list) and value:
        at = int(rng.integers(len(value)))
        return [*value[:at], _changed(value[at], kind.value_type, rng), *value[at + 1 :]]
    if isinstance(value, float) and pa.types.is_float32(kind):
        small = float(np.nextafter(np.float32(value), np.float32(np.inf)))
        return (value + 1.0, value * 0.8, value * 1.00001, small, 0.0, -value)[rng.integers(6)]
    return _other(value, rng)


def _other(value: Any, rng: Rng) -> Any:
    """Return another value of the same kind, mostly."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return (value + 1, value - 1, -value - 1, 0, value * 2)[rng.integers(5)]
    if isinstance(value, float):
        return (
            value + 1.0, value * (1 + 1e-9), value * 0.8, float(np.nextafter(value, np.inf)), 0.0,
        )[rng.integers(5)]  # fmt: skip
    if isinstance(value, str):
        at = int(rng.integers(len(value) + 1))
        return value[:at] + "abcdef0123456789"[rng.integers(16)] + value[at + 1 :]
    return (None, 1, "x", [])[rng.integers(4)]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values in a JSON value that are neither tables nor lists."""
    if not isinstance(value, dict | list) or not value:
        if path:
            yield path
        return
    for key, child in value.items() if isinstance(value, dict) else enumerate(value):
        yield from leaves(child, (*path, key))


def content(folder: Path) -> dict[str, Any]:
    """Return everything that a reader of the folder sees: tables by file, JSON by dotted key."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir():
            found[name] = None
            continue
        found[name] = path.read_bytes()
        if path.suffix == ".parquet":
            with suppress(pa.ArrowException, OSError):
                found[name] = pq.ParquetFile(path).read()
        elif path.name == "manifest.json":
            del found[name]
            value = json.loads(path.read_text())
            for place in leaves(value):
                at = value
                for key in place:
                    at = at[key]
                found[f"{name} {'.'.join(map(str, place))}"] = at
    return found


def differences(folder: Path, original: dict[str, Any]) -> list[str]:
    """Return the names of what differs between a folder and the content of its original.

    Sizes and digests are left out: they follow from the rest.
    """
    now = content(folder)
    wrong = []
    for name in sorted({*now, *original}):
        one, other = now.get(name), original.get(name)
        same = name in now and name in original and type(one) is type(other)
        if same and isinstance(one, pa.Table):
            same = pl.DataFrame(one).equals(pl.DataFrame(other))
        elif same:
            same = one == other
        if not same and not re.search(r"(sha256|bytes|sealed|workload_sha256)$", name):
            wrong.append(name)
    return wrong


READERS: dict[str, Callable[[Path], object]] = {
    "checkpoint": load_policy,
    "workload": load_workload,
}  # of what is no dataset


def verify_dataset(folder: Path) -> None:
    """Verify a dataset as the command does."""
    verify(folder, recorded_behaviours(folder), workers=1)


def judged(thing: str, folder: Path, original: dict[str, Any]) -> tuple[str, str]:
    """Return whether verification finds the damage, and the message or what differs."""
    try:
        READERS.get(thing, verify_dataset)(folder)
    except (InputError, VerificationFailed) as error:
        return "found", str(error)
    except Exception:  # noqa: BLE001 - any exception is a result of the campaign
        return "TRACEBACK", traceback.format_exc()
    wrong = differences(folder, original)
    if not wrong:
        return "equal", ""
    documents = {"README.md", "croissant.json"}  # sealed again, they follow from the rest
    keys = [name.removeprefix("manifest.json ") for name in wrong if name not in documents]
    beyond = [
        key for key in keys if BEYOND.fullmatch(key) or WITHOUT_EFFECT.fullmatch(key)
        or re.fullmatch(r"workload/manifest\.json provenance\..*", key)
        or (thing in READERS and key not in original)  # an addition that no reader opens
    ]  # fmt: skip
    result = "equal" if not keys and len(wrong) else "beyond" if keys == beyond else "MISSED"
    return result, ", ".join(wrong)


def campaign(count: int, seed: int, out: Path, scratch: Path) -> Counter[str]:
    """Make so many damages, write the table, and return the number of each result."""
    things = made(scratch)
    originals = {name: content(folder) for name, folder in things.items()}
    names, results = sorted(things), Counter[str]()
    copy = scratch / "copy"
    with out.open("w", newline="", encoding="utf-8") as handle:
        table = csv.writer(handle)
        table.writerow(("case", "thing", "damage", "place", "sealed", "result", "message"))
        for case in range(count):
            rng = np.random.default_rng([seed, case])
            name = names[rng.integers(len(names))]
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(things[name], copy)
            kind, place = KINDS[rng.integers(len(KINDS))](copy, rng)
            sealed = name not in {"workload", "checkpoint"} and bool(rng.integers(2))
            if sealed:
                seal(copy)
            result, message = judged(name, copy, originals[name])
            results[result] += 1
            table.writerow((case, name, kind, place, int(sealed), result, message))
            handle.flush()
    return results


def main(argv: list[str] | None = None) -> int:
    """Run the campaign of the command line and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="damages-") as scratch:
        results = campaign(given.count, given.seed, given.out, Path(scratch))
    print(", ".join(f"{name}: {n}" for name, n in sorted(results.items())))
    return int(bool(results["MISSED"] + results["TRACEBACK"]))


if __name__ == "__main__":
    sys.exit(main())
