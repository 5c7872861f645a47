"""Define settings as documented fields of frozen dataclasses.

This module builds them from nested tables, checks them, and writes them as TOML. It does not know
which settings exist; `schema.py` defines them.
"""

import dataclasses
import difflib
import json
import math
import os
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dragoman.config.plugins import import_until
from dragoman.errors import ConfigError

# Cached: the settings of a model may have hundreds of corpora, each with its table.
_hints = cache(typing.get_type_hints)


def setting(default: Any, doc: str, **rules: Any) -> Any:
    """Declare a field with its documentation and rules.

    Rules are `choices`, `at_least`, `at_most`, `below` and `key` (its name in TOML).
    """
    return field(default=default, metadata={"doc": doc, **rules})


def build(kind: type, tree: Any, path: str = "", root: type | None = None) -> Any:
    """Build a dataclass from a table and check its fields.

    `root` is the outermost dataclass, where a misplaced name may belong.
    """
    if not isinstance(tree, Mapping):
        raise ConfigError(f"{path.rstrip('.')} is {tree!r}: expected a table of settings.")
    root = root or kind
    by_key = {_key(f): f for f in fields(kind)}
    hints = _hints(kind)
    # Unknown names are errors: a misspelled setting would silently have no effect.
    for key in tree:
        if key not in by_key:
            raise ConfigError(
                f"setting {path}{key} is unknown{_near_setting(path, key, by_key, root)}."
            )
    # Missing settings get the defaults of the dataclass.
    present = {key: f for key, f in by_key.items() if key in tree}
    return kind(
        **{
            f.name: _value(hints[f.name], tree[key], f, f"{path}{key}", root)
            for key, f in present.items()
        }
    )


