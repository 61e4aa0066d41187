"""The exceptions of Hindcast.

    HindcastError
    +-- InputError              the user gave something unusable       exit code 2
    |   +-- TraceError          a raw trace file, its rows, its columns
    |   +-- RecipeError         a recipe: unknown key, wrong type, value out of range
    |   +-- UnknownName         a policy, scenario, format or objective that does not exist
    |   +-- PolicyFault         a policy of the user's own that fails or scores wrongly
    |   +-- DatasetError        a folder that is not a dataset, workload or checkpoint
    |   +-- StorageError        a folder that cannot be written, a full disk
    |       +-- FolderBusy      a folder that another process is writing
    |       +-- StoreUnavailable  an object store that does not answer, or not now
    +-- VerificationFailed      a dataset does not match its manifest   exit code 1
    +-- InfeasibleChoice        a policy chose a row that the mask forbids

The command line prints the message of an InputError on one line. The message names the file, row,
column or key, says what was expected, and suggests the nearest valid name.
"""

import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_PATH: Final = re.compile(
    r"[.~].*|.*/.*|.*\.(csv|gz|html|json|jsonl|log|parquet|py|swf|toml|tsv|txt|zip)", re.DOTALL
)


class HindcastError(Exception):
    """Base class of every error that Hindcast raises on purpose."""


class InputError(HindcastError):
    """Unusable input of the user. The message says what is wrong, where, and what to do."""


class TraceError(InputError):
    """A raw trace file that cannot be read in the format that was named."""


class RecipeError(InputError):
    """A recipe or a `--set` override that is not valid."""


class UnknownName(InputError):
    """A name that its registry does not hold, see `unknown_name`."""


class PolicyFault(InputError):
    """A policy of the user's own that raises an error, or whose scores cannot be used.

    Args:
        message: The policy, what it did and what was expected.
        place: Number of the observation in the batch that was scored, or of its episode.
    """

    def __init__(self, message: str, place: int = 0) -> None:
        super().__init__(message)
        self.place = place

    def __reduce__(self) -> tuple[type["PolicyFault"], tuple[str, int]]:
        """Return the parts from which another process makes the error again."""
        return PolicyFault, (str(self), self.place)


class DatasetError(InputError):
    """A folder or file that is not the dataset, workload or checkpoint it should be."""


class StorageError(InputError):
    """A failed write (permission, space, no folder), or a store that refuses or does not answer."""


class FolderBusy(StorageError):
    """A folder that another process is writing for longer than this one waits."""


class StoreUnavailable(StorageError):
    """An object store that cannot be reached or refuses a request for now; a later try may work."""


class VerificationFailed(HindcastError):
    """A dataset whose content differs from what its manifest claims."""


class InfeasibleChoice(HindcastError):
    """A choice that is not one of the candidates, or that the mask forbids."""


def printable(text: str) -> str:
    """Return text of strangers with control characters escaped, which a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def nearest(name: str, options: Iterable[str]) -> str | None:
    """Return the option most similar to `name`, or None if no option is similar."""
    found = difflib.get_close_matches(name, list(options), n=1, cutoff=0.5)
    return found[0] if found else None


def did_you_mean(name: str, options: Iterable[str]) -> str:
    """Return a clause for an error message: the nearest option, or else all options."""
    known = sorted(options)
    close = nearest(name, known)
    return f"did you mean {close!r}?" if close else f"known: {', '.join(known)}"


def is_path(name: str) -> bool:
    """Return whether a text can only be meant as a path: a/b, ./a, ~, jobs.swf."""
    return _PATH.fullmatch(name) is not None


def no_such_path(path: str, expected: str, options: Iterable[str] = ()) -> str:
    """Return the message for a path that does not exist, with the nearest option, if any is."""
    close = nearest(Path(path).name, options)
    hint = f"; did you mean {close!r}?" if close else ""
    return f"{path}: no such file or folder, expected {expected}{hint}"


def unknown_name(kind: str, name: str, options: Iterable[str]) -> UnknownName:
    """Return the error for a `name` that a registry of `kind` ("policy", ...) does not hold."""
    if is_path(name):
        expected = f"the name of a known {kind}"
        if Path(name).exists():
            return UnknownName(f"{name}: this is a path, expected {expected}")
        return UnknownName(no_such_path(name, expected, options))
    return UnknownName(f"unknown {kind} {name!r}; {did_you_mean(name, options)}")
