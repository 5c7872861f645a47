"""The ways to ask an engine: tables (`dialects.toml`, and the user's), no code."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

from dragoman.decode.text_engine.forms import written
from dragoman.errors import ConfigError
from dragoman.text.languages import NAMES
from dragoman.text.marks import single

Tables = Mapping[str, Mapping[str, Any]]
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_PART = re.compile(r"<t(\d+)>((?:[^<]|<(?!/?t\d))*+)</t\1>")
# Reasoning models may think aloud before they answer.
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>\s*", re.S)


@dataclass(frozen=True)
class Dialect:
    """A table of `dialects.toml`, which explains the fields."""

    name: str
    path: str
    body: Mapping[str, Any]
    answer: str
    models: Sequence[str] = ()
    addresses: Sequence[str] = ()
    cut: str = ""
    tokens: str = ""
    key: str = ""
    variable: str = ""
    tasks: Mapping[str, str] = field(default_factory=dict)
    terms: str = ""
    term: str = ""
    between: str = ""
    style: str = ""
    marks: str = ""
    parts: str = ""
    context: str = ""
    correction: str = ""
    batch: int = 1
    forms: Sequence[str] = ("plain", "xml")
    tags: bool = True
    escape: bool = False
    upper: bool = False
    names: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if unknown := {*self.forms} - {"plain", "xml", "brackets", "names"}:
            raise ConfigError(f"dialect {self.name}: there is no form of masks {min(unknown)!r}.")

    @property
    def takes_lists(self) -> bool:
        return "{texts}" in self.body.values()


@dataclass(frozen=True)
class Question:
    """What one request asks for: the translations of `texts`, which have their marks written."""

    texts: Sequence[str]
    source: str
    to: str
    terms: Sequence[tuple[str, str]] = ()
    entries: Sequence[tuple[str, str]] = ()
    context: str = ""
    style: str = ""
    faults: str = ""
    has_marks: bool = False
    form: str = "xml"


def dialect_of(name: str, model: str, address: str, own: Tables) -> Dialect:
    """Return a dialect by name, or else by the names of the model and the address."""
    tables = {**own, **{key: table for key, table in _built_in().items() if key not in own}}
    # A dialect for all models comes last, wherever it is.
    order = sorted(tables, key=lambda key: "*" in tables[key].get("models", ()))
    if name and name not in tables:
        raise ConfigError(f"there is no dialect {name!r}; there are {', '.join(tables)}.")
    for key in [name] if name else order:
        table = tables[key]
        by_address = any(fnmatch(address, one) for one in table.get("addresses", ()))
        by_model = any(fnmatch(model.lower(), one) for one in table.get("models", ()))
        if name or (by_model if model else by_address):
            return _dialect(key, tables)
    raise ConfigError(
        f"{address}: which model? Write {address}#MODEL, or name a dialect for an API without one."
    )


def body(dialect: Dialect, model: str, question: Question, key: str = "") -> dict[str, Any]:
    """Return the request's body. Fields that have nothing to say are left out."""
    names = {**NAMES, **dialect.names}
    source_name, to_name = (names.get(code, code) for code in (question.source, question.to))
    texts = [*question.texts]
    text = texts[0]
    if len(texts) > 1:
        rows = enumerate(texts, 1)
        text = "\n".join(f"<t{number}>{one}</t{number}>" for number, one in rows)
    terms = [
        _filled(dialect.term, {"source": source, "target": target})
        for source, target in question.terms
    ]
    case = str.upper if dialect.upper else str
    values: dict[str, Any] = {
        "model": model.replace("{from}", question.source or "auto").replace("{to}", question.to),
        "from": case(question.source),
        "from_or_auto": question.source or "auto",
        "to": case(question.to),
        "source_name": source_name,
        "to_name": to_name,
        "from_clause": f" from {source_name}" if question.source else "",
        "text": text,
        "texts": texts,
        "entries": [[*entry] for entry in question.entries],
        "said": question.context,
        "key": key,
        "count": str(len(texts)),
        # The longest translation that may be right, so that a model without an end costs little.
        "max_tokens": 100 + sum(map(len, texts)),
    }
    example = written(single(1), {}, question.form if question.has_marks else "xml")
    said = {"style": question.style, "context": question.context}
    task = dialect.tasks.get("plain", "")
    for kind, wanted in (("marks", question.has_marks), *said.items()):
        if wanted and kind in dialect.tasks:
            task = dialect.tasks[kind]
    sections = {
        "terms": ("; ".join(terms) and dialect.between.join(terms)),
        "style": question.style,
        "context": question.context,
        "correction": question.faults,
        "marks": example if question.has_marks else "",
        "parts": str(len(texts)) if len(texts) > 1 else "",
    }
    inner = {**values, **sections, "example": example, "faults": question.faults}
    for section, content in sections.items():
        values[section] = _filled(getattr(dialect, section), inner) if content else ""
    values["task"] = _filled(task, inner)
    filled: dict[str, Any] = _filled_tree(dialect.body, values)
    return filled


