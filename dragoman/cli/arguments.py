"""Command lines from functions: a parameter's annotation says how it is given.

    def command(
        text: Annotated[str, Argument(metavar="TEXT", help="A text.")],
        beam: Annotated[int | None, Option(min=1, help="Hypotheses.")] = None,
    ) -> None: ...

becomes `TEXT [--beam N]`. An option is named after its parameter unless it has names; a truth value
without names gets a `--no-` form as well. Types: str, int, float, bool, lists of them (an option
that may be repeated) and tuples (an option with several values).
"""

import argparse
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import partial
from textwrap import wrap
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

Command = Callable[..., None]
_LITERAL = "\0"


@dataclass(frozen=True)
class Argument:
    metavar: str = ""
    help: str = ""


class Option:
    def __init__(
        self,
        *names: str,
        help: str | Callable[[], str] = "",
        metavar: str = "",
        min: float | None = None,
        max: float | None = None,
        environment: str = "",
    ):
        """`help` may be a function where it takes time; `environment` is a variable that gives a
        default."""
        self.names, self.help, self.metavar = names, help, metavar
        self.min, self.max, self.environment = min, max, environment


class UsageError(Exception):
    """A command line that lacks something; exit status 2."""


def run(command: Command, words: Sequence[str], program: str) -> None:
    """Parse the words of a command line and call the command.

    A command with many options may take them as one dataclass.
    """
    wants_help = "-h" in words or "--help" in words
    parameters = [*inspect.signature(command).parameters.values()]
    options: Any = parameters[0].annotation if parameters else None
    if not is_dataclass(options):
        options = None
    parser = _parser_of(options or command, command.__doc__, program, wants_help)
    # Intermixed: texts may come before, between and after options. argparse loses "--" there, so
    # words after it are marked by a character that no word of a command line can have.
    end = words.index("--") if "--" in words else len(words)
    marked = [*words[:end], *(f"{_LITERAL}{word}" for word in words[end + 1 :])]
    values = vars(parser.parse_intermixed_args(marked))
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
    if default is not None and not words:
        default()
        return
    parser = argparse.ArgumentParser(
        program, description=help, epilog=listed(commands), formatter_class=_Formatter
    )
    parser.add_argument("command", choices=commands, metavar="COMMAND")
    name = parser.parse_args(words[:1]).command
    run(commands[name], words[1:], f"{program} {name}")


def listed(commands: Mapping[str, object]) -> str:
    """List commands with the first sentence of their docstrings, for the end of a help text."""
    lines = ["commands:"]
    for name, command in commands.items():
        paragraph = inspect.cleandoc(command.__doc__ or "").replace("`", "").split("\n\n")[0]
        text = f"{name:<17} {' '.join(paragraph.split())}"
        lines += wrap(text, width=100, initial_indent="  ", subsequent_indent=" " * 20)
    return "\n".join(lines)


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30)


class _StoreTuple(argparse.Action):
    def __call__(self, parser: object, namespace: object, values: Any, *_: object) -> None:
        setattr(namespace, self.dest, tuple(values))


def _parser_of(
    declared: Callable[..., object], doc: str | None, program: str, wants_help: bool
) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        program,
        description=inspect.cleandoc(doc or "").replace("`", ""),
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    usage = [program, "[OPTIONS]"]  # argparse would list all of them at every mistake
    for parameter in inspect.signature(declared).parameters.values():
        kind, shape = get_args(parameter.annotation)
        if isinstance(shape, Argument):
            usage.append(_add_argument(parser, parameter, kind, shape))
        else:
            _add_option(parser, parameter, kind, shape, wants_help)
    parser.usage = " ".join(usage)
    return parser


def _add_argument(
    parser: argparse.ArgumentParser, parameter: inspect.Parameter, kind: Any, declared: Argument
) -> str:
    """Add a positional argument, and return its part of the usage."""
    several, convert = _type_of(kind)
    name = declared.metavar or parameter.name.upper()
    usage = f"{name} ..." if several else name
    more: dict[str, Any] = {
        "type": lambda word: convert(word.removeprefix(_LITERAL)),
        "metavar": name,
        "help": declared.help.replace("%", "%%"),
    }
    if parameter.default is parameter.empty:
        if several:
            more["nargs"] = "+"
        parser.add_argument(parameter.name, **more)
        return usage
    more |= {"nargs": "*" if several else "?", "default": parameter.default}
    parser.add_argument(parameter.name, **more)
    return f"[{usage}]"


def _add_option(
    parser: argparse.ArgumentParser,
    parameter: inspect.Parameter,
    kind: Any,
    declared: Option,
    wants_help: bool,
) -> None:
    names = declared.names or (f"--{parameter.name.strip('_').replace('_', '-')}",)
    default = os.environ.get(declared.environment, parameter.default)
    help = ""
    if wants_help:
        help = declared.help() if callable(declared.help) else declared.help
        if default and default is parameter.default and not isinstance(default, bool):
            help += f" [default: {default}]"
        help = help.replace("%", "%%")
    several, convert = _type_of(kind)
    more: dict[str, Any] = {"dest": parameter.name, "default": default, "help": help}
    if convert is bool:
        one_way = "store_true" if declared.names else argparse.BooleanOptionalAction
        parser.add_argument(*names, action=one_way, **more)
        return
    if several is tuple:
        # One name for several values: argparse would repeat a single one.
        metavar: Any = tuple(declared.metavar.split()) or None
        more |= {"nargs": len(get_args(_without_none(kind))), "action": _StoreTuple}
    else:
        metavar = declared.metavar or convert.__name__.upper()
        more |= {"action": "append"} if several is list else {}
    bounded = partial(_bounded, convert, declared.min, declared.max)
    parser.add_argument(*names, type=bounded, metavar=metavar, **more)


def _without_none(kind: Any) -> Any:
    if get_origin(kind) is UnionType:
        (kind,) = [part for part in get_args(kind) if part is not NoneType]
    return kind


def _type_of(kind: Any) -> tuple[Any, Callable[[str], Any]]:
    """Return list, tuple or None, and the type of one value."""
    kind = _without_none(kind)
    several = get_origin(kind)
    return several, get_args(kind)[0] if several else kind


def _bounded(
    convert: Callable[[str], Any], least: float | None, most: float | None, word: str
) -> Any:
    try:
        value = convert(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{word!r} is not a number") from None
    # `not <` and `not >` would let NaN through.
    if least is not None and not value >= least:
        raise argparse.ArgumentTypeError(f"{word} is less than {least}")
    if most is not None and not value <= most:
        raise argparse.ArgumentTypeError(f"{word} is more than {most}")
    return value
