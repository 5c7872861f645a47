"""List, fetch and remove models."""

import json

from dragoman.cli.arguments import argument
from dragoman.cli.options import JSON
from dragoman.convert import hub
from dragoman.errors import BundleError, escaped

NAME: str = argument("NAME", "Of the hub, such as Helsinki-NLP/opus-mt-de-en.")


def list_models(json_: bool = JSON) -> None:
    """List the models that come with the package and those in the cache.

    Example: `dragoman models list`
    """
    for model in hub.installed():
        languages = [" ".join(model.card.get(side, [])) or "?" for side in ("from", "to")]
        licence = str(model.card.get(hub.LICENCE, "?"))
        if json_:
            facts = {"name": model.name, "where": model.where, "size": model.size}
            facts |= {side: model.card.get(side, []) for side in ("from", "to")}
            print(escaped(json.dumps(facts | {"licence": licence}, ensure_ascii=False)))
            continue
        row = [model.name, model.where, " → ".join(languages), f"{model.size / 2**20:.1f} MiB"]
        print(escaped("  ".join([*row, licence])))


def list_firefox(json_: bool = JSON) -> None:
    """List Firefox's models by language pair. Their names work like names on the hub.

    Example: `dragoman models firefox`
    """
    from dragoman.convert.firefox import firefox_models

    for model in firefox_models():
        if json_:
            facts = {"name": model.name, "size": model.size, "version": model.version}
            languages = {"from": [model.source], "to": [model.target]}
            print(escaped(json.dumps(facts | languages, ensure_ascii=False)))
            continue
        pair = f"{model.source} → {model.target}"
        row = [model.name, pair, f"{model.size / 2**20:.1f} MiB", f"version {model.version}"]
        print(escaped("  ".join(row)))


def get(name: str = NAME) -> None:
    """Fetch a model from the Hugging Face hub, or one of Firefox's, or its newest revision.

    Example: `dragoman models get Helsinki-NLP/opus-mt-de-en`
    """
    if not hub.is_hub_name(name):
        raise BundleError(f"{name!r} is not the name of a model on the hub: OWNER/MODEL.")
    print(hub.fetch(name, again=True))


def remove(name: str = NAME) -> None:
    """Remove a fetched model from the cache.

    Example: `dragoman models remove Helsinki-NLP/opus-mt-de-en`
    """
    hub.remove(name)


commands = {"list": list_models, "firefox": list_firefox, "get": get, "remove": remove}
default = list_models
