"""Reads changed files in a process of its own, so that a crash ends only that process.

A case is a function of its target and its number. It fails if the reader ends in anything but an
error of ours, takes more than `CPU_S` seconds of processor time or more than `MEMORY` bytes, or
ends the process.

    python -m tests.fuzz.hunting TARGET FIRST COUNT

prints the number of each case before it is tried, and one line of JSON for each that fails.
"""

import ctypes
import io
import json
import os
import random
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np
import safetensors.numpy
import yaml

from dragoman.convert.from_ctranslate2 import from_ctranslate2
from dragoman.convert.from_marian import from_marian
from dragoman.convert.marian_packed import read_lexical_shortlist, read_packed
from dragoman.data.store import RaggedFile, RaggedFileWriter
from dragoman.documents.document import DocumentError, ReadOptions
from dragoman.documents.formats import format_named
from dragoman.errors import DragomanError
from dragoman.storage.binary import tensors
from dragoman.storage.protobuf import (
    bytes_field,
    float_field,
    int_field,
    message_fields,
    text_field,
)
from dragoman.text.exchange import read_segments
from dragoman.text.parallel import read_pairs
from dragoman.text.shortlist import Shortlist
from dragoman.text.subword import BytePairs
from dragoman.text.terms import read_tbx, rows_of
from tests.attacks import archived
from tests.forging import KEPT
from tests.fuzz import mutation
from tests.fuzz.mutation import Parts, Row, change_parts, change_text, change_xml, joined, row
from tests.fuzz.test_readers import ARCHIVES, PIECES, ROOTS
from tests.marian_files import packed_model, packed_shortlist, random_arrays

CPU_S = 5
MEMORY = 2**28  # that is written to
_SPACE = 2**31  # of addresses: some readers reserve more than they write to
_SILENT_S = 120  # of wall time: a reader that waits for something
_ROUND = 200  # cases for each process and target

Change = Callable[[random.Random], bytes]


class Target(NamedTuple):
    make: Callable[[random.Random], bytes]
    read: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...] = (DragomanError,)


class Finding(NamedTuple):
    target: str
    number: int
    what: str


# Binary files


@cache
def _pieces() -> BytePairs:
    return BytePairs((KEPT / "shared.spm").read_bytes())


@cache
def _folder() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="hunting-")
    _kept.append(folder)
    return Path(folder.name)


_kept: list[object] = []


def _shortlist(draw: random.Random) -> bytes:
    lists = [[draw.randrange(20) for _ in range(draw.randrange(3))] for _ in range(5)]
    raw = packed_shortlist(lists[: draw.randint(1, 5)], first=4)
    header = row("Q", raw, 0, 6)
    offsets, candidates = header.numbers[4:]
    return joined(
        change_parts(
            draw,
            [header, row("Q", raw, 48, offsets), row("I", raw, 48 + 8 * offsets, candidates)],
        )
    )


def _read_shortlist(raw: bytes) -> object:
    vocabulary = _pieces().vocabulary
    path = Path("lex.bin")
    found = read_lexical_shortlist(raw, path, vocabulary, vocabulary, False)
    return found.of(range(len(vocabulary)))


def _packed(draw: random.Random) -> bytes:
    arrays = {"a_Wemb": np.ones((4, 2), np.float32), "b": np.ones((1, 2), np.float32)}
    raw = packed_model(arrays, b"a: b")
    head = row("Q", raw, 0, 2)
    headers = row("Q", raw, 16, 4 * head.numbers[1])
    at = 16 + 8 * len(headers.numbers)
    names = sum(headers.numbers[::4])
    shapes = row("i", raw, at + names, sum(headers.numbers[2::4]))
    after = at + names + 4 * len(shapes.numbers)
    parts: Parts = [head, headers, raw[at : at + names], shapes, row("Q", raw, after, 1)]
    return joined(change_parts(draw, [*parts, raw[after + 8 :]]))


def _string(text: str) -> Parts:
    return [Row("H", (len(text) + 1,)), text.encode() + b"\0"]


def _ctranslate2(draw: random.Random) -> bytes:
    """A list of arrays as CTranslate2 writes it; most cases go no further than its parsing."""
    parts: Parts = [Row("I", (6,)), *_string("TransformerSpec"), Row("I", (7,)), Row("I", (3,))]
    for name, shape in (("encoder/embeddings_0/weight", (4, 2)), ("b", (2,)), ("flag", ())):
        size = 4 * int(np.prod(shape))
        parts += [*_string(name), Row("B", (len(shape),)), Row("I", shape), Row("B", (0,))]
        parts += [Row("I", (size,)), bytes(size)]
    parts += [Row("I", (1,)), *_string("alias"), *_string("b")]
    return joined(change_parts(draw, parts))


