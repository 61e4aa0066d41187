"""Completion of command lines in a shell: its script, and the words that it asks for.

The script calls `hindcast --complete-words WORD ...` with the words behind `hindcast`, the last of
which is being typed. Where nothing is known, the shell completes names of files.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from hindcast.flows.commands import ADDED, SUMMARIES
from hindcast.flows.parser import command_parser, main_parser

SCRIPTS: Final[Mapping[str, str]] = {
    "bash": """\
_hindcast() {
    local IFS=$'\\n'
    COMPREPLY=($(hindcast --complete-words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _hindcast hindcast""",
    "zsh": """\
#compdef hindcast
_hindcast() {
    local -a found
    found=(${(f)"$(hindcast --complete-words "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    (( $#found )) && compadd -a found || _files
}
compdef _hindcast hindcast""",
    "fish": """\
function __hindcast_words
    set -l words (commandline -opc) (commandline -ct)
    set -l found (hindcast --complete-words $words[2..] 2>/dev/null)
    if test -n "$found"
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c hindcast -f -a '(__hindcast_words)'""",
}


def words(typed: Sequence[str]) -> list[str]:
    """Return the completions of the last of these words."""
    *before, last = typed or [""]
    return [word for word in _possible(before, last) if word.startswith(last)]


def _possible(before: Sequence[str], last: str) -> Iterable[str]:
    name = next((word for word in before if not word.startswith("-")), None)
    if name is None:
        return [*SUMMARIES, *ADDED] if not last.startswith("-") else _options(main_parser())
    if name not in SUMMARIES and name not in ADDED:
        return ()
    parser = command_parser(name)
    if last.startswith("-"):
        return _options(parser)
    action = _action(parser, before[before.index(name) + 1 :])
    if action is None:
        return ()
    if action.choices is not None:
        return map(str, action.choices)
    choices_of = _KNOWN.get(action.dest)
    return () if choices_of is None else choices_of(name)


def _options(parser: argparse.ArgumentParser) -> Mapping[str, argparse.Action]:
    return {flag: action for action in parser._actions for flag in action.option_strings}  # noqa: SLF001


def _action(parser: argparse.ArgumentParser, before: Sequence[str]) -> argparse.Action | None:
    """Return the argument or option that the next word is a value of, behind these words."""
    options, option, arguments = _options(parser), None, 0
    for word in before:
        if word.startswith("-"):
            option = options.get(word)
            option = None if option is None or option.nargs == 0 else option
        elif option is None:
            arguments += 1
        elif option.nargs is None:
            option = None
    if option is not None:
        return option
    positional = [action for action in parser._actions if not action.option_strings]  # noqa: SLF001
    if arguments < len(positional):
        return positional[arguments]
    return positional[-1] if positional and positional[-1].nargs in {"*", "+"} else None


def _recipes(_command: str) -> Iterable[str]:
    from hindcast.pipeline.recipes.shipped import known_recipes

    return known_recipes()


def _agents(command: str) -> Iterable[str]:
    from hindcast.policies.offline import AGENTS
    from hindcast.policies.online import ONLINE_AGENTS

    return ONLINE_AGENTS if command == "train-online" else AGENTS


def _formats(_command: str) -> Iterable[str]:
    from hindcast.pipeline.traces import FORMATS

    return FORMATS


# Field of a request -> function of its names; names of policies would take seconds.
_KNOWN: Final[Mapping[str, Callable[[str], Iterable[str]]]] = {
    "recipe": _recipes,
    "keys": _recipes,
    "agent": _agents,
    "agents": _agents,
    "trace_format": _formats,
    "format": _formats,
}
