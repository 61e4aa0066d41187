"""Reader of VowpalWabbit's cb_adf text: a line per candidate, blocks that end in an empty line.

    shared |u hour:8 tier=basic
    |a x:0.9 y:4.91
    0:-0.852:0.7615 |a x:0.48 y:0.99        action:cost:probability of the taken one

The action number has no meaning here. A block has no id: ids are 0, 1, ... in the order of the
file. A block without a label is counted. A feature alone is 1; `namespace:v` scales its features.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from hindcast.pipeline.decisions.batch import TERM, Batch, Reading
from hindcast.pipeline.decisions.shapes.nested import Bad, number
from hindcast.pipeline.decisions.shapes.records import BATCH, Collector, Sparse, lines_of
from hindcast.pipeline.errors import TraceError

COST: Final = TERM + "cost"
_NAMES: Final = ("id", "file", "line", "chosen", "propensity", "reason", COST)
_NAN: Final = float("nan")

Line = tuple[int, str]


def read_cb_adf(paths: list[Path], reading: Reading) -> Iterator[Batch]:
    """Yield the decisions of cb_adf files."""
    collector, number_of_block = Collector(_NAMES, 0.0), 0
    for file, path in enumerate(paths):
        for block in _blocks(path):
            _refuse_fixed(path, block)
            _add(collector, block, file, number_of_block, reading)
            number_of_block += 1
            if len(collector) >= BATCH:
                yield collector.batch()
    if len(collector):
        yield collector.batch()


def _blocks(path: Path) -> Iterator[list[Line]]:
    """Yield the lines of each decision, which a blank line ends."""
    block: list[Line] = []
    for line, content in lines_of(path):
        text = content.decode("utf-8", errors="replace").strip()
        if not text:
            if block:
                yield block
            block = []
        else:
            block.append((line, text))
    if block:
        yield block


def _head(text: str) -> tuple[str, list[str], str]:
    """Return the label and the tag before the bar, and what follows it."""
    before, bar, after = text.partition("|")
    if not bar:
        raise Bad(f"a line without `|`: {text[:60]}")
    return before, before.split(), after


def _label(tokens: list[str]) -> list[str] | None:
    return next((t.split(":") for t in tokens if ":" in t and not t.startswith("'")), None)


def _refuse_fixed(path: Path, block: list[Line]) -> None:
    """Raise TraceError for `--cb` text, where a line is a decision over fixed actions."""
    labels = [_label(text.partition("|")[0].split()) for _, text in block]
    fixed = [n for n in labels if n is not None and n[0].isdigit() and int(n[0]) > 0]
    if len(fixed) == len(block) and not block[0][1].startswith("shared"):
        raise TraceError(
            f"{path}: line {block[0][0]} is `--cb` text, action:cost:probability and features on "
            "one line: it names no candidates, expected cb_adf text with a line per candidate"
        )


def _add(
    to: Collector, block: list[Line], file: int, number_of_block: int, reading: Reading
) -> None:
    """Add the decision of a block, if it has a label."""
    shared = [text for _, text in block if text.split("|")[0].split()[:1] == ["shared"]]
    lines = [item for item in block if item[1].split("|")[0].split()[:1] != ["shared"]]
    labels = [_label(text.partition("|")[0].split()) for _, text in lines]
    if not any(labels):
        reading.count("without_label")
        return
    owner, start = len(to.lengths), len(to.ids)
    meta: dict[str, Any] = {
        "id": str(number_of_block),
        "file": file,
        "line": block[0][0],
        "reason": None,
    }
    to.lengths.append(len(lines))
    for place, (_, text) in enumerate(lines):
        tags = [t for t in text.partition("|")[0].split() if t.startswith("'") or ":" not in t]
        to.ids.append(tags[-1].lstrip("'") if tags else str(place))
    to.feasible.extend([True] * len(lines))
    to.probability.extend([_NAN] * len(lines))
    try:
        for text in shared:
            _features(to.context, owner, text)
        for place, (_, text) in enumerate(lines):
            _features(to.features, start + place, text)
        meta |= _choice([label or [] for label in labels])
    except Bad as error:
        meta["reason"] = str(error)
    to.add(meta)


def _choice(labels: list[list[str]]) -> dict[str, Any]:
    """Return the choice, its cost and its probability, of the labels of the candidates."""
    taken = [k for k, label in enumerate(labels) if label]
    if len(taken) > 1:
        raise Bad(f"{len(taken)} candidates are chosen, expected one")
    _, cost, probability = [*labels[taken[0]], None, None][:3]
    return {
        "chosen": taken[0],
        COST: number(cost, "the cost"),
        "propensity": number(probability, "the probability"),
    }


def _features(to: Sparse, owner: int, text: str) -> None:
    """Add the features of a line to their owner."""
    _, _, after = _head(text)
    for part in after.split("|"):
        tokens = part.split()
        prefix, scale = "", 1.0
        if tokens and not part[:1].isspace():
            name, _, value = tokens.pop(0).partition(":")
            prefix = f"{name}." if name else ""
            scale = number(value, f"the value of the namespace {name}") if value else 1.0
        for token in tokens:
            name, colon, value = token.rpartition(":")
            if not colon:
                name, value = token, "1"
            to.number(f"{prefix}{name}", owner, scale * number(value, f"the value of {name}"))
