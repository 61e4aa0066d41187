"""What a report shows of the datasets that were learned from."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.errors import DatasetError
from pipeline.report.html import Markup, definitions, element, joined
from pipeline.storage.files import read_json


def dataset_part(paths: Sequence[Path]) -> Markup:
    """Facts about datasets out of their manifests, as far as the manifests state them.

    Raises DatasetError where a manifest is missing or is no JSON object.
    """
    try:
        return joined([_dataset(path) for path in paths])
    except OverflowError as error:  # a whole number beyond any float
        raise DatasetError(f"{paths[0]}: a number of its manifest is absurd ({error})") from error


def _dataset(path: Path) -> Markup:
    path = path / "manifest.json" if path.is_dir() else path
    manifest = read_json(path)
    if not isinstance(manifest, dict):
        raise DatasetError(f"{path}: expected a JSON object, found {type(manifest).__name__}")
    recipe = manifest.get("recipe")
    digest = manifest.get("digest") or manifest.get("recipe_digest") or _get(recipe, "digest")
    title = manifest.get("id") or manifest.get("name") or path.parent.name
    rows = _total(manifest, "decisions", "rows", "steps")
    size = _total(manifest, "bytes", "size_bytes")
    episodes = _total(manifest, "episodes")
    pairs = [
        ("decisions", "" if rows is None else f"{rows:,}"),
        ("episodes", "" if episodes is None else f"{episodes:,}"),
        ("size", "" if size is None else _size(size)),
        ("behaviours", ", ".join(_behaviours(manifest))),
        ("recipe", str(_get(recipe, "id") or (recipe if _is_word(recipe) else ""))),
        ("recipe digest", element("code", digest) if isinstance(digest, str) else ""),
        (
            "left out",
            _reasons(manifest.get("left_out") or _get(manifest.get("provenance"), "left_out")),
        ),
    ]
    return joined([element("h3", str(title)), definitions(pairs, "facts")])


def _behaviours(manifest: Mapping[str, Any]) -> list[str]:
    """Names of the behaviours, of what was appended too."""
    if manifest.get("behaviours"):
        return _names(manifest["behaviours"])
    appended = manifest.get("appended")
    recipes = [manifest, *(appended if isinstance(appended, list) else [])]
    names = [n for r in recipes for n in _names(_get(_get(r, "recipe"), "behaviours"))]
    return list(dict.fromkeys(names))


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else None


def _is_word(value: Any) -> bool:
    """A recipe's name, and not its whole text."""
    return isinstance(value, str) and "\n" not in value and len(value) < 100


def _total(manifest: Mapping[str, Any], *keys: str) -> int | None:
    """A count of the manifest, or the rows of a file it names, else a sum over parts, or None."""
    for key in keys:
        for place in (manifest, manifest.get("counts")):
            found = _get(place, key)
            found = _get(found, "rows") if isinstance(found, Mapping) else found
            if isinstance(found, int):
                return int(found)
    parts = manifest.get("parts")
    entries = parts if isinstance(parts, list) else []
    for key in keys:
        counts = [_get(part, key) for part in entries]
        if counts and all(isinstance(count, int) for count in counts):
            return int(sum(counts))
    return None


def _names(value: Any) -> list[str]:
    """Names out of a list of names or of objects with a name or policy, or an object by name."""
    if isinstance(value, Mapping):
        return [str(key) for key in value]
    names = []
    for entry in value if isinstance(value, list) else []:
        name = str(_get(entry, "name") or _get(entry, "policy") or entry)
        settings = ((key, _get(entry, key)) for key in ("epsilon", "temperature"))
        details = [f"{k} {v:g}" for k, v in settings if isinstance(v, int | float) and v]
        names.append(f"{name} ({', '.join(details)})" if details else name)
    return names


def _reasons(value: Any) -> str:
    """What was left out, with counts, from an object or from a list of reasons."""
    if isinstance(value, Mapping):
        return ", ".join(f"{reason}: {count}" for reason, count in value.items())
    entries = value if isinstance(value, list) else []
    return ", ".join(
        f"{entry.get('reason', '?')}: {entry.get('count', '?')}"
        if isinstance(entry, Mapping)
        else str(entry)
        for entry in entries
    )


def _size(size: int) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"
