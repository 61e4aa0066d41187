"""A proposal of a mapping as TOML, with what is unsure as comments."""

import json
from collections.abc import Mapping

from hindcast.pipeline.errors import printable
from hindcast.pipeline.traces.tables.draft import Proposal
from hindcast.pipeline.traces.tables.mapping import MEMORY


def toml_of(proposal: Proposal, file: str) -> str:
    """Return a proposal as the TOML of a mapping of the table `file`."""
    lines = [_comment(proposal.known)] if proposal.known else []
    lines += [_comment(note) for note in proposal.notes]
    lines.append(f"file = {_quoted(file)}")
    if proposal.separator != ",":
        lines.append(f"separator = {_quoted(proposal.separator)}")
    if proposal.names:
        lines.append(f"names = [{', '.join(map(_quoted, proposal.names))}]")
    lines += [
        "# processors = 1024            # of the cluster; else the most in use at one moment",
        '# time_zone = "Europe/Berlin"  # of times without an offset; else UTC',
    ]
    if MEMORY in proposal.columns:
        lines.append(f"memory_of = {_quoted(proposal.memory_of)}")
    lines += ["", *(_comment(f"unsure: {question}") for question in proposal.unsure)]
    lines += ["", "[columns]"]
    lines += [
        f"{name} = {label[1:] if label.startswith('=') else _quoted(label)}"
        for name, label in proposal.columns.items()
    ]
    if proposal.unused:
        lines.append(_comment(f"not read: {', '.join(proposal.unused)}"))
    sections: dict[str, Mapping[str, str | list[str]]] = {
        "parts": proposal.parts,
        "units": proposal.units,
        "states": proposal.states,
        **proposal.sections,
    }
    for section, values in sections.items():
        if values:
            lines += ["", f"[{section}]"]
            lines += [f"{name} = {_value(value)}" for name, value in values.items()]
    return "\n".join(lines) + "\n"


def _value(value: str | list[str]) -> str:
    return _quoted(value) if isinstance(value, str) else f"[{', '.join(map(_quoted, value))}]"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _comment(text: str) -> str:
    return f"# {printable(text)}"
