"""Every code comes back exactly once and in its element, for any translator."""

import random
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.documents.document import QualityWarning
from dragoman.documents.inline import MaskedSegment, SentenceResult
from dragoman.documents.protect import adds_protected, protect, protect_texts
from dragoman.documents.rounds import SentenceRequest, translate_segments
from dragoman.documents.segment import (
    Code,
    Kind,
    Segment,
    codes,
    normalize,
    same_structure,
    serialize,
    strip_edges,
)
from dragoman.text.verbatim import names

PLACEHOLDERS = [
    "%s", "%d", "%(name)s", "%1$s", "%.2f", "%%", "{0}", "{name}", "{}", "{{x}}", "${HOME}",
    "$t(key.sub)", "%{count}", '<x id="1"/>', "https://example.org/a?b=c", "ada@example.org",
    "v1.2.3", "report.docx", "10.0.0.1", "&nbsp;", "snake_case", "--force", "978-3-16-148410-0",
]  # fmt: skip
TAGS = ["b", "i", 'a href="x"', 'span class="y"']
WORDS = ["The", "dog", "sleeps", "in", "our", "old", "house.", "Really?", "Yes,", "why"]


def drive(segments, say):
    """Translate segments, sentence by sentence, with a function of our own."""
    return translate_segments(segments, lambda sentences: [say(one) for one in sentences])


def identical(sentence: SentenceRequest) -> SentenceResult:
    count = len(sentence.text.split())
    return SentenceResult(sentence.text, tuple((i, i) for i in range(count)))


def scrambler(seed: int):
    """Drops, doubles, moves and invents words, and links them at random."""
    draw = random.Random(seed)

    def say(sentence: SentenceRequest) -> SentenceResult:
        words = sentence.text.split()
        said = [word for word in words for _ in range(draw.choice([0, 1, 1, 1, 2]))]
        draw.shuffle(said)
        said += draw.choices(
            ["neu", "%s", "{0}", "<b>", "X47", "4817", "&amp;"], k=draw.randrange(3)
        )
        links = tuple((draw.randrange(len(words)), t) for t in range(len(said)))
        return SentenceResult(" ".join(said), links if draw.random() < 0.8 else ())

    return say


@st.composite
def marked_texts(draw) -> str:
    """Words, placeholders and nested tags in any order, with and without white space."""
    parts: list[str] = []
    opened: list[str] = []
    for _ in range(draw(st.integers(1, 14))):
        kind = draw(st.sampled_from(["word", "word", "placeholder", "open", "close", "glue"]))
        if kind == "word":
            parts.append(draw(st.sampled_from(WORDS)) + " ")
        elif kind == "placeholder":
            placeholder = draw(st.sampled_from(PLACEHOLDERS))
            # A file name that touches a letter is another word.
            blanks = [" "] if placeholder == "report.docx" else ["", " "]
            before = " " if placeholder == "report.docx" else ""
            parts.append(before + placeholder + draw(st.sampled_from(blanks)))
        elif kind == "open":
            opened.append(draw(st.sampled_from(TAGS)))
            parts.append(f"<{opened[-1]}>")
        elif kind == "close" and opened:
            parts.append(f"</{opened.pop().split()[0]}>")
        elif kind == "glue":
            parts.append(draw(st.sampled_from([",", "/", "-", "(", ")", "<br>"])))
    parts += [f"</{tag.split()[0]}>" for tag in reversed(opened)]
    return "".join(parts)


@given(marked_texts(), st.integers(0, 10_000))
@example("The %sThe The snake_casehttps://example.org/a?b=c The ", 1)
@example("The dog --forcehttps://example.org/a?b=c sleeps", 1)
@example("/https://example.org/a?b=c The The ", 0)
@example("The dog ada@example.orghttps://example.org/a?b=c sleeps", 1)
def test_no_translator_can_lose_gain_or_move_a_code(text: str, seed: int) -> None:
    (after,) = drive([(text,)], scrambler(seed))
    before = protect_texts((text,))
    assert same_structure(before, after)
    # by an independent look at the text: as many of each, and tags balanced
    shown = serialize(after)
    for placeholder in ("%(name)s", "{name}", "https://example.org/a?b=c", "report.docx", "{{x}}"):
        assert shown.count(placeholder) == text.count(placeholder)
    for name in ("b", "i", "a", "span"):
        assert len(re.findall(rf"<{name}[ >]", shown)) == len(re.findall(rf"<{name}[ >]", text))
        assert shown.count(f"</{name}>") == text.count(f"</{name}>")
    stack: list[str] = []
    for closing, name in re.findall(r"<(/?)(b|i|a|span)[ >]", shown):
        if closing:
            assert stack.pop() == name
        else:
            stack.append(name)
    assert not stack


