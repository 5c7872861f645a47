"""Scores a trained and converted model in every direction and leaves it, with its card, in another folder.

    python pretraining/finish.py corpora runs/bundled dragoman/pretrained/tatoeba

Directions to and from English: the Tatoeba test sets, BLEU and chrF. The others: the test sets joined on their English
side (pretraining/data.py), chrF. The bundle translates as it is: int8, its own beam. Scores that are found
in runs/bundled/scores.json are not computed again.
"""

import json
import sys
from dataclasses import replace
from itertools import permutations
from pathlib import Path

from dragoman.bundle import read_bundle, write_bundle
from dragoman.config import make_config
from dragoman.config import replace as with_settings
from dragoman.decode.translator import Request, load
from dragoman.evaluate.metrics import score
from dragoman.text.parallel import read_pairs

CONFIG = Path(__file__).parent / "config.toml"
LANGUAGES = ("de", "en", "es", "fr", "pt")
CARD = {
    "description": "every direction between English, German, Spanish, French and Portuguese; short everyday sentences",
    "data": "Tatoeba in four pairs with English, joined on English for the other directions; LibreOffice's help texts "
    "and messages; Bible verses; English of these translated into Portuguese by an earlier model; no pair shares a "
    "sentence with a validation or test set, and none was changed or chained from one that does",
    "attribution": "sentences from tatoeba.org and manythings.org/anki (CC BY 2.0 FR); translations of LibreOffice "
    "7.4.7 (MPL-2.0); Bible texts by BibleNLP/ebible (public domain)",
    "licence": "CC BY 2.0 FR, as the sentences",
    "trained_by": "dragoman train --config pretraining/config.toml, in three legs, the last with max_steps=46656",
    "machine": "one NVIDIA H200",
    "scored_on": "test",
}  # fmt: skip


def main(corpora: Path, model: Path, out: Path) -> None:
    kept = model / "scores.json"
    scores: dict[str, list[dict[str, object]]] = json.loads(kept.read_text()) if kept.exists() else {}
    with_search_settings(model)
    translator = load(model)
    for source, target in permutations(LANGUAGES, 2):
        direction = f"{source}→{target}"
        if direction not in scores:
            pairs = [(p.source, p.target) for p in read_pairs(*test_set(corpora, source, target))]
            outputs = translator([text for text, _ in pairs], Request(to=target, source_language=source))
            metrics = ["BLEU", "chrF2"] if "en" in (source, target) else ["chrF2"]
            found = score(outputs, [[reference for _, reference in pairs]], metrics)
            scores[direction] = [
                {"name": f"{direction} {s.name}", "value": round(s.value, 2), "signature": s.signature} for s in found
            ]
            kept.write_text(json.dumps(scores, indent=1, ensure_ascii=False))
        print(*(f"{entry['name']} {entry['value']:.2f}" for entry in scores[direction]), sep=", ", flush=True)
    bundle = read_bundle(model)
    card = {
        **bundle.card,
        **CARD,
        "scores": [entry for s, t in permutations(LANGUAGES, 2) for entry in scores[f"{s}→{t}"]],
    }
    write_bundle(out, replace(bundle, card=card))


def with_search_settings(model: Path) -> None:
    """How to search is taken from the config as it stands; where the data lay is forgotten."""
    bundle = read_bundle(model)
    config = with_settings(bundle.config, {"data.prepared": ""})
    write_bundle(model, replace(bundle, config=replace(config, decoding=make_config(file=CONFIG).decoding)))


def test_set(corpora: Path, source: str, target: str) -> tuple[Path, Path]:
    if "en" in (source, target):
        other = source if target == "en" else target
        stem = corpora / "tatoeba" / f"{other}-en" / "test"
    else:
        stem = corpora / "pretraining" / f"test.{'-'.join(sorted((source, target)))}"
    return Path(f"{stem}.{source}.gz"), Path(f"{stem}.{target}.gz")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
