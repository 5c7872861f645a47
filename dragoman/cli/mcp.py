"""`dragoman mcp`: tools for a language model's host over the Model Context Protocol, on standard
input and output.

Tools read and write files only in the folders that the command line names. An error comes back as
text, which the model reads.
"""

import json
import re
import sys
from collections.abc import Iterable
from functools import wraps
from inspect import getdoc
from io import BufferedReader, RawIOBase, TextIOWrapper
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO

from dragoman.bundle.folder import bundled_models
from dragoman.cli.arguments import option
from dragoman.cli.options import DEVICE, ENGINE
from dragoman.cli.translating_documents import read_document
from dragoman.decode.request import Request
from dragoman.documents.document import ReadOptions
from dragoman.documents.formats import translated_name
from dragoman.documents.sandbox import Reader
from dragoman.documents.translate import sentence_translator
from dragoman.errors import ConfigError, DragomanError, needs_package
from dragoman.inspect.translator import InspectableTranslator
from dragoman.storage.files import write_atomically
from dragoman.text.detect import detect
from dragoman.text.glossary import NO_TERMS, Glossary, Term
from dragoman.text.languages import AUTO, ModelChoice, choose_model, known_languages, pairs_of
from dragoman.text.segments import split_sentences
from dragoman.text.strings import unwritable_in

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer


_LONGEST_LINE = 2**24  # bytes
# A little less than the library can read.
_MOST_DIGITS, _MOST_NESTED = 4000, 100
# A string, a bracket or a number. A string without an end extends to the end of the line, and a
# number is matched whole: otherwise the search would begin again at each quotation mark or digit,
# in quadratic time.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\Z|\\)|[\[\]{}]|-?\d[\d.eE+-]*+', re.S)
_NUL = rb'"\u0000"'
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")  # an escaped surrogate, paired or lone


class Tools:
    """The tools. Their docstrings are shown to the language model."""

    def __init__(
        self,
        translators: list[InspectableTranslator],
        folders: list[Path],
        glossary: Glossary = NO_TERMS,
    ):
        self.translators = translators
        self.folders = [folder.resolve() for folder in folders]
        self.terms = glossary
        self.languages = [translator.codec.languages for translator in translators]

    def translate(
        self, text: str, to: str, source: str = AUTO, terms: dict[str, str] | None = None
    ) -> str:
        """Translate a text. `to` and `source` are codes such as "de"; `source` may be "auto".
        `terms` gives the required translations of certain words."""
        route = choose_model(self.languages, text, source, to)
        if route.note:
            return text
        sentences, gaps = split_sentences(text)
        request = self._request(route, terms)
        translations = self.translators[route.number].translate(sentences, request)
        return "".join(str(each) + gap for each, gap in zip(translations, [*gaps, ""], strict=True))

    def translate_file(self, path: str, to: str, source: str = AUTO, output: str = "") -> str:
        """Translate a document (.docx, .html, .md, .po, .xlsx and more) and write it to `output`,
        or next to the original. Returns the path of the translation."""
        original = self._allowed(path)
        with Reader() as reader:
            outline = read_document(reader, str(original), ReadOptions(to=to))
            route = choose_model(self.languages, outline.sample, source, to)
            target = self._allowed(output or translated_name(str(original), route.target))
            if target == original:
                raise ConfigError(f"{output} is the original itself: name another file.")
            if route.note:  # the file is in the target language already
                written = reader.unchanged()
            else:
                translator = self.translators[route.number]
                translate = sentence_translator(translator, self._request(route))
                written = reader.translate(translate)
        write_atomically(target, written)
        return str(target)

    def detect(self, text: str) -> list[dict[str, Any]]:
        """Guess the language of a text, most likely first, with a confidence in percent."""
        guesses = detect(text, known_languages(self.languages))
        return [guess._asdict() for guess in guesses[:3]]

    def list_languages(self) -> dict[str, list[str]]:
        """List the source languages, each with its target languages."""
        return {source: into for source, into in pairs_of(self.languages).items() if into}

    def glossary(self, text: str = "") -> list[list[str]]:
        """List the glossary's terms in a text with their translations, or all terms without a
        text. `translate` uses them by itself."""
        terms: Iterable[Term] = self.terms.terms
        if text:
            terms = self.terms.terms_in(text)
        return [[term.source, "|".join(term.targets)] for term in terms]

    def _request(self, route: ModelChoice, terms: dict[str, str] | None = None) -> Request:
        glossary = Glossary.of(terms.items()) if terms else self.terms
        reads = self.languages[route.number].sources
        return Request(
            to=route.target, source_language=route.source if reads else "", glossary=glossary
        )

    def _allowed(self, path: str) -> Path:
        """Resolve a path, and refuse it outside the folders."""
        wanted = Path(path)
        bases = [Path.cwd(), *self.folders] if not wanted.is_absolute() else [Path()]
        candidates = [(base / wanted).resolve() for base in bases]
        for real in candidates:
            if any(real.is_relative_to(folder) for folder in self.folders):
                return real
        named = ", ".join(map(str, self.folders)) or "none: start with --folder"
        raise ConfigError(f"{path} is outside the folders that this server may use ({named}).")


