"""A model with masks copies them; if it loses one, a second search demands them all."""

from collections.abc import Sequence

import pytest

from dragoman.config import DecodingConfig, TextConfig
from dragoman.decode.pipeline import Pipeline
from dragoman.decode.query import BudgetError, Hypotheses, Query
from dragoman.decode.request import Request
from dragoman.decode.search.hypotheses import Hypothesis
from dragoman.text.codec import Codec
from dragoman.text.glossary import Glossary
from dragoman.text.languages import Languages
from dragoman.text.vocabulary import LEMMA, MASKS, SYMBOLS, TERM
from tests.conftest import small_engine

SENTENCES = ["Write to ada now.", "Schreiben Sie an ada jetzt.", "Read and write. Sie lesen."] * 20
MAIL = "ada@example.org"


@pytest.fixture(scope="module")
def codec() -> Codec:
    settings = TextConfig(vocab_size=340, tokenizer="bpe")
    plain = Codec.learn(SENTENCES, SENTENCES, settings, Languages(("en",), ("de",)))
    segmenter = plain.source_segmenter.extended(SYMBOLS)
    return Codec(segmenter, segmenter, plain.languages)


class Said:
    """A search whose answers a test has written, in rounds. Given outputs are scored by place."""

    def __init__(self, codec: Codec, *rounds: Sequence[str]):
        self._codec, self._rounds = codec, list(rounds)
        self.queries: list[Query] = []

    def __call__(self, queries: list[Query]) -> list[Hypotheses | BudgetError]:
        self.queries += queries
        if queries[0].outputs:
            return [
                [Hypothesis(tuple(ids), -1.0, (0.0,) * (len(ids) + 1), True) for ids in one.outputs]
                for one in queries
            ]
        texts = self._rounds.pop(0)
        if texts == ["too much"]:
            return [BudgetError("too much")] * len(queries)
        encoded = self._codec.encode_target(texts)
        found = [
            Hypothesis(tuple(ids), -float(number), (0.0,) * (len(ids) + 1), complete=True)
            for number, ids in enumerate(encoded)
        ]
        return [found] * len(queries)


def translated(codec: Codec, text: str, *rounds: Sequence[str], **options: object):
    engine = small_engine(len(codec.target))
    pipeline = Pipeline(engine, codec, DecodingConfig(beam_size=2))
    search = Said(codec, *rounds)
    request = Request(to="de", source_language="en", **options)  # type: ignore[arg-type]
    return str(pipeline.translate([text], request, search)[0]), search.queries


def test_a_mask_is_read_in_place_of_an_address_and_the_address_is_put_back(codec) -> None:
    text, queries = translated(codec, f"Write to {MAIL}.", [f"Schreiben Sie an {MASKS[0]}."])
    assert text == f"Schreiben Sie an {MAIL}."
    (query,) = queries
    pieces = [codec.source.pieces[i] for i in query.ids]
    assert MASKS[0] in pieces
    assert "example" not in "".join(pieces)


def test_the_best_hypothesis_with_all_masks_comes_first(codec) -> None:
    said = ["Schreiben Sie an ada.", f"Sie an {MASKS[0]}."]
    assert translated(codec, f"Write to {MAIL}.", said)[0] == f"Sie an {MAIL}."


@pytest.mark.parametrize("bad", ["Schreiben Sie an ada.", f"{MASKS[0]} an {MASKS[0]}."])
def test_a_lost_or_doubled_mask_is_demanded_in_a_second_search(codec, bad) -> None:
    text, queries = translated(codec, f"Write to {MAIL}.", [bad], [f"Sie an {MASKS[0]}."])
    assert text == f"Sie an {MAIL}."
    plain, again, constrained = queries
    assert plain.phrases is again.phrases is None
    assert [phrase.ways for phrase in constrained.phrases] == [((codec.target.ids[MASKS[0]],),)]


def test_a_second_search_beyond_the_budget_leaves_the_first_answer(codec) -> None:
    text, _ = translated(codec, f"Write to {MAIL}.", ["Schreiben Sie."], ["too much"])
    assert text == "Schreiben Sie."


def test_an_invented_mask_disappears(codec) -> None:
    assert translated(codec, "Read.", [f"Sie lesen{MASKS[3]}."])[0] == "Sie lesen."


def test_a_symbol_of_the_text_itself_is_no_mask_of_ours(codec) -> None:
    text, _ = translated(codec, f"Read {MASKS[5]}.", [f"Sie lesen {MASKS[0]}."])
    assert text == f"Sie lesen {MASKS[5]}."


