"""Reference pages of the command line: one per command, from the parser of that command."""

import argparse
from collections.abc import Mapping

from docs.generate.text import code, contents, prose, sentence, table
from hindcast.flows import commands
from hindcast.flows.parser import EPILOG, command_parser


def command_pages() -> Mapping[str, str]:
    """Return the index of the commands, and the page of every command."""
    names = list(commands.SUMMARIES)
    pages = {f"commands/{name}.md": _page(name) for name in names}
    notes = EPILOG.partition("\n\n")[2]
    groups = [
        f"## {title.capitalize()}\n\n" + table(["command", "purpose"], [
            [f"[`hindcast {name}`]({name}.md)", sentence(summary)]
            for name, summary in summaries.items()
        ])
        for title, summaries in commands.GROUPS.items()
    ]  # fmt: skip
    parts = ["# Command line", notes, *groups, contents(names)]
    return {"commands/index.md": "\n\n".join(parts), **pages}


def _page(name: str) -> str:
    parser = command_parser(name)
    usage = parser.format_usage().removeprefix("usage: ")
    parts = [f"# hindcast {name}", prose_blocks(parser.description or "")]
    parts += ["```text", usage.rstrip(), "```", ""]
    positional = [a for a in parser._actions if not a.option_strings]  # noqa: SLF001
    options = [a for a in parser._actions if a.option_strings]  # noqa: SLF001
    for title, actions in (("Arguments", positional), ("Options", options)):
        rows = [[code(_words(a)), sentence(_help(a)), _default(a)] for a in actions]
        if rows:
            parts += [f"## {title}", "", table(["", "meaning", "default"], rows)]
    example = (parser.epilog or "").partition("example:\n")[2]
    if example:
        parts += [
            "## Example",
            "",
            "```text",
            *[line.strip() for line in example.splitlines()],
            "```",
        ]
    return "\n".join(parts)


def prose_blocks(text: str) -> str:
    """Return plain text as Markdown: indented lines as code, other lines as paragraphs."""
    lines: list[str] = []
    for block in text.split("\n\n"):
        plain: list[str] = []
        indented: list[str] = []
        for line in block.splitlines():
            (indented if line.startswith("  ") else plain).append(line)
        lines += [prose("\n".join(plain)), ""] if plain else []
        lines += (
            ["```text", *[line.removeprefix("  ") for line in indented], "```", ""]
            if indented
            else []
        )
    return "\n".join(lines)


def _words(action: argparse.Action) -> str:
    flags = ", ".join(action.option_strings)
    if action.nargs == 0:
        return flags
    shown = action.metavar or (
        "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
    )
    shown = f"{shown} ..." if action.nargs in {"+", "*"} else str(shown)
    return f"{flags} {shown}".strip()


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%")


def _default(action: argparse.Action) -> str:
    return "required" if action.required and action.nargs != "*" else ""
