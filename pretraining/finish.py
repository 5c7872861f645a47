"""Scores a trained and converted model in every direction and leaves it, with its card, in another
folder.

    python pretraining/finish.py corpora runs/bundled dragoman/pretrained/NAME

All twenty directions: FLORES devtest, BLEU and chrF. Those with English: the Tatoeba test sets as
well. The bundle translates as it is: int8, its own beam. This is done once, after all choices were
made on the validation sets (validate.py). Scores that are found in runs/bundled/scores.json are not
computed again.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path

from data import LANGUAGES

from dragoman.bundle.folder import read_bundle, write_bundle
from dragoman.config import make_config
from dragoman.config import replace as with_settings
from dragoman.decode.request import Request
from dragoman.decode.translator import Translator
from dragoman.text.languages import Languages
from dragoman.text.metrics import score
from dragoman.text.parallel import read_pairs

CONFIG = Path(__file__).parent / "config.toml"
CARD = {
    "description": "every direction between English, German, Spanish, French and Portuguese",
    "data": (
        "Europarl in all twenty directions; Tatoeba; documentation, laws and verses; "
        "dictionaries, names of countries, languages and units; stories and encyclopaedia "
        "passages; news, courses, textbooks, stories of games and pages of organisations; messages "
        "and help pages of 1,700 packages of Debian 12; single sentences of Common Voice, "
        "Wikipedia, Vikidia, Klexikon, Bosque, OpenStax, novels and treebanks, back-translated by "
        "the stage before; no pair shares a sentence with a validation or test set, and none was "
        "changed from one that does"
    ),
    "attribution": (
        "Source: European Parliament (Multilingual-Parallel-Direct-Europarl). Sentences from "
        "tatoeba.org and manythings.org/anki (CC BY 2.0 FR). Mozilla contributors (CC BY-SA "
        "2.5); PHP and Godot manuals (CC BY 3.0); Python documentation (PSF, translations "
        "CC0); Canada's federal acts (Open Government Licence - Canada); GIMP manual (GFDL "
        "1.2); React, Kubernetes, Open Source Guides, Programming Historian, tldr (CC BY "
        "4.0); Debian handbook (CC BY-SA 3.0); FreeBSD documentation (BSD); LibreOffice 7.4.7 "
        "(MPL-2.0); Bible texts by BibleNLP/ebible (public domain; pt CC BY 3.0 BR); "
        "children's stories (CC BY); XQuAD (CC BY-SA 4.0); Wiktionary (CC BY-SA 3.0); CLDR "
        "(Unicode); iso-codes (LGPL-2.1); Common Voice (CC0); Wikipedia, Vikidia, Klexikon, "
        "Bosque, FSFE, Cataclysm DDA (CC BY-SA); OpenStax (CC BY 4.0); Debian's web pages "
        "(Expat, GPL-2+, OPL 1.0); ethereum.org, courses for beginners (MIT); Mozilla's pages "
        "(MPL-2.0); LearnOSM (CC0); agencies of the USA (public domain); handbooks of open "
        "science (CC0); pages of Apache, Bitcoin, Monero, CNCF, OWASP, Django Girls, Hugging "
        "Face, CS Unplugged and Stellarium (Apache-2.0, MIT, BSD, CC BY-SA); Universal "
        "Dependencies: AnCora, Porttinari (CC BY 4.0), GSD of Spanish, French and Portuguese "
        "(CC BY-SA 4.0), PUD (CC BY-SA 3.0), Sequoia (LGPL-LR); the programs of Debian 12, each "
        "under its own licence (GPL, LGPL, MPL-2.0, CC BY-SA, MIT, BSD and others), Wesnoth, "
        "Freeciv, Widelands (GPL-2+) and Unknown Horizons among them; Shattered Pixel Dungeon "
        "(GPL-3); Unciv (MPL-2.0); PKP's manuals, Nextstrain, Software Carpentry (CC BY 4.0); "
        "FisiQuímicamente (CC BY-SA 4.0); PIAF (MIT, of Wikipedia: CC BY-SA); ELTeC (public "
        "domain, CC BY 4.0)"
    ),
    "licence": "CC BY-SA 4.0",
    "trained_by": "pretraining/programs.py, data.py, back.py, grow.py and config.toml, in six "
    "stages; steps and cost are those of the sixth, which starts from the fifth (27,000 steps, "
    "2.45e17 FLOPs), that from the fourth (35,500 steps, 2.46e17 FLOPs) with four more layers, "
    "that from the third (31,300 steps, 2.2e17 FLOPs), that from the second (26,500 steps, "
    "1.84e17 FLOPs), and that from the first (18,000 steps, 1.24e17 FLOPs)",
    "machine": "one NVIDIA H200",
    "scored_on": "test",
}


def main(corpora: Path, model: Path, out: Path) -> None:
    kept = model / "scores.json"
    scores: dict[str, list[dict[str, object]]] = (
        json.loads(kept.read_text()) if kept.exists() else {}
    )
    with_search_settings(model)
    translator = Translator.load(model)
    for name, source, target, files in test_sets(corpora):
        if name not in scores:
            pairs = [(pair.source, pair.target) for pair in read_pairs(*files)]
            request = Request(to=target, source_language=source)
            outputs = [*translator.stream((text for text, _ in pairs), request, processes=0)]
            scores[name] = [
                {
                    "name": f"{name} {found.name}",
                    "value": round(found.value, 2),
                    "signature": found.signature,
                }
                for found in score(
                    outputs, [[reference for _, reference in pairs]], ["BLEU", "chrF2"]
                )
            ]
            kept.write_text(json.dumps(scores, indent=1, ensure_ascii=False))
        print(
            *(f"{entry['name']} {entry['value']:.2f}" for entry in scores[name]),
            sep=", ",
            flush=True,
        )
    bundle = read_bundle(model)
    of_all = [entry for name, *_ in test_sets(corpora) for entry in scores[name]]
    write_bundle(out, replace(bundle, card={**bundle.card, **CARD, "scores": of_all}))


def test_sets(corpora: Path) -> Iterator[tuple[str, str, str, tuple[Path, Path]]]:
    """Name, source and target language, files."""
    for source, target in permutations(LANGUAGES, 2):
        files = tuple(corpora / "flores" / f"devtest.{x}.gz" for x in (source, target))
        yield f"FLORES {source}→{target}", source, target, (files[0], files[1])
    for source, target in permutations(LANGUAGES, 2):
        if "en" in (source, target):
            folder = corpora / "tatoeba" / f"{target if source == 'en' else source}-en"
            files = tuple(folder / f"test.{x}.gz" for x in (source, target))
            yield f"Tatoeba {source}→{target}", source, target, (files[0], files[1])


def with_search_settings(model: Path) -> None:
    """How to search is taken from the config as it stands; where the data lay is forgotten
    (config.toml lists it), and need not be read whenever somebody translates a line.

    English comes first of the languages: it is what text becomes if nobody names a target.
    """
    bundle = read_bundle(model)
    config = with_settings(bundle.config, {"data.prepared": "", "data.corpora": []})
    config = replace(config, decoding=make_config(file=CONFIG).decoding)
    codec = replace(bundle.codec, languages=Languages(LANGUAGES, LANGUAGES))
    write_bundle(model, replace(bundle, config=config, codec=codec))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    main(options.corpora, options.model, options.out)