def to_tree(value: Any) -> Any:
    """Convert settings to nested dictionaries, the reverse of `from_tree`."""
    if is_dataclass(value):
        return {_key(f): to_tree(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return [to_tree(item) for item in value]
    return value


def describe(kind: type, path: str = "") -> Iterator[tuple[str, Any, str]]:
    """Yield (dotted name, default, documentation) of every setting, in order."""
    for f in fields(kind):
        hint = _hints(kind)[f.name]
        # Tables within tables have no default of their own.
        if is_dataclass(hint):
            yield from describe(typing.cast(type, hint), f"{path}{_key(f)}.")
        else:
            doc = f.metadata["doc"] + _described(f.metadata.get("choices", ()))
            yield f"{path}{_key(f)}", f.default, doc


def _described(choices: Iterable[str]) -> str:
    """List the choices of a setting, with their help texts if they have any."""
    if isinstance(choices, Mapping):
        return ": " + "; ".join(f"{name} ({variant.help})" for name, variant in choices.items())
    names = ", ".join(choices)
    return f" ({names})" if names else ""


def read_toml(file: str | Path) -> dict[str, Any]:
    """Read a TOML file; raise a `ConfigError` that names the error's location."""
    try:
        with nesting_errors(str(file)):
            return tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{file}: no such file.") from None
    # A ValueError: not UTF-8, not TOML, or a number with too many digits
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: {error}.") from None


@contextmanager
def nesting_errors(where: str) -> Iterator[None]:
    """Turn infinite recursion into a ConfigError, around code that follows nested tables.

    No real settings are nested as deeply as Python's stack.
    """
    try:
        yield
    except RecursionError:
        raise ConfigError(f"{where}: tables or lists are nested too deeply.") from None


def environment_number(name: str, default: int, at_least: int = 0, at_most: int = 2**62) -> int:
    """Read a whole number from an environment variable, with a default."""
    # An empty variable counts as not set, as in most programs.
    text = os.environ.get(name, "").strip() or str(default)
    is_number = text.isascii() and text.isdecimal() and len(text) < 20
    if not (is_number and at_least <= int(text) <= at_most):
        raise ConfigError(
            f"the environment variable {name} is {text[:40]!r}: expected a whole number from "
            f"{at_least} to {at_most}."
        )
    return int(text)


def toml_lines(tree: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the lines of one table."""
    # TOML wants plain values before tables: a value after a table's header would belong to it.
    # An empty list is written as a value: it has no tables to show its name.
    nested = {
        k: v for k, v in tree.items() if isinstance(v, Mapping) or (isinstance(v, list) and v)
    }
    for key, value in tree.items():
        if key not in nested:
            yield f"{key} = {_toml_value(value)}"
    for key, value in nested.items():
        for table in [value] if isinstance(value, Mapping) else value:
            brackets = "[{}]" if isinstance(value, Mapping) else "[[{}]]"
            yield ""
            yield brackets.format(path + key)
            yield from toml_lines(table, f"{path}{key}.")


def put(tree: dict[str, Any], dotted: str, value: Any) -> None:
    """Set `a.b.c` in nested tables."""
    *tables, key = dotted.split(".")
    for name in tables:
        child = tree.setdefault(name, {})
        if not isinstance(child, dict):
            raise ConfigError(f"setting {dotted} is unknown: {name} is not a table.")
        tree = child
    tree[key] = value


def put_all(tree: dict[str, Any], settings: Mapping[str, Any]) -> None:
    """Set dotted names, tables of them, or a mix of both: `{"model.norm_position": ...}` and
    `{"model": {"norm_position": ...}}` are the same."""
    for name, value in leaves(settings):
        put(tree, name, value)


def merge(tree: dict[str, Any], other: Mapping[str, Any]) -> None:
    """Merge another table into this one; its values win."""
    for key, value in other.items():
        if isinstance(value, Mapping) and isinstance(tree.get(key), dict):
            merge(tree[key], value)
        else:
            tree[key] = value


def leaves(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted name, value) of everything in nested tables."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def did_you_mean(name: Any, names: Any) -> str:
    """Suggest the name that was probably meant, or return an empty string."""
    close = difflib.get_close_matches(str(name), list(names), n=1, cutoff=0.5)
    return f" (did you mean {close[0]}?)" if close else ""


def _near_setting(path: str, key: str, siblings: Mapping[str, Any], root: type) -> str:
    """Suggest a setting: from the same table first, then from any table.

    `model.warmup` suggests `training.warmup_steps`.
    """
    # A typo is more likely than a wrong table.
    near = difflib.get_close_matches(key, list(siblings), n=1, cutoff=0.6)
    if near:
        return f" (did you mean {path}{near[0]}?)"
    everywhere = {name.rsplit(".", 1)[-1]: name for name, _, _ in describe(root)}
    near = difflib.get_close_matches(key, list(everywhere), n=1, cutoff=0.6)
    return f" (did you mean {everywhere[near[0]]}?)" if near else ""


def _value(hint: Any, value: Any, f: "dataclasses.Field[Any]", path: str, root: type) -> Any:
    """Check one value against its type and rules."""
    if is_dataclass(hint):
        return build(typing.cast(type, hint), value, f"{path}.", root)
    # The only generic type is tuple[Corpus, ...].
    if isinstance(hint, types.GenericAlias):
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{path} is {value!r}: expected a list of tables, [[{path}]].")
        return tuple(build(hint.__args__[0], item, f"{path}.", root) for item in value)
    # Python refuses to print very long integers, so an error could not name the value.
    if isinstance(value, int) and value.bit_length() > 64:
        raise ConfigError(f"{path} is a number of {value.bit_length()} bits: expected at most 64.")
    # 1 is a valid float and 1.0 a valid integer, but True is neither.
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if hint is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not hint:
        raise ConfigError(f"{path} is {value!r}: expected {_type_name(hint)}.")
    rules = f.metadata
    # A choice may come from the lab or from a plug-in, which are imported only when it is missing.
    choices = rules.get("choices")
    if choices is not None and not import_until(lambda: value in choices):
        raise ConfigError(
            f"{path} is {value!r}{did_you_mean(value, choices)}; it can be {', '.join(choices)}."
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{path} is {value}: expected a finite number.")
    if "at_least" in rules and value < rules["at_least"]:
        raise ConfigError(f"{path} is {value}: it must be at least {rules['at_least']}.")
    if "at_most" in rules and value > rules["at_most"]:
        raise ConfigError(f"{path} is {value}: it must be at most {rules['at_most']}.")
    if "below" in rules and value >= rules["below"]:
        raise ConfigError(f"{path} is {value}: it must be below {rules['below']}.")
    return value


def _type_name(hint: type) -> str:
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}[hint]


def _key(f: "dataclasses.Field[Any]") -> str:
    return str(f.metadata.get("key", f.name))


def _toml_value(value: Any) -> str:
    # TOML has the escapes of JSON, but must also escape DEL.
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value)  # numbers, and the empty list