def test_a_forced_prefix_is_read_without_masks(codec) -> None:
    _, queries = translated(codec, f"Write to {MAIL}.", ["Sie"], prefix="Sie")
    assert MASKS[0] not in [codec.source.pieces[i] for i in queries[0].ids]


def test_a_model_without_masks_reads_the_address(codec) -> None:
    settings = TextConfig(vocab_size=340, tokenizer="bpe")
    plain = Codec.learn(SENTENCES, SENTENCES, settings, Languages(("en",), ("de",)))
    off = DecodingConfig(beam_size=2, keep_numbers=False)
    _, queries = translated(plain, f"Write to {MAIL}.", [f"Sie an {MAIL}."], decoding=off)
    assert len(queries) == 1
    assert MASKS[0] not in plain.source.ids


def test_terms_are_annotated_and_demanded_if_they_do_not_appear(codec) -> None:
    terms = Glossary.of([("write", "lesen")])
    said = (["Schreiben Sie an ada."], ["Sie lesen an ada."])
    text, (plain, *_, constrained) = translated(codec, "Read and write now.", *said, glossary=terms)
    read = [codec.source.pieces[i] for i in plain.ids]
    assert "".join(read).count(TERM) == "".join(read).count(LEMMA) == 1
    assert plain.phrases is None
    assert len(constrained.phrases) == 1
    assert text == "Sie lesen an ada."
    _, queries = translated(codec, "Read and write now.", ["Sie lesen."], glossary=terms)
    assert len(queries) == 1


def test_a_term_within_a_mask_is_not_annotated(codec) -> None:
    terms = Glossary.of([("ada", "Ada")])
    _, (query, *_) = translated(codec, f"Write to {MAIL}.", [f"Ada {MASKS[0]}."], glossary=terms)
    assert TERM not in "".join(codec.source.pieces[i] for i in query.ids)


@pytest.fixture(scope="module")
def without_masks() -> Codec:
    settings = TextConfig(vocab_size=340, tokenizer="bpe")
    texts = [*SENTENCES, "X47 X60 X73 ada@example.org 31 1.250"]
    return Codec.learn(texts, texts, settings, Languages(("en",), ("de",)))


KEPT = DecodingConfig(beam_size=2, keep_numbers=True)


def test_for_a_lost_address_a_model_without_masks_searches_once_more_with_a_word(
    without_masks,
) -> None:
    said = (["Schreiben Sie an ada."], ["Sie an X47."])
    text, queries = translated(without_masks, f"Write to {MAIL}.", *said, decoding=KEPT)
    assert text == f"Sie an {MAIL}."
    plain, free, constrained, scored = queries
    assert plain.phrases is free.phrases is None
    assert list(plain.ids) != list(free.ids)
    (word,) = without_masks.encode_target(["X47"])
    assert [phrase.ways for phrase in constrained.phrases] == [(tuple(word),)]
    # The translation's pieces spell its text: it is scored as it reads now.
    (output,) = scored.outputs
    assert without_masks.decode_target(output) == text
    assert list(scored.ids) == list(plain.ids)


def test_a_number_that_means_something_else_is_masked_as_the_target_language_writes_it(
    without_masks,
) -> None:
    said = (["Sie lesen 1,250."], ["Sie lesen X47."])
    assert translated(without_masks, "Read 1,250.", *said, decoding=KEPT)[0] == "Sie lesen 1.250."


def test_a_translation_that_has_lost_nothing_is_searched_once(without_masks) -> None:
    said = ["Schreiben Sie 31 an ada@example.org."]
    text, queries = translated(without_masks, f"Write 31 to {MAIL}.", said, decoding=KEPT)
    assert (text, len(queries)) == (said[0], 1)


def test_a_second_translation_with_as_many_faults_does_not_count(without_masks) -> None:
    said = (["Schreiben Sie an ada."], ["X47 Sie X47."])
    text, _ = translated(without_masks, f"Write to {MAIL}.", *said, decoding=KEPT)
    assert text == "Schreiben Sie an ada."


def test_checks_are_off_without_keep_numbers_and_with_a_prefix(without_masks) -> None:
    off = DecodingConfig(beam_size=2)
    for options in ({"decoding": off}, {"decoding": KEPT, "prefix": "Sie"}):
        _, queries = translated(without_masks, f"Write to {MAIL}.", ["Sie lesen."], **options)
        assert len(queries) == 1
