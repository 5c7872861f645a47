"""Sentences go on over cues, and their translations fit the cues again."""

import random
import re

import pytest

from dragoman.documents.document import ReadOptions
from dragoman.documents.formats import BY_ENDING, read
from dragoman.documents.inline import SentenceResult
from dragoman.documents.rounds import SentenceRequest, translate_segments
from dragoman.documents.segment import plain_text
from dragoman.documents.text_structure import of_subtitles

TIMES = [f"00:00:{n:02},000 --> 00:00:{n + 1:02},900" for n in range(0, 40, 2)]


def srt(*speeches: str) -> str:
    pairs = zip(TIMES, speeches, strict=False)
    return "\n\n".join(f"{n}\n{time}\n{speech}" for n, (time, speech) in enumerate(pairs, 1)) + "\n"


def sentences(text: str, ending: str = ".srt") -> list[str]:
    document = read("a", text.encode(), BY_ENDING[ending], ReadOptions())
    return [plain_text(segment) for segment in document.segments]


def translated(text: str, said: dict[str, str], ending: str = ".srt") -> str:
    """Translate sentences by a table; others stay."""

    def translate(requests: list[SentenceRequest]) -> list[SentenceResult]:
        return [SentenceResult(said.get(request.text, request.text)) for request in requests]

    document = read("a", text.encode(), BY_ENDING[ending], ReadOptions())
    return document.write(translate_segments(document.segments, translate)).decode()


def test_a_sentence_over_cues_is_translated_whole_and_dealt_out() -> None:
    text = srt("If I had known", "that you were coming,", "I would have baked a cake.", "Really?")
    whole = "If I had known that you were coming, I would have baked a cake."
    assert sentences(text) == [whole, "Really?"]
    said = "Wenn ich gewusst hätte, dass du kommst, hätte ich einen Kuchen gebacken."
    assert translated(text, {whole: said}) == srt(
        "Wenn ich gewusst hätte,", "dass du kommst,", "hätte ich einen Kuchen gebacken.", "Really?"
    )


def test_sentences_stay_apart_at_a_pause_a_speaker_or_a_sound() -> None:
    assert len(sentences(srt("I think", "- What?"))) == 2
    assert len(sentences(srt("I think", "[door slams]", "we should go."))) == 3
    assert len(sentences(srt("I think", "JOHN: we should go."))) == 2
    assert len(sentences(srt("I think", "we should go.").replace("00:00:02", "00:00:22"))) == 2


def test_captions_without_punctuation_stay_cue_by_cue() -> None:
    assert len(sentences(srt(*["so we went to the", "shop and bought some"] * 4))) == 8


def test_an_element_that_is_cut_is_closed_and_opened_again() -> None:
    text = srt("See <i>the long", "and winding road</i> there.")
    after = translated(
        text, {"See the long and winding road there.": "SEE THE LONG AND ROAD THERE."}
    )
    cues = [cue.split("\n", 2)[2] for cue in after.strip().split("\n\n")]
    assert all(cue.count("<i>") == cue.count("</i>") == 1 for cue in cues)


def test_codes_around_a_cue_stay_around_it() -> None:
    text = srt(r"{\an8}<i>We could go</i>", "<i>to the sea.</i>")
    assert sentences(text) == ["We could go to the sea."]
    after = translated(text, {"We could go to the sea.": "Wir könnten ans Meer fahren."})
    assert after == srt(r"{\an8}<i>Wir könnten ans</i>", "<i>Meer fahren.</i>")


def test_times_inside_a_cue_are_kept() -> None:
    cue = "WEBVTT\n\n00:01.000 --> 00:03.000\n<v Ann>Never <00:00:01.500>drink <00:00:02.000>it.\n"
    after = translated(cue, {"Never drink it.": "NEVER DRINK IT."}, ".vtt")
    assert re.findall(r"<[^<>]*>", after) == ["<v Ann>", "<00:00:01.500>", "<00:00:02.000>"]


@pytest.mark.parametrize(
    ("speech", "said"),
    [
        ("- Four?\n- Five!", "- FOUR?\n- FIVE!"),
        ("-Four\n  more?\n–Five!", "-FOUR MORE?\n–FIVE!"),
        ("[DOOR SLAMS] Who is it?", "[DOOR SLAMS] WHO IS IT?"),
        ("(sighs) Well.", "(SIGHS) WELL."),
        ("♪ Let it be ♪", "♪ LET IT BE ♪"),
        (">> And now?", ">> AND NOW?"),
    ],
)
def test_dashes_and_brackets_stay_around_their_own_words(speech: str, said: str) -> None:
    asked: list[str] = []

    def shout(requests: list[SentenceRequest]) -> list[SentenceResult]:
        asked.extend(request.text for request in requests)
        return [SentenceResult(request.text.upper()) for request in requests]

    document = read("a", srt(speech).encode(), BY_ENDING[".srt"], ReadOptions())
    assert document.write(translate_segments(document.segments, shout)).decode() == srt(said)
    assert not re.search(r"[-–\[\]()♪>]", "".join(asked))


def test_a_line_has_at_most_42_characters_if_two_lines_have_room() -> None:
    text = srt("This is one line.", "これは一行です。")
    said = {
        "This is one line.": "Dies hier ist leider eine viel längere Zeile geworden, nicht drei.",
        "これは一行です。": "這是一行非常長的文字，它沒有空格，所以必須在字與字之間換行才放得下。",
    }
    cues = translated(text, said).strip().split("\n\n")
    assert [len(cue.split("\n")) for cue in cues] == [4, 4]
    assert all(len(line) <= 42 for cue in cues for line in cue.split("\n"))


@pytest.mark.parametrize("seed", range(40))
def test_every_cue_keeps_a_text_and_its_time(seed: int) -> None:
    """Whatever the length of a translation."""
    draw = random.Random(seed)
    words = [word + draw.choice(["", "", "", ",", "."]) for word in ["a", "bcd", "efghij"] * 20]
    speeches = [" ".join(draw.choices(words, k=draw.randint(1, 9))) for _ in range(12)]
    text = srt(*speeches, "End.", "End.", "End.", "End.")

    def say(requests: list[SentenceRequest]) -> list[SentenceResult]:
        return [SentenceResult("wort " * draw.randint(1, 40) + "!") for _ in requests]

    document = read("a", text.encode(), BY_ENDING[".srt"], ReadOptions())
    after = document.write(translate_segments(document.segments, say))
    assert of_subtitles(after) == of_subtitles(text.encode())
