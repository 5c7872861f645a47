"""Command lines from functions: the default of a parameter says how it is given.

    def command(
        text: str = argument("TEXT", "A text."),
        beam: int | None = option(None, "Hypotheses.", min=1),
    ) -> None: ...

becomes `TEXT [--beam INT]`. An option is named after its parameter unless it has other names.
Types: str, int, float, bool, Literal (a choice), lists of them (an option that may be repeated) and
tuples (an option with several values). A truth value that is false without its option is a flag;
any other has a `--no-` form as well.
"""

import argparse
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import partial
from textwrap import wrap
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

T = TypeVar("T")
Command = Callable[..., None]
NEEDED: Any = object()  # the default of what a command line must have
# No word of a command line can contain it.
_LITERAL = "\0"


@dataclass(frozen=True)
class _Declared:
    default: Any
    help: str
    names: tuple[str, ...] = ()
    metavar: str = ""
    min: float | None = None
    max: float | None = None
    environment: str = ""
    is_argument: bool = False


def argument(metavar: str, help: str, default: T = NEEDED) -> T:
    """Declare a positional argument. The parser puts the word in its place."""
    return cast(T, _Declared(default, help, metavar=metavar, is_argument=True))


def option(
    default: T,
    help: str,
    *names: str,
    metavar: str = "",
    min: float | None = None,
    max: float | None = None,
    environment: str = "",
) -> T:
    """Declare an option; `environment` is a variable that may hold the default."""
    return cast(T, _Declared(default, help, names, metavar, min, max, environment))


class UsageError(Exception):
    """A command line lacks something; exit status 2."""


def run(command: Command, words: Sequence[str], program: str) -> None:
    """Parse the words of a command line and call the command.

    A command with many options may take them as one dataclass.
    """
    parameters = [*inspect.signature(command).parameters.values()]
    options: Any = parameters[0].annotation if parameters else None
    if not is_dataclass(options):
        options = None
    parser = _parser_of(options or command, command.__doc__, program)
    # argparse loses "--" where arguments come before, between and after options, so the words
    # after it are marked.
    end = words.index("--") if "--" in words else len(words)
    marked = [*words[:end], *(f"{_LITERAL}{word}" for word in words[end + 1 :])]
    values = vars(parser.parse_intermixed_args(marked))
    # A dataclass's signature declares options exactly like a function's.
    if options:
        command(options(**values))
    else:
        command(**values)


def choose(
    commands: Mapping[str, Command],
    words: Sequence[str],
    program: str,
    help: str,
    default: Command | None = None,
) -> None:
    """Run the command of a group that the first word names, or the default without words."""
    parser = argparse.ArgumentParser(
        program, description=help, epilog=listed(commands), formatter_class=_Formatter
    )
    parser.add_argument("command", choices=commands, metavar="COMMAND")
    if default is not None and not words:
        run(default, words, program)
        return
    name = parser.parse_args(words[:1]).command
    run(commands[name], words[1:], f"{program} {name}")


def listed(commands: Mapping[str, object]) -> str:
    """List commands with the first sentence of their docstrings, for the end of a help text."""
    lines = ["commands:"]
    for name, command in commands.items():
        paragraph = _plain(command.__doc__).split("\n\n")[0]
        text = f"{name:<17} {' '.join(paragraph.split())}"
        lines += wrap(text, width=100, initial_indent="  ", subsequent_indent=" " * 20)
    return "\n".join(lines)


def _plain(doc: str | None) -> str:
    return inspect.cleandoc(doc or "").replace("`", "")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30)


class _StoreTuple(argparse.Action):
    def __call__(self, parser: object, namespace: object, values: Any, *_: object) -> None:
        setattr(namespace, self.dest, tuple(values))


def _parser_of(
    declaring: Callable[..., object], doc: str | None, program: str
) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        program, description=_plain(doc), formatter_class=_Formatter, allow_abbrev=False
    )
    usage = [program, "[OPTIONS]"]  # argparse would list all of them at every mistake
    for parameter in inspect.signature(declaring).parameters.values():
        declared: _Declared = parameter.default
        if declared.is_argument:
            usage.append(_add_argument(parser, parameter, declared))
        else:
            _add_option(parser, parameter, declared)
    parser.usage = " ".join(usage)
    return parser


def _add_argument(
    parser: argparse.ArgumentParser, parameter: inspect.Parameter, declared: _Declared
) -> str:
    """Add a positional argument, and return its part of the usage."""
    several, convert, _ = _type_of(parameter)
    usage = f"{declared.metavar} ..." if several else declared.metavar
    more: dict[str, Any] = {
        "type": lambda word: convert(word.removeprefix(_LITERAL)),
        "metavar": declared.metavar,
        "help": declared.help.replace("%", "%%"),
    }
    if declared.default is NEEDED:
        parser.add_argument(parameter.name, nargs="+" if several else None, **more)
        return usage
    nargs = "*" if several else "?"
    parser.add_argument(parameter.name, nargs=nargs, default=declared.default, **more)
    return f"[{usage}]"


def _add_option(
    parser: argparse.ArgumentParser, parameter: inspect.Parameter, declared: _Declared
) -> None:
    names = declared.names or (f"--{parameter.name.strip('_').replace('_', '-')}",)
    default = os.environ.get(declared.environment) or declared.default
    several, convert, parts = _type_of(parameter)
    help = declared.help.replace("%", "%%")
    if default and default is not NEEDED and convert in (int, float):
        help += f" [default: {default}]"
    more: dict[str, Any] = {
        "dest": parameter.name,
        "default": None if default is NEEDED else default,
        "required": default is NEEDED,
        "help": help,
    }
    if convert is bool:
        action: Any = "store_true" if default is False else argparse.BooleanOptionalAction
        parser.add_argument(*names, action=action, **more)
        return
    more["type"] = partial(_bounded, convert, declared.min, declared.max)
    more["metavar"] = declared.metavar or convert.__name__.upper()
    if several is tuple:
        more |= {
            "nargs": len(parts),
            "action": _StoreTuple,
            "metavar": (*declared.metavar.split(),),
        }
    elif several is list:
        more["action"] = "append"
    elif several is Literal:
        more["choices"] = parts
    parser.add_argument(*names, **more)


def _type_of(parameter: inspect.Parameter) -> tuple[Any, Callable[[str], Any], tuple[Any, ...]]:
    """Return list, tuple, Literal or None, the type of one value, and the annotation's parts."""
    kind = parameter.annotation
    if get_origin(kind) in (UnionType, Union):  # typing's own types make a Union with |
        (kind,) = [part for part in get_args(kind) if part is not NoneType]
    # list[str] has the origin list; a plain type has the origin None.
    several = get_origin(kind)
    parts = get_args(kind)
    if several is Literal:
        return several, str, parts
    return several, parts[0] if several else kind, parts


def _bounded(
    convert: Callable[[str], Any], least: float | None, most: float | None, word: str
) -> Any:
    try:
        value = convert(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{word!r} is not a number") from None
    # Written so that NaN fails both.
    if least is not None and not value >= least:
        raise argparse.ArgumentTypeError(f"{word} is less than {least}")
    if most is not None and not value <= most:
        raise argparse.ArgumentTypeError(f"{word} is more than {most}")
    return value