def _read_ctranslate2(raw: bytes) -> object:
    folder = _folder() / "ctranslate2"
    folder.mkdir(exist_ok=True)
    (folder / "model.bin").write_bytes(raw)
    (folder / "config.json").write_text("{}")
    (folder / "shared_vocabulary.json").write_text('["<unk>", "<s>", "</s>", "a"]')
    return from_ctranslate2(folder)


_SETTINGS = {
    "type": "transformer", "dim-emb": 16, "transformer-heads": 2, "transformer-dim-ffn": 32,
    "enc-depth": 1, "dec-depth": 1, "transformer-ffn-activation": "relu",
    "transformer-preprocess": "", "transformer-postprocess": "dan",
    "transformer-postprocess-top": "", "transformer-decoder-autoreg": "rnn", "dec-cell": "ssru",
}  # fmt: skip


@cache
def _npz_arrays() -> dict[str, np.ndarray]:
    arrays = random_arrays(len(_pieces().vocabulary), _SETTINGS)
    settings = np.frombuffer(yaml.dump(_SETTINGS).encode() + b"\0", np.int8)
    return {**arrays, "special:model.yml": settings}


def _npz(draw: random.Random) -> bytes:
    """Marian's own file: arrays in an archive, each with a header that is a text."""
    path = _folder() / "a.npz"
    if not path.exists():
        np.savez(path, **_npz_arrays())
    if draw.random() < 0.3:
        return mutation.change_window(draw, path.read_bytes())
    out = io.BytesIO()
    with zipfile.ZipFile(path) as stored, zipfile.ZipFile(out, "w") as changed:
        chosen = draw.choice(stored.namelist())
        for name in stored.namelist():
            raw = stored.read(name)
            if name == chosen:
                size = int.from_bytes(raw[8:10], "little")
                head = change_text(draw, raw[10 : 10 + size].decode("latin-1"), ["(", ")", ","])
                raw_head = head.encode("latin-1", "replace")[:60_000]
                length = len(raw_head) if draw.random() < 0.8 else mutation.limit(draw) % 2**16
                raw = raw[:8] + length.to_bytes(2, "little") + raw_head + raw[10 + size :]
            changed.writestr(name, raw)
    return out.getvalue()


def _read_npz(raw: bytes) -> object:
    folder = _folder() / "marian"
    folder.mkdir(exist_ok=True)
    (folder / "model.npz").write_bytes(raw)
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes((KEPT / "shared.spm").read_bytes())
    (folder / "decoder.yml").write_text(
        "models: [model.npz]\nvocabs: [source.spm, target.spm]\nbeam-size: 6\nnormalize: 1\n"
    )
    return from_marian(folder, "de", "en")


def _safetensors(draw: random.Random) -> bytes:
    arrays = {"a": np.ones((2, 3), np.float32), "b": np.ones(4, np.int8)}
    return mutation.change_header(draw, safetensors.numpy.save(arrays))


def _sentencepiece(draw: random.Random) -> bytes:
    """Make a small SentencePiece message, with changes in its keys and lengths too."""
    raw = b"".join(
        bytes_field(1, text_field(1, piece) + float_field(2, -1.0) + int_field(3, kind))
        for piece, kind in (("<unk>", 2), ("<s>", 3), ("</s>", 3), ("a", 1))
    )
    raw += bytes_field(2, int_field(3, 4) + int_field(4, 4)) + bytes_field(
        3, bytes_field(2, b"\4\0\0\0abcdX\0")
    )
    if draw.random() < 0.5:
        return mutation.change_window(draw, raw)
    place = draw.randrange(len(raw))
    number = mutation.limit(draw) % 2**64
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return raw[:place] + bytes(written) + bytes([number]) + raw[place + 1 :]


def _read_sentencepiece(raw: bytes) -> object:
    with suppress(ValueError):
        list(message_fields(raw))
    return BytePairs(raw).encode(["a a"])


