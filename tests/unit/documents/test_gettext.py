"""gettext's own tools accept what is written, in any target language."""

import subprocess
from pathlib import Path

import polib
import pytest
from babel.messages.plurals import PLURALS

from dragoman.documents.document import ReadOptions
from dragoman.documents.formats import BY_ENDING, read
from dragoman.documents.rounds import SentenceRequest, SentenceResult, translate_segments

TEMPLATE = r"""#, fuzzy
msgid ""
msgstr ""
"Project-Id-Version: A 1\n"
"PO-Revision-Date: 2026-01-01 00:00+0000\n"
"Last-Translator: A <a@example.org>\n"
"Language-Team: A <a@example.org>\n"
"Language: \n"
"MIME-Version: 1.0\n"
"Content-Type: text/plain; charset=CHARSET\n"
"Content-Transfer-Encoding: 8bit\n"
"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\n"

#, c-format
msgid "%d file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""

msgctxt "verb"
msgid "Open"
msgstr ""

msgctxt "adjective"
msgid "Open"
msgstr ""
"""
WITHOUT_FORMS = "".join(
    line for line in TEMPLATE.splitlines(keepends=True) if "Plural-Forms" not in line
)


def translated(text: str, to: str) -> bytes:
    def shout(requests: list[SentenceRequest]) -> list[SentenceResult]:
        return [SentenceResult("É" + request.text.upper()) for request in requests]

    document = read("a.po", text.encode(), BY_ENDING[".po"], ReadOptions(to=to))
    return document.write(translate_segments(document.segments, shout))


@pytest.mark.parametrize(
    "to", ["de", "fr", "pt_BR", "ja", "ru", "pl", "cs", "sl", "ar", "ro", "lt"]
)
@pytest.mark.parametrize("template", [TEMPLATE, WITHOUT_FORMS])
def test_an_entry_has_the_plural_forms_of_its_language(
    to: str, template: str, tmp_path: Path
) -> None:
    after = tmp_path / "a.po"
    after.write_bytes(translated(template, to))
    subprocess.run(["msgfmt", "-c", "-o", str(tmp_path / "a.mo"), str(after)], check=True)
    file = polib.pofile(str(after))
    assert file.metadata["Plural-Forms"].startswith(f"nplurals={PLURALS[to][0]};")
    assert len(file[0].msgstr_plural) == PLURALS[to][0]
    assert all(file[0].msgstr_plural.values())
    assert [entry.msgctxt for entry in file] == [None, "verb", "adjective"]


def test_stated_plural_forms_of_the_language_stay() -> None:
    own = 'Language: de\\n"\n"Plural-Forms: nplurals=1; plural=0;'
    text = TEMPLATE.replace("Language: ", own, 1).replace('"Plural-Forms: nplurals=I', '"X-Old: I')
    assert b"nplurals=1; plural=0;" in translated(text, "de")
    assert b"nplurals=2; plural=(n != 1);" in translated(text.replace(": de", ": ja"), "de")


def test_options_and_columns_of_a_help_text_stay() -> None:
    head = TEMPLATE[: TEMPLATE.index("#, c-format")]
    lines = ["Usage: foo [OPTION]... FILE", "  -o, --output=FILE     write to FILE", ""]
    lines += ["      --quiet  say less", "  a   bc", ""]
    escaped = "\\n".join(lines)
    after = translated(f'{head}msgid "{escaped}"\nmsgstr ""\n', "de").decode()
    assert polib.pofile(after)[0].msgstr.split("\n") == [
        "ÉUSAGE: FOO [OPTION]... FILE",
        "  -o, --output=FILE     ÉWRITE TO FILE",
        "",
        "      --quiet  ÉSAY LESS",
        "  ÉA   ÉBC",
        "",
    ]


@pytest.mark.parametrize("keys", ["<kbd>Ctrl+S</kbd>", "<kbd>Ctrl</kbd>+<kbd class='x'>S</kbd>"])
def test_keys_stay_together_and_in_order(keys: str) -> None:
    head = TEMPLATE[: TEMPLATE.index("#, c-format")]
    after = translated(f'{head}msgid "Press {keys} now."\nmsgstr ""\n', "de").decode()
    assert keys in polib.pofile(after)[0].msgstr