@given(marked_texts())
def test_an_unchanged_translation_returns_the_same_segment(text: str) -> None:
    (after,) = drive([(text,)], identical)
    assert serialize(after) == text


def test_tags_follow_the_words_that_they_belong_to() -> None:
    def say(sentence: SentenceRequest) -> SentenceResult:
        assert sentence.linked
        assert sentence.text == "I really like green apples."
        return SentenceResult(
            "Ich mag grüne Äpfel wirklich.", ((0, 0), (2, 1), (3, 2), (4, 3), (1, 4))
        )

    (after,) = drive([("I <em>really</em> like <a href='x'>green apples</a>.",)], say)
    assert serialize(after) == "Ich mag <a href='x'>grüne Äpfel</a> <em>wirklich</em>."


def test_placeholders_without_numbers_keep_their_order() -> None:
    def backwards(sentence: SentenceRequest) -> SentenceResult:
        words = sentence.text.split()
        return SentenceResult(" ".join(reversed(words)))

    (after,) = drive([("copied %s to %d",)], backwards)
    assert serialize(after).index("%s") < serialize(after).index("%d")
    (after,) = drive([("copied %1$s to %2$d",)], backwards)
    assert serialize(after) == "%2$d to %1$s copied"


def test_plurals_are_translated_branch_by_branch() -> None:
    def upper(sentence: SentenceRequest) -> SentenceResult:
        return SentenceResult(sentence.text.upper())

    (after,) = drive([("{n, plural, one {# file} other {# files}} left",)], upper)
    assert serialize(after) == "{n, plural, one {# FILE} other {# FILES}} LEFT"


def test_a_lost_mask_is_replaced_and_then_avoided() -> None:
    asked: list[str] = []

    def forgetful(sentence: SentenceRequest) -> SentenceResult:
        asked.append(sentence.text)
        return SentenceResult(re.sub(r"\b(?:X47|4817)\b", "", sentence.text).upper())

    (after,) = drive([("open {file} now",)], forgetful)
    assert asked == ["open X47 now", "open 4817 now", "open", "now"]
    assert serialize(after) == "OPEN {file} NOW"


def test_masks_avoid_words_of_the_text() -> None:
    asked: list[str] = []

    def note(sentence: SentenceRequest) -> SentenceResult:
        asked.append(sentence.text)
        return SentenceResult(sentence.text)

    drive([("X47 is at {place}",)], note)
    assert asked == ["X47 is at X60"]


@pytest.mark.parametrize("placeholder", PLACEHOLDERS)
def test_every_kind_of_placeholder_is_found(placeholder: str) -> None:
    found = [code.raw for code in codes(protect(f"see {placeholder} here"))]
    assert found == [placeholder]


def test_ordinary_text_has_no_codes() -> None:
    for text in (
        '100 % sicher, 50 %, and/or 1/2; he said: "No!"',
        "It cost $5, at 10:30, e.g. on 3.5. or 2.5 km.",
        "U.S.A. (C) A & B, x < y > z",
    ):
        assert protect(text) == (text,)


def test_a_translation_that_invents_a_placeholder_is_rejected() -> None:
    assert adds_protected("five files", "{n} Dateien")
    assert not adds_protected("{n} files", "{n} Dateien")
    (after,) = drive([("five files",)], lambda sentence: SentenceResult("%s Dateien"))
    assert serialize(after) == "five files"


def test_hostile_texts_take_linear_time() -> None:
    """Each is read in well under a second; in quadratic time it would be minutes."""
    for unit in ("<!--", "{{", "a_", "/a", "{a,plural,x{", "%(", "&a", "a@a.", "<a "):
        assert serialize(protect(unit * 20_000)) == unit * 20_000
    deep = "<b>" * 3000 + "word" + "</b>" * 3000
    (after,) = drive([(deep,)], lambda sentence: SentenceResult("Wort"))
    assert serialize(after) == deep.replace("word", "Wort")


def test_elements_become_well_nested() -> None:
    opening, closing = Code("<b>", Kind.OPEN, "b"), Code("</i>", Kind.CLOSE, "i")
    assert [code.kind for code in codes(normalize([opening, "x", closing]))] == [
        Kind.MARK,
        Kind.MARK,
    ]
    before, inner, after = strip_edges(normalize([" ", Code("<br>", Kind.MARK), " a ", "b "]))
    assert (serialize(before), inner, after) == (" <br> ", ("a b",), (" ",))


def placed(text: str, said: str, links: str) -> str:
    """A text with tags, its translation, and for each target word the source word linked to it."""
    numbers = tuple((int(source), t) for t, source in enumerate(links.split()))
    return serialize(drive([(text,)], lambda sentence: SentenceResult(said, numbers))[0])


def test_a_link_lands_on_its_word_and_not_on_an_article() -> None:
    # what attention said: "die" comes from X3D, the compound from "output"
    assert placed("<a>X3D</a> output", "die X3D-Ausgabe", "0 1") == "die <a>X3D</a>-Ausgabe"


