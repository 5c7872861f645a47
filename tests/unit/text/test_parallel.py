import bz2
import gzip
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.errors import CorpusError
from dragoman.text.parallel import (
    Pair,
    language_of,
    languages_of_tsv,
    read_blocks,
    read_lines,
    read_pairs,
)


def test_lines_end_only_at_newlines(tmp_path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes("\ufeffa\u2028b\r\n\nc\x0bd".encode())
    assert list(read_lines(file)) == ["a\u2028b", "", "c\x0bd"]


def test_gzip_and_tsv_are_read(tmp_path) -> None:
    file = tmp_path / "a.de-en.tsv.gz"
    file.write_bytes(gzip.compress(b"Ja.\tYes.\tignored\nNein.\tNo.\n"))
    assert list(read_pairs(file)) == [Pair(1, "Ja.", "Yes."), Pair(2, "Nein.", "No.")]


def test_reads_bzip2_like_gzip(tmp_path) -> None:
    (tmp_path / "a.de-en.tsv.bz2").write_bytes(bz2.compress(b"Ja.\tYes.\n"))
    assert list(read_pairs(tmp_path / "a.de-en.tsv.bz2")) == [Pair(1, "Ja.", "Yes.")]
    assert languages_of_tsv("a.de-en.tsv.bz2") == ("de", "en")
    assert language_of("train.pt.bz2") == "pt"
    (tmp_path / "broken.bz2").write_bytes(bz2.compress(b"Ja." * 1000)[:-9])
    for read in (read_lines, read_blocks):
        with pytest.raises(CorpusError, match=r"broken\.bz2: cannot be read"):
            list(read(tmp_path / "broken.bz2"))


def lines_of_blocks(path) -> list[str]:
    lines = []
    for block, ends in read_blocks(path):
        assert [i + 1 for i, byte in enumerate(block) if byte == ord("\n")] == ends.tolist()
        lines += block.decode().split("\n")[:-1]
    return lines


PARTS = [b"a", b"\n", b"\n", b"\r", "ä".encode(), b"\xef\xbb\xbf", b"xyz"]


@pytest.mark.parametrize(("parts", "longest"), [([*PARTS, b"\xff", b"\0"], 999), (PARTS, 9)])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_blocks_contain_the_same_lines_and_raise_the_same_errors(
    tmp_path, parts, longest: int, data
) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"".join(data.draw(st.lists(st.sampled_from(parts)))))
    results = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dragoman.text.parallel.BLOCK", 4)
        patch.setenv("DRAGOMAN_LONGEST_LINE", str(longest))
        for read in (lambda: list(read_lines(file, keep_cr=True)), lambda: lines_of_blocks(file)):
            try:
                results.append(read())
            except CorpusError as error:
                results.append(str(error))
    assert results[0] == results[1]


def test_locates_invalid_utf8(tmp_path) -> None:
    file = tmp_path / "a.de"
    file.write_bytes(b"gut\nsch\xf6n\n")
    with pytest.raises(CorpusError, match=r"a\.de line 2 is not UTF-8: byte 4 of the line is 0xf6"):
        list(read_lines(file))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_rejects_utf16_and_names_the_command_to_convert_it(tmp_path, encoding: str) -> None:
    file = tmp_path / "a.de"
    file.write_text("Grüß Gott!\nJa.\n", encoding=encoding)
    for read in (read_lines, read_blocks):
        with pytest.raises(CorpusError, match=r"a\.de line 1 .*iconv -f UTF-16 -t UTF-8"):
            list(read(file))