def _bundle_shortlist(draw: random.Random) -> bytes:
    pieces = len(_pieces().vocabulary)
    ends = tuple(2 * i for i in range(1, pieces + 1))
    arrays = {"always": (3, 10, 11), "candidates": (20, 21) * pieces, "ends": ends}
    name = draw.choice([*arrays])
    for _ in range(draw.randint(1, 2)):
        arrays[name] = mutation.change_numbers(draw, arrays[name])
    kind = draw.choice([np.uint16, np.uint32, np.uint64, np.int64])
    size = 8 * np.dtype(kind).itemsize
    made = {
        n: np.array([v % 2**size for v in a], np.uint64).astype(kind) for n, a in arrays.items()
    }
    return safetensors.numpy.save(made)


def _read_bundle_shortlist(raw: bytes) -> object:
    vocabulary = _pieces().vocabulary
    found = Shortlist.from_tensors(tensors(raw), vocabulary, vocabulary)
    return found.of(range(len(vocabulary)))


def _store(draw: random.Random) -> bytes:
    return joined(change_parts(draw, [Row("q", (0, 3, 3, 7, 10))]))


def _read_store(raw: bytes) -> object:
    folder = _folder() / "store"
    with RaggedFileWriter(folder, "ids") as writer:
        writer.add(np.arange(10, dtype=np.uint16), np.array([3, 0, 4, 3]))
    (folder / "ids.starts").write_bytes(raw)
    rows = RaggedFile(folder, "ids", np.dtype(np.uint16))
    lengths = rows.lengths(np.arange(len(rows)))
    assert min(lengths, default=0) >= 0
    return [rows[number] for number in range(len(rows))], np.zeros(sum(lengths))


# Memories, glossaries and corpora

_TMX = """<?xml version="1.0"?><tmx version="1.4"><header srclang="de"/><body>
<tu><tuv xml:lang="de"><seg>Hund <bpt i="1">b</bpt>eins</seg></tuv>
<tuv xml:lang="en"><seg>dog one</seg></tuv></tu>
<tu><tuv xml:lang="de"><seg>Katze</seg></tuv><tuv xml:lang="en"><seg>cat</seg></tuv></tu>
</body></tmx>"""
_XLIFF = """<xliff version="1.2"><file source-language="de" target-language="en"><body>
<trans-unit id="1"><source>Hund <g id="1">eins</g></source><target>dog one</target></trans-unit>
</body></file></xliff>"""
_PO = """msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

#, fuzzy
msgctxt "a"
msgid "Hund %d"
msgid_plural "Hunde %d"
msgstr[0] "dog \\"1\\""
msgstr[1] "dogs"
"""
_TBX = """<martif type="TBX"><text><body><termEntry id="1">
<langSet xml:lang="de"><tig><term>Hund</term></tig></langSet>
<langSet xml:lang="en"><tig><term>dog</term></tig></langSet></termEntry></body></text></martif>"""
_CORPORA = {"tmx": _TMX, "xliff": _XLIFF, "po": _PO, "tsv": "Hund\tdog\nKatze 1\tcat 1\n"}
_GLOSSARIES = {"tbx": _TBX, "csv": 'Hund,dog,"a ""b"""\nKatze,cat,\n', "tsv": "Hund\tdog\ta\n"}


def _text_target(
    text: str, read: Callable[[bytes], object], pieces: tuple[str, ...] = ()
) -> Target:
    change = change_xml if text.startswith("<") else change_text

    def make(draw: random.Random) -> bytes:
        changed = change(draw, text, pieces)
        encoding = draw.choice(["utf-8"] * 8 + ["utf-16", "utf-16-be"])
        return changed.encode(encoding, "replace")

    return Target(make, read)


def _corpus(ending: str) -> Callable[[bytes], object]:
    def read(raw: bytes) -> object:
        path = _folder() / f"a.{ending}"
        path.write_bytes(raw)
        return [*(read_pairs(path) if ending == "tsv" else read_segments(str(path)))]

    return read


def _glossary(ending: str) -> Callable[[bytes], object]:
    if ending == "tbx":
        return lambda raw: [*read_tbx(raw.decode("utf-8", "replace"), "a.tbx", "de", "en")]
    return lambda raw: [*rows_of(raw.decode("utf-8", "replace"), f"a.{ending}", "de", "en")]


# Documents: a valid file of each format, or what its pieces make in a row