def test_an_article_is_in_an_element_if_it_is_in_its_source() -> None:
    after = placed("See <b>user guide</b> now", "Siehe das Handbuch jetzt", "0 1 2 3")
    assert after == "Siehe das <b>Handbuch</b> jetzt"
    after = placed("See <b>the guide</b> now", "Siehe das Handbuch jetzt", "0 0 2 3")
    assert after == "Siehe <b>das Handbuch</b> jetzt"


def test_a_whole_phrase_is_enclosed_though_a_small_word_in_it_is_linked_elsewhere() -> None:
    after = placed(
        "Read <b>configuration file manual</b> today",
        "Lea el manual del archivo de configuración hoy", "0 0 3 0 2 0 1 4",
    )  # fmt: skip
    assert after == "Lea el <b>manual del archivo de configuración</b> hoy"


def test_a_dash_between_its_words_does_not_cut_an_element() -> None:
    after = placed(
        "Choose <b>View - Styles</b> now", "Wählen Sie Ansicht – Vorlagen jetzt", "0 0 1 2 3 4"
    )
    assert after == "Wählen Sie <b>Ansicht – Vorlagen</b> jetzt"


def test_an_element_does_not_begin_with_a_small_word_if_its_source_does_not() -> None:
    after = placed("Click <b>Save</b> now", "Klicken Sie auf Speichern jetzt", "0 1 1 1 2")
    assert after == "Klicken Sie auf <b>Speichern</b> jetzt"
    after = placed("It is <b>in use</b> now", "Es ist jetzt in Gebrauch", "0 1 4 3 3")
    assert after == "Es ist jetzt <b>in Gebrauch</b>"


def test_a_name_stays_in_its_element_against_the_links() -> None:
    after = placed("We met <b>Ada</b> there", "Dort trafen wir Ada", "2 1 0 3")
    assert after == "Dort trafen wir <b>Ada</b>"


def test_links_that_do_not_fit_the_words_are_ignored() -> None:
    """Then words at like places are linked."""
    after = placed("We met <b>friends</b> there", "Wir trafen Freunde dort", "3 3 3")
    assert after == "Wir trafen <b>Freunde</b> dort"
    after = placed("We met <b>friends</b> there", "Wir trafen Freunde dort", "0 1 9 2")
    assert after == "Wir trafen <b>Freunde</b> dort"


def test_an_element_ends_with_punctuation_only_if_its_source_does() -> None:
    assert placed("Say <b>yes</b>!", "Sag «ja»!", "0 1") == "Sag «<b>ja</b>»!"
    assert placed("Say <b>yes!</b>", "Sag ja!", "0 1") == "Sag <b>ja!</b>"


def test_an_element_without_links_is_placed_proportionally() -> None:
    after = placed("Read <b>it</b> again today please", "Bitte heute nochmal lesen", "4 3 2 0")
    assert after == "Bitte <b>heute</b> nochmal lesen"


def test_punctuation_after_a_code_stays_in_piecewise_translation() -> None:
    """A translator may drop a full stop before a sentence."""

    def words_alone(sentence: SentenceRequest) -> SentenceResult:
        return SentenceResult(" ".join(re.findall(r"\b[a-z]+\b", sentence.text)).upper())

    codes_ = [Code("`x`"), Code("`y`"), Code("`z`")]
    segment = ("one ", codes_[0], ". two ", codes_[1], ", three ", codes_[2], ".")
    (after,) = drive([segment], words_alone)
    assert serialize(after) == "ONE `x`. TWO `y`, THREE `z`."


def test_each_mask_avoids_taken_names() -> None:
    code = Code("{x}", Kind.WORD)
    first, second, third = names(0), names(1), names(2)
    assert MaskedSegment(("Say ", code, " and ", code, ".")).text == f"Say {first} and {second}."
    # the first is taken, so each gets the next one
    plain = MaskedSegment((f"{first} says ", code, " and ", code, "."))
    assert plain.text == f"{first} says {second} and {third}."


@pytest.mark.parametrize(
    ("links", "why"),
    [("0 0 2 3", "<b> may enclose other words"), ("0 1 1 3", ""), ("0 1 2 3", "")],
)
def test_a_tag_that_no_word_of_its_own_is_linked_to_is_noted(links: str, why: str) -> None:
    numbers = tuple((int(source), t) for t, source in enumerate(links.split()))
    warnings: dict[Segment, QualityWarning] = {}
    segment = ("We <b>love</b> old films",)
    said = SentenceResult("Wir sehen gern Filme", numbers)
    after = translate_segments([segment], lambda sentences: [said] * len(sentences), warnings)
    assert serialize(after[0]).count("<b>") == 1
    assert [warning.why for warning in warnings.values()] == [why] * bool(why)
