"""No text makes a pattern or a reader take more than linear time."""

import contextlib
import random
import re
import time
from collections.abc import Callable

import patterns
import pytest
from steps import Counter, TooManyError

from dragoman.decode.repairs import placing
from dragoman.documents import line_markup, web
from dragoman.documents.document import DocumentError, ReadOptions
from dragoman.documents.formats import BY_ENDING
from dragoman.documents.markdown import segment_of
from dragoman.documents.protect import protect
from dragoman.documents.segment import serialize, texts
from dragoman.documents.subtitles import subtitle_spans
from dragoman.text import numbers
from dragoman.text.verbatim import verbatim_spans

SIZE = 2**16
SECONDS = 5.0  # CPU time; most of these took minutes


@pytest.mark.parametrize(
    "pattern",
    [r"\s+$", r"a*a*b", r"(a+)+$", r"(?<!\s)\s+$", r"x?(?>a|ab)c|(b)\1", r"^\s*?(?:x|)+$",
     r"(?=a)b|a{2,3}?b", r"(?i:A)b*?c", r'"(?:[^"\\]|\\.)*+"', r"(?!a)\w{2}|a*+a"],
)  # fmt: skip
def test_the_counter_finds_what_python_finds(pattern: str) -> None:
    rng = random.Random(1)
    counter = Counter(re.compile(pattern, re.M))
    for _ in range(200):
        text = "".join(rng.choices('ab c\nx"\\', k=rng.randrange(12)))
        assert counter.run(text) == [m.span() for m in re.finditer(pattern, text, re.M)]


@pytest.mark.parametrize("bad", [r"(a+)+$", r"\s+$", r"a*a*b", r"a*b", r"[.!?]\W*$"])
def test_a_pattern_that_backtracks_is_noticed(bad: str) -> None:
    found = patterns.growth(patterns.Pattern("here", re.compile(bad), everywhere=True))
    assert found.ratio > patterns.MOST_GROWTH


def test_the_counter_stops_at_its_limit() -> None:
    with pytest.raises(TooManyError):
        Counter(re.compile(r"(a+)+$")).run("a" * 40 + "b", limit=1000)


@pytest.mark.parametrize("packages", [["documents"], ["decode"], ["text"], []], ids=str)
def test_every_pattern_takes_linear_time(packages: list[str]) -> None:
    """One case for each package with many patterns, so that workers share them; [] has the rest."""
    slow = []
    for pattern in patterns.patterns():
        package = pattern.place.partition("/")[0]
        if package in packages or not (packages or package in {"documents", "decode", "text"}):
            ratio, steps, attack = patterns.growth(pattern)
            if ratio >= patterns.MOST_GROWTH or steps >= patterns.MOST_STEPS:
                slow.append((pattern.place, ratio, steps, attack))
    assert not slow