_PDF = """%PDF-1.4
1 0 obj
<</Type/Catalog/Pages 2 0 R>>
endobj
2 0 obj
<</Type/Pages/Kids[3 0 R]/Count 1>>
endobj
3 0 obj
<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>
endobj
4 0 obj
<</Length 44>>
stream
BT /F1 18 Tf 10 50 Td (Hello world) Tj ET
endstream
endobj
5 0 obj
<</Type/Font/Subtype/Type0/BaseFont/A/Encoding/Identity-H/DescendantFonts[6 0 R]>>
endobj
6 0 obj
<</Type/Font/Subtype/CIDFontType2/BaseFont/A/W[1 3 500]/DW 1000/FontDescriptor 7 0 R>>
endobj
7 0 obj
<</Type/FontDescriptor/FontName/A/Flags 4/FontBBox[0 0 10 10]/Ascent 1/Descent 0>>
endobj
xref
0 8
0000000000 65535 f
trailer
<</Size 8/Root 1 0 R>>
startxref
9
%%EOF
"""
_VALID = {
    "html": "<h1>A title</h1><p>One <b class='x'>two</b> &amp; 3 <a href='b'>c</a></p><pre>a</pre>",
    "rtf": "{\\rtf1\\ansi\\ansicpg1252{\\fonttbl{\\f0\\fcharset0 Arial;}}\\f0\\fs24 Hund\\'e9 "
    "\\uc1\\u233? {\\b fett}{\\pict\\bin3 abc}\\par Katze 1\\line b\\par}",
    "pdf": _PDF,
    "xliff": _XLIFF,
    "po": _PO,
    "json": '{"a": "Hund", "b": [1, "Katze", {"c": "drei"}], "d": null}',
    "yaml": "a: Hund\nb:\n  - Katze\n  - |\n    drei\nc: &x {d: e}\nf: *x\n",
    "csv": 'Hund,"Katze ""zwei""",3\na,b,c\n',
    "srt": "1\n00:00:01,000 --> 00:00:02,000\n<i>Hund</i>\n\n2\n00:00:03,000 --> 00:00:04,000\nb\n",
    "markdown": "# Title\n\nOne **two** `three` [four](five) [^1]\n\n- a\n  - b\n\n"
    "| a | b |\n|---|---|\n| c | d |\n\n[^1]: note\n",
    "latex": "\\documentclass{a}\n\\begin{document}\\section{Hund}\n"
    "One $x_1$ \\emph{two} % c\n\\end{document}\n",
    "rst": "Title\n=====\n\nOne *two* ``three`` `a <b>`_.\n\n+---+---+\n| a | b |\n+---+---+\n\n"
    ".. note:: x\n\n   y\n",
    "asciidoc": "= Title\n\nOne *two* `three` link:a[b].\n\n|===\n|a |b\n2+|c\n|===\n\n"
    "----\nx\n----\n",
    "eml": "Subject: =?utf-8?q?Hund?=\nContent-Type: multipart/mixed; boundary=b\n\n--b\n"
    "Content-Type: text/plain; charset=utf-8\n\nHund eins\n--b--\n",
    "toml": 'a = "Hund"\n[b]\nc = ["d", 1, 1979-05-27]\n',
    "fluent": "a = Hund { $x ->\n    [one] eins\n   *[other] viele\n }\n    .b = c\n",
    "strings": '/* c */\n"a" = "Hund %1$@";\n"b" = "c\\U00e9";\n',
}  # fmt: skip
_XML_FORMATS = {"xliff", "android", "resx", "linguist", "svg", *ARCHIVES}
_DOCUMENTS = [*(name for name in PIECES if name != "doc"), *ARCHIVES]


def _document(name: str) -> Target:
    pieces = tuple(ARCHIVES[name][1] if name in ARCHIVES else PIECES[name])
    text = _VALID.get(name, "Hund ".join(pieces) or "Hund eins. Katze 2.")
    if name in ROOTS or name in ARCHIVES:
        root = ROOTS.get(name, "<x>")
        opened = [p for p in pieces if p.startswith("<") and not p.startswith("</")]
        inner = "".join(p for p in opened if p.endswith("/>")) + "Hund eins"
        for piece in reversed([p for p in opened if not p.endswith("/>")]):
            inner = f"{piece}{inner}</{piece[1:].split(' ')[0].rstrip('>')}>"
        text = f"{root}{inner * 2}</{root[1:].split(' ')[0].rstrip('>')}>"
    change = change_xml if name in _XML_FORMATS else change_text

    def make(draw: random.Random) -> bytes:
        raw = change(draw, text, pieces).encode("utf-8", "replace")
        if name in ARCHIVES:
            raw = archived({ARCHIVES[name][0]: raw, "[Content_Types].xml": b"<Types/>"})
        return raw

    def read(raw: bytes) -> object:
        document = format_named(name).read(raw, ReadOptions(to="de"))
        return document.write(document.segments)

    return Target(make, read, (DocumentError,))