@pytest.mark.parametrize("missing", [0, 7, 19])
def test_rejects_sides_of_different_length_and_names_the_unpaired_line(
    tmp_path, missing: int
) -> None:
    left = [f"{'Wort ' * (i * 7 % 5 + 1)}{i}." for i in range(20)]
    right = [f"{'word ' * (i * 7 % 5 + 1)}{i}." for i in range(20)]
    del right[missing]
    (tmp_path / "t.de").write_text("\n".join(left) + "\n")
    (tmp_path / "t.en").write_text("\n".join(right) + "\n")
    for a, b in (("t.de", "t.en"), ("t.en", "t.de")):
        with pytest.raises(CorpusError) as caught:
            list(read_pairs(tmp_path / a, tmp_path / b))
        assert "t.de has 20 lines" in str(caught.value)
        assert f"line {missing + 1} of " in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no tab here\n", "line 1 has no tab"),
        (None, "no such file"),
        (b"\x1f\x8b", "cannot be read"),
    ],
)
def test_unreadable_files_are_one_line_errors(tmp_path, content: bytes | None, words: str) -> None:
    file = tmp_path / ("a.tsv.gz" if content and content[0] == 0x1F else "a.tsv")
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(CorpusError, match=words):
        list(read_pairs(file))


def test_rejects_endless_lines_unless_allowed(tmp_path, monkeypatch) -> None:
    file = tmp_path / "bomb.gz"
    file.write_bytes(gzip.compress(b"x" * 3_000_000))
    for read in (read_lines, read_blocks):
        with pytest.raises(
            CorpusError, match=r"line 1 has over 1,048,576 bytes.*DRAGOMAN_LONGEST_LINE"
        ):
            list(read(file))
    monkeypatch.setenv("DRAGOMAN_LONGEST_LINE", "4000000")
    assert len(next(read_lines(file))) == 3_000_000
    monkeypatch.delenv("DRAGOMAN_LONGEST_LINE")


@pytest.mark.parametrize(("times", "fits"), [(180, True), (220, False)])
def test_an_archive_may_expand_200_times_and_to_64_mib(tmp_path, times: int, fits: bool) -> None:
    line = b"x" * 999 + b"\n"
    swelling = gzip.compress(line * (150_000_000 // len(line)))
    # Incompressible letters enlarge the file, until it expands `times` times beyond 64 MiB.
    free = 2**26
    missing = (150_000_000 - free) // times - len(swelling)
    noise = random.Random(1).randbytes(missing).hex().encode()
    packed = gzip.compress(b"\n".join(noise[i : i + 1000] for i in range(0, len(noise), 1000)))
    file = tmp_path / "a.gz"
    file.write_bytes(swelling + packed)
    assert 2**26 + 400 * file.stat().st_size > 150_000_000 > 2**26 + 100 * file.stat().st_size
    for read in (read_lines, read_blocks):
        if fits:
            assert sum(1 for _ in read(file))
        else:
            with pytest.raises(CorpusError, match="unpacks to over 200 times its size"):
                list(read(file))


def test_languages_come_from_suffixes() -> None:
    assert [language_of(n) for n in ("x/train.de", "a.pt_BR.gz", "plain", "a.txt", "a.zip2")] == [
        "de",
        "pt_BR",
        "",
        "",
        "",
    ]


def test_line_numbers_continue_over_shards(tmp_path) -> None:
    for number, lines in enumerate((["a", "b"], ["c"], ["d", "e"])):
        (tmp_path / f"t.{number}.de").write_text("".join(f"{line}\n" for line in lines))
        with gzip.open(tmp_path / f"t.{number}.en.gz", "wt") as file:
            file.write("".join(f"{line.upper()}\n" for line in lines))
    pairs = list(read_pairs(tmp_path / "t.*.de", tmp_path / "t.*.en.gz"))
    assert [(pair.line, pair.source, pair.target) for pair in pairs] == [
        (1, "a", "A"), (2, "b", "B"), (3, "c", "C"), (4, "d", "D"), (5, "e", "E"),
    ]  # fmt: skip
    (tmp_path / "t.3.de").write_text("f\n")
    with pytest.raises(CorpusError, match="4 files"):
        list(read_pairs(tmp_path / "t.*.de", tmp_path / "t.*.en.gz"))
    with pytest.raises(CorpusError, match="no file matches"):
        list(read_pairs(tmp_path / "u.*.de", tmp_path / "u.*.en"))