def answers(dialect: Dialect, data: Any, count: int) -> list[str | None]:
    """Return the answer to each text; None where there is none."""
    found: Any = _at(data, dialect.answer.split("."))
    if dialect.takes_lists:
        texts = found if isinstance(found, list) else [found]
        return [*texts] if len(texts) == count else [None] * count
    if not isinstance(found, str):
        return [None] * count
    whole = _THOUGHT.sub("", found).strip()
    if count == 1:
        return [whole]
    parts: dict[int, str | None] = {}
    for number, text in _PART.findall(whole):
        # Of a number that comes twice, neither can be trusted.
        parts[int(number)] = None if int(number) in parts else text.strip()
    return [parts.get(number) for number in range(1, count + 1)]


def was_cut(dialect: Dialect, data: Any) -> bool:
    return bool(dialect.cut) and _at(data, dialect.cut.split(".")) == "length"


def tokens_of(dialect: Dialect, data: Any) -> int:
    found = _at(data, dialect.tokens.split(".")) if dialect.tokens else 0
    return found if isinstance(found, int) else 0


@cache
def _built_in() -> Tables:
    return tomllib.loads(Path(__file__).with_name("dialects.toml").read_text(encoding="utf-8"))


def _dialect(name: str, tables: Tables) -> Dialect:
    table: dict[str, Any] = {}
    line = [name]
    while like := tables[line[0]].get("like"):
        if like in line or like not in tables:
            raise ConfigError(f"dialect {name}: it cannot be like {like!r}.")
        line.insert(0, like)
    for key in line:
        own = {k: v for k, v in tables[key].items() if k != "like"}
        # Tasks belong to the words around them, so they are not inherited one by one.
        table = {**table, **own, "body": {**table.get("body", {}), **own.get("body", {})}}
    known = {one.name for one in fields(Dialect)} - {"name"}
    if unknown := table.keys() - known:
        raise ConfigError(f"dialect {name}: there is no field {min(unknown)!r}.")
    if missing := {"path", "body", "answer"} - table.keys():
        raise ConfigError(f"dialect {name}: {min(missing)!r} is missing.")
    return Dialect(name, **table)


def _filled(template: str, values: Mapping[str, Any]) -> str:
    """Fill a template in one pass, so that braces of the user's text stay."""
    return _PLACEHOLDER.sub(lambda match: str(values.get(match[1], match[0])), template)


def _filled_tree(tree: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(tree, str):
        whole = _PLACEHOLDER.fullmatch(tree)
        # A placeholder alone may stand for a number or a list.
        return values.get(whole[1], tree) if whole else _filled(tree, values)
    if isinstance(tree, Mapping):
        filled = {key: _filled_tree(value, values) for key, value in tree.items()}
        return {key: value for key, value in filled.items() if value not in ("", [])}
    if isinstance(tree, list):
        return [_filled_tree(value, values) for value in tree]
    return tree


def _at(data: Any, path: Sequence[str]) -> Any:
    """Return what a place of an answer holds; `*` means each entry of a list."""
    for number, step in enumerate(path):
        if step == "*" and isinstance(data, list):
            return [_at(entry, path[number + 1 :]) for entry in data]
        if step.isdecimal() and isinstance(data, list) and int(step) < len(data):
            data = data[int(step)]
        elif isinstance(data, dict):
            data = data.get(step)
        else:
            return None
    return data