TARGETS: dict[str, Target] = {
    "Marian shortlist": Target(_shortlist, _read_shortlist),
    "Marian weights": Target(_packed, lambda raw: read_packed(raw, Path("model.bin"))),
    "Marian npz": Target(_npz, _read_npz),
    "CTranslate2": Target(_ctranslate2, _read_ctranslate2),
    "safetensors": Target(_safetensors, tensors, (ValueError,)),
    "SentencePiece": Target(_sentencepiece, _read_sentencepiece),
    "shortlist of a bundle": Target(
        _bundle_shortlist, _read_bundle_shortlist, (DragomanError, ValueError)
    ),
    "prepared data": Target(_store, _read_store),
    **{f"corpus {n}": _text_target(text, _corpus(n)) for n, text in _CORPORA.items()},
    **{f"glossary {n}": _text_target(text, _glossary(n)) for n, text in _GLOSSARIES.items()},
    **{f"document {name}": _document(name) for name in _DOCUMENTS},
}


def _crash(raw: bytes) -> None:
    """Crash in the requested way, to test the hunt itself."""
    number = CRASHES.index(raw)
    if number == 2:
        ctypes.string_at(0)
    while number == 3:
        pass


CRASHES = [bytes([number]) for number in range(5)]
OF_TESTS = {"a crash": Target(lambda draw: b"", _crash)}


# The process that tries


class _TooLongError(Exception):
    pass


def attempt(target: str, number: int) -> str:
    """Run one case; return its error, or an empty string."""
    one = {**TARGETS, **OF_TESTS}[target]
    raw = CRASHES[number] if target in OF_TESTS else one.make(random.Random(f"{target} {number}"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_S)
    try:
        one.read(raw)
    except one.refusals:
        pass
    except _TooLongError:
        return f"{len(raw)} bytes take more than {CPU_S} s of processor time"
    except MemoryError:
        return f"{len(raw)} bytes take more than {_SPACE} bytes of addresses"
    except Exception:
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    if grown > MEMORY:
        return f"{len(raw)} bytes take {grown} bytes of memory"
    return ""


def _give_up(*_: object) -> None:
    raise _TooLongError


def main(target: str, first: int, cases: int) -> None:
    signal.signal(signal.SIGVTALRM, _give_up)
    space = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (space + _SPACE, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in range(first, first + cases):
        # A reader in C hears no alarm, but this limit ends it.
        used = int(time.process_time())
        resource.setrlimit(resource.RLIMIT_CPU, (used + 4 * CPU_S, resource.RLIM_INFINITY))
        print(number, flush=True)
        if what := attempt(target, number):
            print(json.dumps(what), flush=True)


@contextmanager
def _trying(target: str, first: int, cases: int) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "tests.fuzz.hunting", target, str(first), str(cases)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def hunt(target: str, first: int, cases: int, until: float = float("inf")) -> Iterator[Finding]:
    """Try so many cases of a target, at most until this moment of `time.monotonic`."""
    end = first + cases
    while first < end and time.monotonic() < until:
        with _trying(target, first, end - first) as process:
            assert process.stdout is not None
            number, told = first, False
            while time.monotonic() < until:
                if not select.select([process.stdout], [], [], _SILENT_S)[0]:
                    told = True
                    yield Finding(target, number, f"it waits for more than {_SILENT_S} s")
                    break
                line = process.stdout.readline()
                if not line:
                    break
                if line.startswith('"'):
                    told = True
                    yield Finding(target, number, json.loads(line))
                    break  # the peak of its memory would hide the next one
                else:
                    number, told = int(line), False
            else:
                return
            status = process.wait() if not told else 0
            if status:
                yield Finding(target, number, f"it ends the process ({status})")
            first = number + 1


def hunt_all(seconds: float, first: int = 0) -> Iterator[Finding]:
    """All targets in turn, again and again with new cases, as long as there is time."""
    until = time.monotonic() + seconds
    for turn in count():
        for target in TARGETS:
            yield from hunt(target, first + turn * _ROUND, _ROUND, until)
            if time.monotonic() >= until:
                return


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
