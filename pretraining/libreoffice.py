"""Pairs with English out of LibreOffice's own translations (MPL-2.0), as Debian packs them.

    apt-get download libreoffice-help-en-us libreoffice-{help,l10n}-{es,pt,pt-br}
    for package in libreoffice-*.deb; do dpkg -x "$package" corpora/libreoffice; done
    python pretraining/libreoffice.py corpora

reads the help pages and the interface's messages under corpora/libreoffice/usr and leaves, sentence by sentence,
corpora/pretraining/libreoffice.{es,pt}-en. (German and French are in corpora/extra.)
"""

import re
import sys
from collections.abc import Iterator
from gettext import GNUTranslations
from html.parser import HTMLParser
from pathlib import Path

from data import write

from dragoman.text.segments import split_sentences

VARIETIES = {"es": ("es",), "pt": ("pt", "pt-BR")}
HELP, MESSAGES = Path("usr/share/libreoffice/help"), Path("usr/lib/libreoffice/program/resource")
LONGEST = 80  # words


def main(corpora: Path) -> None:
    root, out = corpora / "libreoffice", corpora / "pretraining"
    out.mkdir(exist_ok=True)
    for language, varieties in VARIETIES.items():
        texts = (pair for variety in varieties for pair in (*help_texts(root, variety), *messages(root, variety)))
        pairs = dict.fromkeys(pair for text in texts for pair in sentences(*text) if worthwhile(*pair))
        write(out, f"libreoffice.{language}-en", language, "en", pairs)


def help_texts(root: Path, variety: str) -> Iterator[tuple[str, str]]:
    """The paragraphs of all help pages that have the same mark in English."""
    english = root / HELP / "en-US"
    for page in sorted(english.rglob("*.html")):
        other = root / HELP / variety / page.relative_to(english)
        if other.exists():
            originals, translations = (paragraphs(p.read_text(encoding="utf-8")) for p in (page, other))
            yield from ((translations[mark], text) for mark, text in originals.items() if mark in translations)


def messages(root: Path, variety: str) -> Iterator[tuple[str, str]]:
    """What menus and dialogs say, without the signs for the keyboard's shortcuts."""
    for file in sorted((root / MESSAGES / variety.replace("-", "_")).rglob("*.mo")):
        with file.open("rb") as stream:
            catalog: dict[object, str] = vars(GNUTranslations(stream))["_catalog"]
        for key, translation in catalog.items():
            if isinstance(key, str) and "\x04" in key:  # a key of two parts is one of several plural forms
                yield (plain(translation), plain(key.partition("\x04")[2]))


def plain(message: str) -> str:
    return re.sub(r"[~_](?=\w)", "", message).replace("%PRODUCTNAME", "LibreOffice").strip()


class Paragraphs(HTMLParser):
    """Collects the text of every paragraph that bears a mark."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self._mark = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "p":
            self._mark = dict(attrs).get("id") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "p":
            self._mark = ""

    def handle_data(self, data: str) -> None:
        if self._mark:
            self.found[self._mark] = self.found.get(self._mark, "") + data


def paragraphs(page: str) -> dict[str, str]:
    """
    >>> paragraphs('<p id="a">Click <b>Open</b>.</p><p>No mark.</p>')
    {'a': 'Click Open.'}
    """
    parser = Paragraphs()
    parser.feed(page)
    return {mark: " ".join(text.split()) for mark, text in parser.found.items()}


def sentences(text: str, english: str) -> Iterator[tuple[str, str]]:
    """The two sides sentence by sentence, if both have as many; otherwise as they are.

    >>> list(sentences("Olá. Adeus!", "Hello. Bye!"))
    [('Olá.', 'Hello.'), ('Adeus!', 'Bye!')]
    """
    parts, others = split_sentences(text)[0], split_sentences(english)[0]
    yield from zip(parts, others, strict=True) if len(parts) == len(others) else ((text, english),)


def worthwhile(text: str, english: str) -> bool:
    """Translated prose: not the same twice, not code, not endless, neither side twice as long as the other.

    >>> worthwhile("Abra o arquivo.", "Open the file."), worthwhile("x = 1", "x = 1")
    (True, False)
    """
    lengths = sorted((len(text), len(english)))
    letters = sum(c.isalpha() or c.isspace() for c in text + english)
    return (
        text != english
        and len(english.split()) <= LONGEST
        and lengths[0] >= 2
        and lengths[1] <= 2 * lengths[0] + 10
        and letters >= 0.85 * (len(text) + len(english))
        and "  " not in text + english
        and "\n" not in text + english
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
