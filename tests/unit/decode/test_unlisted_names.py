"""A name with pieces that the shortlist leaves out is searched for among all pieces."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dragoman.config import DecodingConfig, TextConfig
from dragoman.decode.proposer import Proposer
from dragoman.decode.request import Request
from dragoman.decode.splitting import Splitter
from dragoman.text.codec import Codec, Languages

LANGUAGES = Languages(("de", "en", "fr"), ("de", "en", "fr"))
TEXTS = ["the old house was here", "das alte Haus ist hier", "la maison est ici"] * 20
SETTINGS = DecodingConfig(keep_names=True)


@pytest.fixture(scope="module")
def codec() -> Codec:
    return Codec.learn(TEXTS, TEXTS, TextConfig(vocab_size=330), LANGUAGES)


class ShortlistBatch:
    """What may be said: everything but some pieces, by the tag that a source begins with."""

    def __init__(self, codec: Codec, **left_out: str):
        self._lists = {
            codec.tag(language): frozenset(
                number for piece, number in codec.target.ids.items() if piece not in pieces.split()
            )
            for language, pieces in left_out.items()
        }

    def __call__(self, source: Sequence[int]) -> frozenset[int] | None:
        return self._lists.get(source[0])


def searches_all(codec: Codec, lists: ShortlistBatch, text: str, request: Request) -> bool:
    splitter = Splitter(codec, SETTINGS, None, lists)
    (part,) = splitter([text], request)
    settings = Proposer(codec, SETTINGS, False).query(part, request).options.settings
    assert replace(settings, shortlist=True) == replace(
        request.decoding or SETTINGS, shortlist=True
    )
    return not settings.shortlist


FRENCH = Request(to="fr", source_language="en")


def test_a_name_whose_pieces_are_not_listed_is_searched_among_all_pieces(codec: Codec) -> None:
    lists = ShortlistBatch(codec, fr="H")
    assert searches_all(codec, lists, "Heloise was here", FRENCH)
    assert not searches_all(codec, lists, "Aloise was here", FRENCH)
    assert not searches_all(codec, ShortlistBatch(codec, de="H"), "Heloise was here", FRENCH)


def test_a_common_word_whose_pieces_are_not_listed_is_none_of_these(codec: Codec) -> None:
    lists = ShortlistBatch(codec, fr="▁the ▁house h o u")
    assert not searches_all(codec, lists, "the old house was here", FRENCH)
    assert not searches_all(codec, lists, "the old house was HERE", FRENCH)


def test_a_german_noun_needs_pieces_that_german_lacks_too(codec: Codec) -> None:
    request = Request(to="fr", source_language="de")
    text = "Helo ist hier"
    assert not searches_all(codec, ShortlistBatch(codec, fr="H", de="x"), text, request)
    assert searches_all(codec, ShortlistBatch(codec, fr="H", de="H"), text, request)


def test_names_that_need_not_be_kept_are_searched_like_all_else(codec: Codec) -> None:
    for settings in (replace(SETTINGS, keep_names=False), replace(SETTINGS, shortlist=False)):
        request = replace(FRENCH, decoding=settings)
        splitter = Splitter(codec, SETTINGS, None, ShortlistBatch(codec, fr="H"))
        (part,) = splitter(["Heloise was here"], request)
        assert not part.all_pieces
