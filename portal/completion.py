"""Completion of the command line: scripts for bash, zsh and fish, generated from the commands.

A script has all words, so a completion starts no process.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from conductor.manual import Argument, Manual

BASH = """# Completion of novella for bash: source <(novella completion bash)
_novella() {{
    local place=novella word words=""
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$place $word" in
            {places}) place="$place $word" ;;
        esac
    done
    case "$place" in
{words}
    esac
    case "$place ${{COMP_WORDS[COMP_CWORD-1]}}" in
{values}
    esac
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _novella novella
"""
ZSH = """#compdef novella
# Completion of novella for zsh: source <(novella completion zsh)
_novella() {{
    local place=novella word
    local -a found
    for word in "${{(@)words[2,CURRENT-1]}}"; do
        case "$place $word" in
            {places}) place="$place $word" ;;
        esac
    done
    case "$place" in
{words}
    esac
    case "$place ${{words[CURRENT-1]}}" in
{values}
    esac
    _describe novella found || _files
}}
compdef _novella novella
"""
FISH = """# Completion of novella for fish: novella completion fish | source
function __novella_place
    set -l place novella
    for word in (commandline -opc)[2..-1]
        if contains -- "$place $word" {places}
            set place "$place $word"
        end
    end
    echo $place
end
{words}
"""


@dataclass(frozen=True)
class CompletionPlace:
    """A command or action, and what may follow its words."""

    words: str
    actions: Mapping[str, str]
    arguments: tuple[Argument, ...] = ()

    @property
    def candidates(self) -> dict[str, str]:
        """Words that may follow, with descriptions."""
        found = dict(self.actions)
        for one in self.arguments:
            found |= {one.name: one.text} if one.is_option else dict.fromkeys(one.choices, one.text)
        return found

    @property
    def values(self) -> dict[str, dict[str, str]]:
        """Values that may follow an option."""
        options = [one for one in self.arguments if one.is_option and one.value]
        return {one.name: dict.fromkeys(one.choices, one.text) for one in options}


def script(shell: str, manuals: Mapping[str, Manual]) -> str:
    """Return the script for `shell`, with the commands of `manuals`."""
    return SHELLS[shell]([*_places("novella", Manual("", actions=manuals))])


def _places(words: str, manual: Manual) -> Iterator[CompletionPlace]:
    yield CompletionPlace(words, {name: _line(one.text) for name, one in manual.actions.items()}, manual.arguments)
    for name, one in manual.actions.items():
        yield from _places(f"{words} {name}", one)


def _line(text: str) -> str:
    return text.partition(". ")[0].rstrip(".")


def _bash(places: list[CompletionPlace]) -> str:
    return _compiled(BASH, places, lambda found: "words=" + shlex.quote(" ".join(found)))


def _zsh(places: list[CompletionPlace]) -> str:
    def described(found: Mapping[str, str]) -> str:
        return "found=(" + " ".join(shlex.quote(f"{name}:{text}") for name, text in found.items()) + ")"

    return _compiled(ZSH, places, described)


def _compiled(template: str, places: list[CompletionPlace], assign: Callable[[Mapping[str, str]], str]) -> str:
    """Return a script for a shell with `case`; `assign` sets the words that may follow."""
    values = {f"{one.words} {option}": found for one in places for option, found in one.values.items()}
    return template.format(
        places=" | ".join(_quoted(places)),
        words=_cases({one.words: assign(one.candidates) for one in places}),
        values=_cases({words: assign(found) for words, found in values.items()}),
    )


def _cases(cases: Mapping[str, str]) -> str:
    """Return the branches of a `case`; words with the same line share one."""
    words_of: dict[str, list[str]] = {}
    for words, line in cases.items():
        words_of.setdefault(line, []).append(shlex.quote(words))
    return "\n".join(f"        {' | '.join(words)}) {line} ;;" for line, words in words_of.items())


def _fish(places: list[CompletionPlace]) -> str:
    lines = [line for place in places for line in _fish_lines(place)]
    return FISH.format(places=" ".join(_quoted(places)), words="\n".join(lines))


def _fish_lines(place: CompletionPlace) -> Iterator[str]:
    here = f"complete -c novella -n {shlex.quote(f'test (__novella_place) = {shlex.quote(place.words)}')}"
    values = place.values
    for name, text in place.candidates.items():
        if not name.startswith("--"):
            yield f"{here} -f -a {name} -d {_fish_text(text)}"
        elif name not in values:
            yield f"{here} -l {name[2:]} -d {_fish_text(text)}"
        else:
            given = f" -x -a {shlex.quote(' '.join(values[name]))}" if values[name] else " -r"
            yield f"{here} -l {name[2:]} -d {_fish_text(text)}{given}"


def _fish_text(text: str) -> str:
    """Quote a text: fish knows a backslash in single quotes, and not the quotes of other shells."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _quoted(places: Iterable[CompletionPlace]) -> list[str]:
    return [shlex.quote(one.words) for one in places if " " in one.words]


SHELLS: Mapping[str, Callable[[list[CompletionPlace]], str]] = {"bash": _bash, "fish": _fish, "zsh": _zsh}
