"""Behaviours that are policies of the user's own: found, and named by their source files.

    policy = "my/rules.py:shortest"    as written, or "package.module:shortest"
    policy = "rules:shortest"          as read, with sha256 = "1f2e3d4c..." of the source file

`sha256` enters the recipe's digest, paths of this machine do not. The code is not copied into the
dataset, and a name in a manifest is never imported: such a dataset is verified by its recorded
choices. This module reads source files and does not run them, see hindcast.policies.own_policy.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hindcast.pipeline.errors import InputError, RecipeError
from hindcast.pipeline.plugins import is_label, is_reference, source_of

_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def check_code(policy: str, sha256: str, where: str) -> None:
    """Raise RecipeError for an own policy that is not named by its source file."""
    if not (is_label(policy) and _SHA256.fullmatch(sha256)):
        raise RecipeError(
            f"{where}: the behaviour {policy[:80]!r} has sha256 {sha256[:80]!r}; expected "
            "path/to/file.py:name or module:name of a policy of your own"
        )


def pin_code(
    table: Mapping[str, Any], base: Path | None, where: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a recipe's table with own policies named by content, and their references.

    The behaviours must come from the user: from a recipe file or from overrides. `base` is the
    folder of the recipe file. Raises InputError for a file or module that does not exist, or that
    differs from the sha256 in the recipe.
    """
    behaviours = table.get("behaviours")
    code: dict[str, str] = {}
    if "behaviours_from" in table or not isinstance(behaviours, Sequence):
        return dict(table), {}
    pinned = []
    for behaviour in behaviours:
        policy = behaviour.get("policy") if isinstance(behaviour, Mapping) else None
        if not isinstance(policy, str) or not is_reference(policy):
            pinned.append(behaviour)
            continue
        try:
            source = source_of(policy, base)
        except InputError as error:
            raise type(error)(f"{where}: {error}") from error
        claimed = behaviour.get("sha256", "")
        if claimed and claimed != source.sha256:
            raise RecipeError(
                f"{where}: the behaviour {policy!r} changed: the SHA-256 of {source.path} is "
                f"{source.sha256[:12]}..., the recipe says {str(claimed)[:12]}..."
            )
        if code.setdefault(source.label, source.reference) != source.reference:
            raise RecipeError(
                f"{where}: {policy!r} and {code[source.label]!r} would have the same name "
                f"{source.label!r}; rename one of the files"
            )
        pinned.append({**behaviour, "policy": source.label, "sha256": source.sha256})
    return {**table, "behaviours": pinned}, code
