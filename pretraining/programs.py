"""Messages and help pages of programs, as Debian packs them.

    apt-get download $(apt-file --package-only search /es/LC_MESSAGES/)
    for package in *.deb; do dpkg -x "$package" "unpacked/${package%%_*}"; done
    python pretraining/programs.py unpacked corpora

leaves corpora/programs/{messages,help}.XX-en.tsv.bz2: XX text, tab, English. A message stands there
once for each program that has it, so that one can see which translation of a short line is usual.
Messages with placeholders or code are left out, as are the programs that something is measured on:
adaptation on LibreOffice and GnuCash, confidence on the others. Longer lines of these are left out
elsewhere, too.
"""

import argparse
import bz2
import re
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterable, Iterator
from gettext import GNUTranslations
from html import unescape
from multiprocessing import Pool
from pathlib import Path

from data import CODE, OTHERS, SHORT_WORDS, Pair, is_translation

from dragoman.text.doctor import normalised
from dragoman.text.segments import split_sentences

HELD_OUT = (
    "audacity", "claws", "darktable", "evolution", "filezilla", "gnome-control-center",
    "gnucash", "gnumeric", "libreoffice", "pidgin", "vlc",
)  # fmt: skip
# The names of the languages in packages, the most welcome first.
NAMES = {"de": ("de",), "es": ("es",), "fr": ("fr",), "pt": ("pt_BR", "pt")}
TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
SHORTCUT = re.compile(r"\(_\w\)|\(&\w\)|(?<!\w)_(?=\w)|(?<=\w)_(?=\w)|&(?=\w)")
PLACEHOLDER = re.compile(r"%[-+ 0#.\d]*[a-zA-Z\d(]|\$\w|\\[a-z]|@\w+@|https?:|[\x00-\x08]")
BLOCKS = {
    "p", "title", "para", "simpara", "desc", "item", "td", "term", "entry", "listitem", "subtitle"
}  # fmt: skip
APART = BLOCKS | {"guiseq", "menuchoice"}  # these last are steps without a sign between them
SPACE = re.compile(r"\s+")
MOST_CHARACTERS = 600


def main(unpacked: Path, corpora: Path) -> None:
    out = corpora / "programs"
    out.mkdir(exist_ok=True)
    packages = sorted(unpacked.iterdir())
    found: dict[str, list[Pair]] = defaultdict(list)
    held_out = set()
    with Pool() as pool:
        for package, of_package in zip(
            packages, pool.imap(pairs_of_package, packages), strict=True
        ):
            for name, pairs in of_package.items():
                if package.name.startswith(HELD_OUT):
                    held_out |= {normalised(b) for _, b in pairs if len(b.split()) > SHORT_WORDS}
                else:
                    found[name] += pairs
    for name, pairs in found.items():
        pairs = [pair for pair in pairs if normalised(pair[1]) not in held_out]
        with bz2.open(out / f"{name}-en.tsv.bz2", "wt", encoding="utf-8") as file:
            file.writelines(f"{text}\t{english}\n" for text, english in pairs)
        print(f"{name}-en: {len(pairs):,} pairs, {len({*pairs}):,} different ones")


def pairs_of_package(folder: Path) -> dict[str, list[Pair]]:
    return {
        f"{kind}.{language}": [*dict.fromkeys(cleaned(pairs(folder, language), language))]
        for language in OTHERS
        for kind, pairs in (("messages", messages), ("help", help_pages))
    }


def messages(folder: Path, language: str) -> Iterator[Pair]:
    """Translations, with the English text; of several forms, those of one."""
    catalogs: dict[str, Path] = {}
    for name in NAMES[language]:
        for path in sorted(folder.rglob(f"{name}/LC_MESSAGES/*.mo")):
            catalogs.setdefault(path.name, path)
    for path in catalogs.values():
        try:
            with path.open("rb") as stream:
                catalog = vars(GNUTranslations(stream))["_catalog"]
        except (OSError, ValueError, UnicodeError, LookupError):
            continue  # some are damaged, or in an encoding that they do not name
        for key, translation in catalog.items():
            message, form = key if isinstance(key, tuple) else (key, 0)
            if form == 0 and message:
                english = message.rpartition("\x04")[2]
                yield without_shortcuts(translation), without_shortcuts(english)


def without_shortcuts(text: str) -> str:
    """Without the mark of a keyboard shortcut, of which a message has one at most.

    >>> without_shortcuts("&Save as…"), without_shortcuts("Black & white"), without_shortcuts("_Aa")
    ('Save as…', 'Black & white', 'Aa')
    """
    text = unescape(text)
    return SHORTCUT.sub("", text) if len(SHORTCUT.findall(text)) == 1 else text


def help_pages(folder: Path, language: str) -> Iterator[Pair]:
    """Paragraphs and headings of pages that have the same elements in both languages."""
    for name in NAMES[language]:
        for english in sorted(folder.rglob("help/C/**/*")):
            other = Path(str(english).replace("/help/C/", f"/help/{name}/"))
            if english.suffix in (".page", ".xml", ".docbook") and other.exists():
                texts = [*blocks(other)], [*blocks(english)]
                if [tag for tag, _ in texts[0]] == [tag for tag, _ in texts[1]]:
                    yield from ((a, b) for (_, a), (_, b) in zip(*texts, strict=True))


def blocks(path: Path) -> Iterator[tuple[str, str]]:
    """The innermost elements with text, and their text."""
    try:
        root = ElementTree.fromstring(path.read_bytes())
    except ElementTree.ParseError:  # entities of other files
        return
    for element in root.iter():
        tag, *inner = (str(child.tag).rpartition("}")[2] for child in element.iter())
        if tag in BLOCKS and not APART & {*inner}:
            yield tag, "".join(element.itertext())


def cleaned(pairs: Iterable[Pair], language: str) -> Iterator[Pair]:
    """Line by line and sentence by sentence, where both sides have as many."""
    for pair in pairs:
        a, b = (TAG.sub("", text).strip() for text in pair)
        lines = re.split(r"\n\s*\n", a), re.split(r"\n\s*\n", b)
        for left, right in zip(*lines, strict=False) if same_size(*lines) else ():
            left, right = (SPACE.sub(" ", text).strip() for text in (left, right))
            sentences = split_sentences(left, language)[0], split_sentences(right, "en")[0]
            if not same_size(*sentences):
                sentences = [left], [right]
            yield from filter(is_good, zip(*sentences, strict=True))


def same_size(a: list[str], b: list[str]) -> bool:
    return len(a) == len(b)


def is_good(pair: Pair) -> bool:
    a, b = pair
    return (
        is_translation(a, b)
        and max(map(len, pair)) <= MOST_CHARACTERS
        and not any(CODE.search(text) or PLACEHOLDER.search(text) for text in pair)
        and sum(map(str.isalpha, b)) >= 0.7 * len(b.replace(" ", ""))
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("unpacked", type=Path)
    parser.add_argument("corpora", type=Path)
    options = parser.parse_args()
    main(options.unpacked, options.corpora)
