"""What can go wrong, drawn once.

    HindcastError
    +-- InputError              the user gave something unusable       exit code 2
    |   +-- TraceError          a raw trace file, its rows, its columns
    |   +-- RecipeError         a recipe: unknown key, wrong type, value out of range
    |   +-- UnknownName         a policy, scenario, format, objective that does not exist
    |   +-- DatasetError        a folder that is not a dataset, workload or checkpoint
    |   +-- StorageError        a folder that cannot be written, a full disk
    +-- VerificationFailed      a dataset does not keep what its manifest says   exit code 1
    +-- InfeasibleChoice        a policy chose a row that the mask forbids

The command line prints the message of an InputError as one line; everything a reader needs
(file, row, column or key, what was expected, the nearest valid thing) is in the message.
"""

import difflib
from collections.abc import Iterable


class HindcastError(Exception):
    """Root of every error that Hindcast raises on purpose."""


class InputError(HindcastError):
    """Something given by the user cannot be used; the message says what, where and what to do."""


class TraceError(InputError):
    """A raw trace file cannot be read as the format that was named."""


class RecipeError(InputError):
    """A recipe or a `--set` override is not valid."""


class UnknownName(InputError):
    """A name that is not in its registry; see `unknown_name`."""


class DatasetError(InputError):
    """A folder or file is not the dataset, workload or checkpoint that it should be."""


class StorageError(InputError):
    """Writing failed: no permission, no space, not a folder; or a store refused, or is away."""


class VerificationFailed(HindcastError):
    """A dataset's content differs from what its manifest claims."""


class InfeasibleChoice(HindcastError):
    """A choice outside the candidates, or one that the mask forbids."""


def nearest(name: str, options: Iterable[str]) -> str | None:
    """The option most like `name`, or None where nothing is similar."""
    found = difflib.get_close_matches(name, list(options), n=1, cutoff=0.5)
    return found[0] if found else None


def did_you_mean(name: str, options: Iterable[str]) -> str:
    """A clause for an error message: the nearest option, else all of them."""
    known = sorted(options)
    close = nearest(name, known)
    return f"did you mean {close!r}?" if close else f"known: {', '.join(known)}"


def unknown_name(kind: str, name: str, options: Iterable[str]) -> UnknownName:
    """The error for `name` missing from a registry of `kind` ("policy", "scenario", ...)."""
    return UnknownName(f"unknown {kind} {name!r}; {did_you_mean(name, options)}")