def make_server(tools: Tools) -> "MCPServer[Any]":
    with needs_package("mcp", "mcp"):
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError

    server: MCPServer[Any] = MCPServer(
        "dragoman", instructions="Translates texts and documents.", log_level="WARNING"
    )

    # Hosts call tools concurrently, but an engine does one search at a time.
    one_at_a_time = Lock()

    def add(tool: Any) -> None:
        @wraps(tool)
        def checked(*arguments: Any, **named: Any) -> Any:
            if character := unwritable_in([arguments, named]):
                raise ToolError(f"an argument has {character}: remove it.")
            # A ToolError reaches the model as text; any other exception would end the call.
            try:
                with one_at_a_time:
                    return tool(*arguments, **named)
            except (DragomanError, OSError) as error:
                raise ToolError(str(error)) from None

        server.add_tool(checked, description=getdoc(tool))

    for tool in (tools.translate, tools.detect, tools.list_languages, tools.glossary):
        add(tool)
    if tools.folders:
        add(tools.translate_file)
    return server


class _Repaired(RawIOBase):
    """Makes every line of JSON readable for the protocol's library, so that it answers each."""

    def __init__(self, lines: BinaryIO):
        self._lines, self._left = lines, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            line = self._lines.readline(_LONGEST_LINE)
            while line and not line.endswith(b"\n") and len(line) == _LONGEST_LINE:
                # Too long: the library reports what is left as no JSON.
                rest = self._lines.readline(_LONGEST_LINE)
                line = rest if rest.endswith(b"\n") or not rest else line
            self._left = memoryview(_repaired(line))
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count


def _repaired(line: bytes) -> bytes:
    """Replace values that the library drops without an answer by U+0000, which no tool accepts.

    These are lone surrogates, long numbers and deep nesting.
    """
    line = _shallow(line)
    if not _SURROGATE.search(line):
        return line
    try:
        message = json.dumps(json.loads(line), ensure_ascii=False)
    except ValueError:  # not JSON: the library reports that
        return line
    # Pairs of escaped surrogates were joined by the parser, so only lone ones remain.
    return re.sub("[\ud800-\udfff]", r"\\u0000", message).encode() + b"\n"


def _shallow(line: bytes) -> bytes:
    """Replace values nested too deeply and numbers with too many digits."""
    kept: list[bytes] = []
    start = depth = 0
    for token in _TOKEN.finditer(line):
        if token[0] in b"[{":
            depth += 1
            # The whole value is dropped: its contents are skipped up to its closing bracket.
            if depth == _MOST_NESTED + 1:
                kept += [line[start : token.start()], _NUL]
        elif token[0] in b"]}":
            if depth == _MOST_NESTED + 1:
                start = token.end()
            depth -= 1
        elif (
            depth <= _MOST_NESTED and not token[0].startswith(b'"') and len(token[0]) > _MOST_DIGITS
        ):
            kept += [line[start : token.start()], _NUL]
            start = token.end()
    return b"".join(kept) + line[start:]


def command(
    model: list[str] | None = option(
        None, "Folder of a model (repeatable); default: bundled.", "--model", "-m"
    ),
    folder: list[str] | None = option(
        None, "A folder whose files may be read and written (repeatable)."
    ),
    glossary: str = option("", "Terms that every translation keeps to.", metavar="F.tsv"),
    engine: str = ENGINE,
    device: str = DEVICE,
) -> None:
    """Offer translation to a language model's host (MCP, on standard input and output).

    Example: `dragoman mcp --folder ~/Documents`
    """
    folders = [Path(name).expanduser() for name in folder or []]
    for named in folders:
        if not named.is_dir():
            raise ConfigError(f"--folder {named}: there is no such folder.")
    with needs_package("mcp", "mcp"):
        import mcp.server.mcpserver  # noqa: F401
    terms = Glossary.parse(Path(glossary).read_text("utf-8"), glossary) if glossary else NO_TERMS
    load = InspectableTranslator.load
    translators = [load(name, device, engine) for name in model or bundled_models()]
    server = make_server(Tools(translators, folders, terms))
    sys.stdin = TextIOWrapper(BufferedReader(_Repaired(sys.stdin.buffer)))
    server.run("stdio")