def pumped(repeated: str, before: str = "", behind: str = "") -> str:
    return before + repeated * (SIZE // len(repeated)) + behind


def read(ending: str, text: str) -> None:
    with contextlib.suppress(DocumentError):
        BY_ENDING[ending].read(text.encode(), ReadOptions())


ATTACKS: dict[str, Callable[[], object]] = {
    "properties spaces": lambda: read(".properties", pumped(" ", "a", "\r\n")),
    "properties letters": lambda: read(".properties", pumped("a", "", "\r\n")),
    "verbatim percent": lambda: verbatim_spans(pumped("0", "a %")),
    "verbatim path": lambda: verbatim_spans(pumped("-/", "/")),
    "verbatim version": lambda: verbatim_spans(pumped(".111", "1", "a")),
    "verbatim phone": lambda: verbatim_spans(pumped("+1" + "1" * 40 + " ")),
    "verbatim called": lambda: verbatim_spans(pumped("tel 12 34 56, ")),
    "protect words": lambda: protect(pumped("%s")),
    "protect comments": lambda: protect(pumped("<!--")),
    "html attributes": lambda: web.name_language(pumped("a", "<html ", ">"), "de"),
    "html attribute names": lambda: list(web.find_spans(pumped("a", "<p ", ">"))),
    "html titles": lambda: list(web.find_spans(pumped("<b title='a'>b</b>"))),
    "html tags without an end": lambda: list(web.find_spans(pumped("<a"))),
    "html quotes": lambda: list(web.find_spans(pumped("<a b='>'"))),
    "html comments": lambda: list(web.find_spans(pumped("<!--a>"))),
    "html odd comments": lambda: list(web.find_spans(pumped("<!a>"))),
    "html sections": lambda: list(web.find_spans(pumped("<![CDATA[>"))),
    "html references": lambda: list(web.find_spans(pumped("&amp;"))),
    "markdown spaces": lambda: segment_of(pumped(" ", "a", "b")),
    "markdown notes": lambda: segment_of(pumped("[^")),
    "markdown images": lambda: segment_of(pumped("![")),
    "markdown comments": lambda: segment_of(pumped("<!--")),
    "markdown backticks": lambda: segment_of(" ".join("`" * n for n in range(1, 360))),
    "markdown file": lambda: read(".md", pumped("<!--[![^*`")),
    "fluent spaces": lambda: read(".ftl", pumped(" ", "a = b", "c")),
    "po spaces": lambda: read(".po", pumped(" ", "msgid", "x")),
    "po comments": lambda: read(".po", pumped('msgid "a"\nmsgstr ""\n')),
    "csv quotes": lambda: read(".csv", pumped('""', 'a\n"')),
    "json quotes": lambda: read(".json", pumped('\\"', '["', '"]')),
    "srt": lambda: list(subtitle_spans(pumped(" ", "00:01.000 --> 00:02.000\n"))),
    "xliff files": lambda: BY_ENDING[".xlf"].read(
        pumped("<file/>", '<xliff version="1.2">', "<trans-unit><source>a</source></trans-unit>"
               "</xliff>").encode(), ReadOptions(to="de")).write([("b",)]),
    "sentence ends": lambda: placing._ends_sentence(pumped(".", "", "a")),
    "groups": lambda: numbers.rewritten(pumped(",111", "1"), "en", "de"),
    "times": lambda: numbers.in_24_hours(pumped("3pm "), "en", "de"),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
def test_a_hostile_text_of_64_kilobytes_is_soon_done(name: str) -> None:
    start = time.process_time()
    ATTACKS[name]()
    assert time.process_time() - start < SECONDS


def test_lines_of_subtitles_are_balanced_soon() -> None:
    cue = "00:01.000 --> 00:02.000\na\n" + "b " * 2000
    (span,) = subtitle_spans(cue)
    start = time.process_time()
    balanced = span.write((" ".join(["w" * 13_000] * 3),))
    assert time.process_time() - start < SECONDS
    assert len(balanced.splitlines()) == 2


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_properties_are_read_whatever_ends_their_lines(newline: str) -> None:
    raw = newline.join(["# kept", "a = One \\", "  two", "b=Three", ""]).encode()
    document = BY_ENDING[".properties"].read(raw, ReadOptions())
    assert ["".join(texts(segment)) for segment in document.segments] == ["One two", "Three"]
    assert document.write([("X",), ("Y",)]) == newline.join(["# kept", "a = X", "b=Y", ""]).encode()


def test_an_odd_comment_is_a_mark_and_what_follows_it_a_text() -> None:
    (span,) = web.find_spans("<p>One <!x> two <!-- y --> three")
    assert list(texts(span.segment)) == ["One ", " two ", " three"]
    assert serialize(span.segment) == "One <!x> two <!-- y --> three"


def test_a_po_entry_is_fuzzy_only_by_its_own_comment() -> None:
    raw = b'#, fuzzy\r\nmsgid "a"\r\nmsgstr ""\r\n\r\nmsgid "b"\r\nmsgstr ""\r\n'
    document = BY_ENDING[".po"].read(raw, ReadOptions())
    assert document.write([("c",), ("d",)]).count(b"fuzzy") == 2


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_line_of_blanks_leaves_no_line_end_in_a_wrapped_text(newline: str) -> None:
    wrapped = f"a {newline} \t{newline}b"
    assert line_markup.unwrap(wrapped) == "a  b"
    assert segment_of(wrapped.replace("\r", "")) == ("a  b",)


PUMPS = [
    *"a <[({\\`*_'\"%&#$|:=-+./~^", "\n", "\r\n", "a ", " \n", "\\(", "\\[", "\\a{", "\\a[", "{a}",
    "[a](", "![", "[^", "<!--", "<a b='>'", "&#", "**a", "a.a_", ":a", "a:\n  ", "| a ", "a = \n",
    '"""', "'''", "/*", '\\"', "--a\n", "..\n", "\\begin{a}", "<p>", "%s", "<![CDATA[", "::\n\n",
    "\\footnote{a ", "\\u1?", "{\\",
]  # fmt: skip


@pytest.mark.parametrize("ending", sorted(BY_ENDING))
def test_a_reader_takes_its_time_for_no_text(ending: str) -> None:
    for repeated in PUMPS:
        start = time.process_time()
        read(ending, repeated * (SIZE // 8 // len(repeated)))
        assert time.process_time() - start < SECONDS, repeated
