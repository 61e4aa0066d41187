"""Ledger of a run: its finished stages with their inputs and outputs.

    DIR/run.json
      recipe, digest     the recipe, or another thing with stages, that this folder belongs to
      stages             name -> inputs (JSON), output (path below DIR), sha256 (of the output)

A stage is finished if its inputs equal those of its entry and its output, the file that it writes
last, still has the SHA-256 of the entry. Inputs contain digests of what a stage reads, so if a
stage writes something else, the stages that read it are run again.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from hindcast.flows.progress import note
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.storage.files import make_folder, read_json, sha256_file, write_json
from hindcast.pipeline.storage.run_files import LEDGER

_NUMBER: Final = (int, float)
_Form: TypeAlias = Mapping[str, type | tuple[type, ...]]  # key of a result -> type of its value
_RESULTS: Final[Mapping[str, _Form]] = {  # by the first word of a stage of a run
    "build": {"dataset": str, "episodes": int, "decisions": int, "bytes": int, "digest": str},
    "verify": {"dataset": str, "checks": list},
    "train": {"checkpoint": str, "agent": str, "steps": int},
    "evaluate": {"evaluation": str, "split": str, "means": dict},
    "report": {"report": str},
}
# By kind of ledger whose stages have names of their own and results that are alike.
_RESULTS_OF_KIND: Final[Mapping[str, _Form]] = {"reproduction": {"seconds": _NUMBER}}


class Ledger:
    """Ledger of one run folder, with the result of every finished stage.

    `name` and `digest` are those of the recipe of a run, or of another thing that has stages; then
    `kind` is the word for it. Raises DatasetError if the folder belongs to another one.
    """

    def __init__(self, folder: Path, name: str, digest: str, kind: str = "run") -> None:
        self._folder = folder
        self._path = folder / LEDGER
        self._header = {"kind": kind, "recipe": name, "digest": digest}
        self._stages: dict[str, Any] = {}
        if self._path.exists():
            self._stages = self._read()

    def _read(self) -> dict[str, Any]:
        value = read_json(self._path)
        stages = value.get("stages") if isinstance(value, dict) else None
        if not isinstance(stages, dict):
            raise DatasetError(f"{self._path}: is not the ledger of a run; choose another --out")
        if value.get("digest") != self._header["digest"]:
            noun = "recipe" if self._header["kind"] == "run" else self._header["kind"]
            ours = self._header["recipe"]
            raise DatasetError(
                f"{self._folder}: holds a {value.get('kind', 'run')} of {value.get('recipe')} with "
                f"digest {str(value.get('digest'))[:12]}, but this {noun}, {ours}, "
                f"has {self._header['digest'][:12]}; choose another --out"
            )
        return stages

    def stage(
        self,
        name: str,
        inputs: Mapping[str, Any],
        output: Path,
        run: Callable[[], dict[str, Any]],
    ) -> dict[str, Any]:
        """Return the result of a stage, which is run unless an earlier result is still valid."""
        if self.is_finished(name, inputs, output):
            note(f"{name}: finished before, skipped ({output})")
            return self.result_of(name)
        note(f"{name}: started")
        result = run()
        self.record(name, inputs, output, result)
        return result

    def record(
        self, name: str, inputs: Mapping[str, Any], output: Path, result: dict[str, Any]
    ) -> None:
        """Write down a stage that has just finished."""
        self._stages[name] = {
            "inputs": dict(inputs),
            "output": str(output.relative_to(self._folder)),
            "sha256": sha256_file(output),
            "result": result,
        }
        make_folder(self._folder)
        self._write()

    def result_of(self, name: str) -> dict[str, Any]:
        """Return the result of a finished stage."""
        result: dict[str, Any] = self._stages[name]["result"]
        return result

    def is_finished(self, name: str, inputs: Mapping[str, Any], output: Path) -> bool:
        """Return whether the result of an earlier run of a stage is still valid."""
        entry = self._stages.get(name)
        return (
            isinstance(entry, dict)
            and entry.get("inputs") == inputs
            and output.is_file()
            and _is_result(self._form_of(name), entry.get("result"))
            and entry.get("sha256") == sha256_file(output)
        )

    def differs(self, name: str, inputs: Mapping[str, Any]) -> bool:
        """Return whether an earlier run has finished this stage with other inputs."""
        entry = self._stages.get(name)
        return isinstance(entry, dict) and entry.get("inputs") != inputs

    def forget(self, name: str) -> None:
        """Remove the entry of a stage, which is then not finished."""
        del self._stages[name]
        self._write()

    def _write(self) -> None:
        write_json(self._path, {**self._header, "stages": self._stages})

    def _form_of(self, stage: str) -> _Form:
        own = _RESULTS_OF_KIND.get(self._header["kind"])
        return _RESULTS.get(stage.partition(" ")[0], {}) if own is None else own


def _is_result(form: _Form, result: Any) -> bool:
    """Return whether an entry's result has the form that its stage returns.

    It is checked because a run folder may come from a stranger and the result is printed.
    """
    if not isinstance(result, dict):
        return False
    checks, means = result.get("checks", []), result.get("means", {})
    findings = result.get("findings", [])
    return (
        all(isinstance(result.get(key), kind) for key, kind in form.items())
        and all(isinstance(c, dict) and {"check", "detail"} <= c.keys() for c in checks)
        and all(isinstance(mean, _NUMBER) for mean in means.values())
        and isinstance(findings, list)
        and all(isinstance(finding, str) for finding in findings)
    )
