"""Parser of the `Attributes:` sections of docstrings, from which references of settings are made.

    Attributes:
        machines: Number of machines, at least 1.
        speed: Speed of a machine, in
            jobs per step.

becomes {"machines": "Number of machines, at least 1.", "speed": "Speed of a machine, in jobs per
step."}.
"""

import inspect
import re
from typing import Final

_ENTRY: Final = re.compile(r"(\w+)(?: \([^)]*\))?: (.*)")


def attributes(kind: type) -> dict[str, str]:
    """Return the meanings of the attributes of a class, by name, as its docstring lists them.

    An entry is `name: text` or `name (type): text`; continuation lines are indented further. The
    section ends at the first line that is not indented. A class without a section has no entries.
    """
    lines = (inspect.getdoc(kind) or "").splitlines()
    if "Attributes:" not in lines:
        return {}
    found: dict[str, list[str]] = {}
    indent = 0
    for line in lines[lines.index("Attributes:") + 1 :]:
        text = line.strip()
        depth = len(line) - len(line.lstrip())
        if not text:
            continue
        if not depth:
            break
        indent = indent or depth
        entry = _ENTRY.fullmatch(text) if depth == indent else None
        if entry is not None:
            found[entry[1]] = [entry[2]]
        elif found:
            found[next(reversed(found))].append(text)
    return {name: " ".join(texts) for name, texts in found.items()}
