"""`dragoman info`"""

import json
import platform
from collections.abc import Iterator, Mapping
from importlib import util
from typing import Any

from rich.console import Console
from rich.table import Table

from dragoman.bundle.folder import CARD, Bundle, bundled_models, parameters_by_part, read_bundle
from dragoman.cli.arguments import argument, option
from dragoman.cli.options import JSON
from dragoman.config import describe_settings, make_config, model_summary
from dragoman.config.presets import PRESETS
from dragoman.config.settings import leaves, to_tree
from dragoman.convert.hub import model_folder
from dragoman.errors import BundleError, ConfigError, escaped
from dragoman.storage.version import __version__

LIBRARIES = ("torch", "onnxruntime", "sentencepiece", "sacrebleu", "safetensors", "numpy")
WIDE = 160  # columns of a table that goes into a file or a pipe
LEAST_WIDTH = 120  # of a terminal with room for a column per preset


def command(
    model: str = argument(
        "M", "Folder of a trained model; with --settings, a word to filter by.", ""
    ),
    settings: bool = option(False, "List every setting: its default, and each preset's."),
    preset: str | None = option(None, "With --settings: only the values of this preset."),
    json_: bool = JSON,
) -> None:
    """Show a model's card; without one, the installation and the cards of the package's own models.

    Example: `dragoman info --settings attention`
    """
    if settings:
        _show_settings(model, preset, json_)
        return
    if preset is not None:
        raise ConfigError("--preset belongs to --settings: dragoman info --settings --preset tiny.")
    names = [part for part in model.split(",") if part]
    installation = [] if names else [_installation()]
    for facts in [*installation, *map(_model, names or bundled_models())]:
        if json_:
            print(escaped(json.dumps(facts, ensure_ascii=False)))
            continue
        for name, value in facts.items():
            for line in _lines(name, value):
                print(escaped(line))


def _lines(name: str, value: Any) -> Iterator[str]:
    """Format a fact of a card; scores become a table with a row for each direction."""
    if name != "scores":
        yield f"{name}: {value}"
        return
    metrics = list(dict.fromkeys(metric for row in value.values() for metric in row))
    first = max(map(len, value), default=0)
    yield f"scores: {' ' * max(0, first - 6)}{''.join(f'{metric:>8}' for metric in metrics)}"
    for direction, row in value.items():
        cells = "".join(f"{row[m]:8.2f}" if m in row else " " * 8 for m in metrics)
        yield f"  {direction:<{max(first, 6)}}{cells}"


def _show_settings(word: str, preset: str | None, as_json: bool) -> None:
    chosen = [preset] if preset is not None else list(PRESETS)
    values = {name: _values(name) for name in chosen}
    wanted = word.lower()
    rows = [row for row in describe_settings() if wanted in f"{row[0]} {row[2]}".lower()]
    if not rows:
        raise ConfigError(f"no setting has {word!r} in its name or its description.")
    if as_json:
        for name, default, doc in rows:
            presets = {each: values[each][name] for each in chosen}
            entry = {"name": name, "default": default, "presets": presets, "help": doc}
            print(json.dumps(entry, ensure_ascii=False))
        return
    if preset is not None:
        for name, _, doc in rows:
            print(f"{name} = {values[preset][name]!r}  # {doc}")
        return
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console.width = WIDE
    if console.width >= LEAST_WIDTH:
        console.print(_table(rows, values))
        return
    for name, default, doc in rows:
        own = [f"{each} {values[each][name]}" for each in chosen if values[each][name] != default]
        beside = f"  ({', '.join(own)})" if own else ""
        print(f"{name} = {default!r}{beside}")
        print(f"    {doc}")


def _values(preset: str) -> dict[str, Any]:
    return dict(leaves(to_tree(make_config(preset))))


def _table(rows: list[tuple[str, Any, str]], values: Mapping[str, Mapping[str, Any]]) -> Table:
    """Print a column for each preset, with its values that differ from the defaults."""
    table = Table(box=None, pad_edge=False)
    table.add_column("setting", no_wrap=True)
    for title in ("default", *values):
        table.add_column(title, overflow="fold")
    table.add_column("meaning")
    for name, default, doc in rows:
        own = (settings[name] for settings in values.values())
        cells = ["" if value == default else str(value) for value in own]
        table.add_row(name, "" if default == () else str(default), *cells, doc)
    return table


def _model(name: str) -> dict[str, Any]:
    bundle = read_bundle(model_folder(name))
    # A card is JSON that anyone may have written, so any of its fields may have any type.
    try:
        return _facts(name, bundle)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BundleError(
            f"{name}: {CARD} is not a card ({type(error).__name__}: {error})."
        ) from None


def _facts(name: str, bundle: Bundle) -> dict[str, Any]:
    card = dict(bundle.card)
    size = sum(array.nbytes for array in bundle.weights.values())
    facts: dict[str, Any] = {
        "model": name,
        "languages": f"{'/'.join(card.pop('from', [])) or '?'} → "
        f"{'/'.join(card.pop('to', [])) or '?'}",
        "architecture": model_summary(bundle.config.model),
        "parameters": _parameters(bundle),
        "vocabulary": f"{len(bundle.codec.source):,} source and {len(bundle.codec.target):,} "
        f"target pieces",
        "size": f"{size / 2**20:.1f} MiB of weights",
    }
    if bundle.adapter is not None:
        added = sum(array.nbytes for array in bundle.adapter.values())
        whom = "all sentences" if bundle.gate is None else "sentences like those it has learned"
        facts["adapter"] = f"{added / 1e6:.1f} MB, for {whom}"
    facts |= _scores(card.pop("scores", []), card.pop("scored_on", ""))
    card.pop("parameters", None)  # counted above
    for name, value in card.items():
        facts[name.replace("_", " ")] = f"{value:.4g}" if isinstance(value, float) else value
    return facts


def _parameters(bundle: Bundle) -> str:
    parts = parameters_by_part(bundle.weights)
    counts = ", ".join(f"{part} {count:,}" for part, count in parts.items() if count)
    shared = "" if parts["output"] else ", output shared with the embeddings"
    return f"{sum(parts.values()):,} ({counts}{shared})"


def _scores(entries: list[dict[str, Any]], scored_on: str) -> dict[str, Any]:
    """Format scores by direction and metric, and the signature of each metric once."""
    table: dict[str, dict[str, float]] = {}
    signatures: dict[str, str] = {}
    for entry in entries:
        direction, _, metric = entry["name"].rpartition(" ")
        row = table.setdefault(f"{scored_on} {direction}".strip(), {})
        row[metric] = round(float(entry["value"]), 2)
        signatures[f"signature of {metric}"] = str(entry["signature"])
    return {"scores": table, **signatures} if table else {}


def _installation() -> dict[str, Any]:
    # Slow to import, and the list of commands imports this module.
    from importlib import metadata

    facts: dict[str, Any] = {
        "dragoman": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    for library in LIBRARIES:
        facts[library] = metadata.version(library) if util.find_spec(library) else "not installed"
    if util.find_spec("onnxruntime"):
        from dragoman.engine.onnx.kernels import best_factors
        from dragoman.engine.onnx.native.library import described

        facts["int8 kernels"] = best_factors().value
        facts["native operators"] = described()
    return facts
