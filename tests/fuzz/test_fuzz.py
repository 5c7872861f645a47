"""Any text, any settings, any bundle: our own errors or a result, nothing else.

`make fuzz` runs these with thousands of cases each, `make test` with a few dozen.
"""

import hashlib
import json
import shutil
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dragoman
from dragoman.bundle.folder import read_bundle
from dragoman.config import describe_settings, from_tree, make_config, parse_set, write_toml
from dragoman.decode.request import Request
from dragoman.decode.translator import Translator
from dragoman.errors import DragomanError
from dragoman.text.codec import Codec
from dragoman.text.doctor import examine, mended
from dragoman.text.languages import Languages
from dragoman.text.parallel import Pair, read_lines
from tests.unit.bundle.test_bundle import FILES

anything = st.text(max_size=80)
awkward = st.one_of(
    anything, st.text(st.sampled_from("a .<>&\0\u200b\ufeff▁é\u0301😀\ud800\n\t"), max_size=40)
)
SETTINGS = [name for name, _, _ in describe_settings()]
shared = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)


@pytest.fixture(scope="module")
def translator(trained) -> Translator:
    return dragoman.load(trained, device="cpu")


@shared
@given(awkward)
def test_any_text_can_be_encoded_and_decoded(translator, text: str) -> None:
    """Decoding returns the text in SentencePiece's normal form, which is a fixed point."""
    codec = translator.codec
    once = codec.decode_target(codec.encode_target([text])[0])
    assert codec.decode_target(codec.encode_target([once])[0]) == once
    assert codec.encode_source([text])[0][-1] == codec.source.eos


WORDS_AND_CHARACTERS = {
    kind: Codec.learn(
        [".a é"], ["😀 a<b"], make_config(settings={"text.tokenizer": kind}).text, Languages()
    )
    for kind in ("word", "character")
}


@given(st.sampled_from(sorted(WORDS_AND_CHARACTERS)), awkward)
def test_any_text_can_be_cut_into_words_or_characters(kind: str, text: str) -> None:
    """Where no word is unknown, what comes back stays so."""
    codec = WORDS_AND_CHARACTERS[kind]
    ids = codec.encode_target([text])[0]
    once = codec.decode_target(ids)
    assert codec.target.unk in ids or codec.encode_target([once])[0] == ids
    assert kind == "word" or codec.target.unk not in ids
    assert codec.encode_source([text])[0][-1] == codec.source.eos


@settings(parent=shared, max_examples=settings().max_examples // 4)
@given(st.lists(awkward, min_size=1, max_size=3))
def test_translate_never_fails_on_any_text(translator, texts: list[str]) -> None:
    decoding = make_config(
        settings={"decoding.beam_size": 2, "decoding.max_length_extra": 5}
    ).decoding
    found = translator.translate(texts, Request(decoding=decoding, alignments=True))
    assert len(found) == len(texts)
    assert not any(set("\n\r\t") & set(translation.text) for translation in found)


@given(st.lists(st.tuples(awkward, awkward), max_size=8))
def test_the_doctor_reads_anything(sides: list[tuple[str, str]]) -> None:
    pairs = [Pair(number, *pair) for number, pair in enumerate(sides, start=1)]
    report = examine(pairs)
    assert report.pairs == len(pairs)
    assert all(isinstance(mended(text), str) for pair in sides for text in pair)


@shared
@given(raw=st.binary(max_size=200))
def test_any_bytes_are_lines_or_refused(tmp_path: Path, raw: bytes) -> None:
    for name in ("a.txt", "a.gz"):
        (tmp_path / name).write_bytes(raw)
        try:
            assert all("\n" not in line for line in read_lines(tmp_path / name))
        except DragomanError as error:
            assert name in str(error)


values = st.one_of(
    st.integers(),
    st.floats(),
    st.booleans(),
    st.text(max_size=10),
    st.lists(st.integers(), max_size=2),
    st.none(),
)


@given(st.dictionaries(st.one_of(st.sampled_from(SETTINGS), anything), values, max_size=4))
def test_any_settings_are_accepted_or_refused_in_words(wishes: dict[str, object]) -> None:
    try:
        config = make_config("tiny", settings=wishes)
    except DragomanError as error:
        assert str(error)
    else:
        assert from_tree(tomllib.loads(write_toml(config))) == config


@given(
    st.lists(
        st.one_of(anything, st.tuples(st.sampled_from(SETTINGS), anything).map("=".join)),
        max_size=3,
    )
)
def test_any_assignment_is_accepted_or_refused_in_words(assignments: list[str]) -> None:
    try:
        make_config("tiny", settings=parse_set(assignments))
    except DragomanError as error:
        assert str(error)


@shared
@given(
    name=st.sampled_from(FILES),
    start=st.integers(0, 4000),
    removed=st.integers(0, 9),
    added=st.binary(max_size=9),
)
def test_any_change_of_a_bundle_is_refused_or_loads(
    trained, tmp_path, name: str, start: int, removed: int, added: bytes
) -> None:
    folder = tmp_path / "bundle"
    folder.mkdir(exist_ok=True)
    for file in FILES:
        shutil.copy(trained / file, folder)
    raw = (folder / name).read_bytes()
    start = min(start, len(raw))
    changed = raw[:start] + added + raw[start + removed :]
    (folder / name).write_bytes(changed)
    if name != "manifest.json":
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["files"][name] = {
            "size": len(changed),
            "sha256": hashlib.sha256(changed).hexdigest(),
        }
        (folder / "manifest.json").write_text(json.dumps(manifest))
    try:
        read_bundle(folder)
    except DragomanError as error:
        assert str(folder) in str(error)
