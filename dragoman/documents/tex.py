"""LaTeX: paragraphs, titles, captions, items and footnotes.

Only known prose is translated. The preamble, math, listings, and every other command with its
arguments are codes. A comment ends a paragraph.
"""

import re
import unicodedata
from collections.abc import Iterator

from dragoman.documents.document import Document, ReadOptions, Span, block_spans, text_document
from dragoman.documents.line_markup import unwrap
from dragoman.documents.segment import Code, Kind, Segment, word_set

# A command with its delimiters, a character written as a command, or a separator. The order
# matters: an accent would otherwise be a command, and a listing or a formula would be split.
_TOKEN = re.compile(
    r"(?P<comment>(?:^[ \t]*+)?%[^\n]*+\n?+[ \t]*+)"
    r"|(?P<verbatim>\\(?:verb|lstinline)\*?+(?P<mark>[^\s\w*{])[^\n]{0,500}?(?P=mark))"
    r"|(?P<math>\$\$(?:[^$\\]|\\.)*+\$\$|\$(?:[^$\\]|\\.)++\$|\\\((?:[^\\]|\\\\|\\(?![()\\]))*+\\\)"
    r"|\\\[(?:[^\\]|\\\\|\\(?![\[\]\\]))*+\\\])"
    r"|(?P<begin>\\begin\s*+\{(?P<env>[^{}]*+)\})|(?P<end>\\end\s*+\{[^{}]*+\})"
    r"|(?P<accent>\\[`'^\"~=.](?:[A-Za-z]|\{[A-Za-z]\})|\\[cvuHkr](?:\s++[A-Za-z]|\{[A-Za-z]\}))"
    r"|(?P<letter>\\(?:ss|ae|AE|oe|OE|aa|AA|o|O|l|L|i)(?![A-Za-z@])(?:\{\}|[ \t]++)?)"
    r"|(?P<space>\\(?:[ ,]|\n(?!\s*\n)))|(?P<quote>``|''|---?|`(?=[^`'\n]{1,80}'(?![\w'])))"
    r"|(?P<special>\\[%&#_${}])|(?P<newline>\\\\\*?+(?:\[[^\[\]\n]*+\])?|&)"
    r"|(?P<glue>\\(?:[vh]skip|kern|penalty)\s*+[-+]?[\d.]*+(?:\s*+(?:(?:plus|minus)\s*+[-+]?[\d.]++)?"
    r"\s*+(?:pt|em|ex|in|cm|mm|bp|pc|sp|fil{1,3}+)(?![A-Za-z]))*+)"
    r"|(?P<command>\\(?:[A-Za-z@]++\*?+|.))"
    r"|(?P<open>\{)|(?P<close>\})|(?P<blank>\n[ \t]*+\n\s*+)|(?P<tie>~)|(?P<sign>[_^#$])",
    re.S | re.M,
)
# Environments without prose: skipped up to their end.
_KEPT = re.compile(
    r"verbatim|lstlisting|minted|Verbatim|comment|equation|align|gather|multline|eqnarray|math"
    r"|displaymath|tikz|pgf|picture|algorithm|filecontents|thebibliography|array|alltt|code|IEEEeqn"
    r"|flalign|alignat|prooftree|mathpar|forest|asy|luacode|dcases|cases|subequations|split|CD$"
)
# Commands whose argument is a text of its own.
_BLOCKS = word_set(
    "part chapter section subsection subsubsection paragraph subparagraph title subtitle "
    "caption frametitle framesubtitle footnote footnotetext thanks marginpar captionof"
)
# Commands around words of a sentence.
_INLINE = word_set(
    "emph textbf textit textsl textsc textsf textrm textup textmd underline uline textnormal "
    "enquote textquote mbox text alert"
)
# Environments with a title in brackets, and with one in braces.
_TITLED = re.compile(
    r"theorem|lemma|proof|definition|example|remark|corollary|proposition|claim|thm|lem|defn?|prop"
)
_FRAMES = word_set("frame block alertblock exampleblock columnblock")
_OVERLAY = re.compile(r"(?:<[^<>\n]*+>)?(?:\[[^\[\]\n]*+\])?")  # slides, and options
# Text in a formula, unless it is an index or a name.
_IN_MATH = re.compile(r"(?<![_^{])\\(?:text|textrm|textnormal|mbox|intertext)\s*+\{(?=[^{}\s]*+\s)")
_MATH = re.compile(
    r"equation|align|gather|multline|eqnarray|flalign|dcases|cases|array|IEEEeqn|split"
)
# Commands between paragraphs.
_ENDS = word_set(
    "par item endinput newpage clearpage cleardoublepage maketitle tableofcontents hline "
    "toprule midrule bottomrule centering appendix medskip bigskip smallskip vspace noindent "
    "input include label bibliography newline includegraphics vfill cline cmidrule pagebreak "
    "def newcommand renewcommand newtheorem usepackage documentclass setlength let index"
)
# Commands that change the font up to the end of their group.
_FONTS = word_set("bf it em sl sc tt sf rm bfseries itshape small")
# Combining characters by accent command.
_ACCENTS = {
    "`": "\u0300", "'": "\u0301", "^": "\u0302", '"': "\u0308", "~": "\u0303", "=": "\u0304",
    ".": "\u0307", "c": "\u0327", "v": "\u030c", "u": "\u0306", "H": "\u030b", "k": "\u0328",
    "r": "\u030a",
}  # fmt: skip
_LETTERS = {
    "ss": "ß", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "aa": "å", "AA": "Å", "o": "ø",
    "O": "Ø", "l": "ł", "L": "Ł", "i": "ı",
}  # fmt: skip
_BY_MARK = {mark: command for command, mark in _ACCENTS.items()}
_BY_LETTER = {letter: command for command, letter in _LETTERS.items()}
# Characters that LaTeX writes as ligatures or commands.
_QUOTES = {"\u201c": "``", "\u201d": "''", "\u201e": ",,", "\u2018": "`", "\u2019": "'",
           "\u2013": "--", "\u2014": "---", "\u00a0": "~", "\u2026": "\\dots{}",
           "\u202f": "\\,", "\u2009": "\\,"}  # fmt: skip
_SPECIAL = re.compile(r"[%&#_${}]")
_PERCENT = re.compile(r"(?<=\d) (?=\\%)")  # a thin space, as typographers have it
_INPUT_ENCODING = re.compile(rb"\\usepackage\[([\w-]+)\]\{inputenc\}")
_PYTHON_NAMES = {"ansinew": "cp1252", "applemac": "mac-roman", "latin9": "iso8859-15"}
_READ_AS = {"``": "\u201c", "''": "\u201d", "`": "\u2018", "--": "\u2013", "---": "\u2014",
            "\\,": "\u202f"}  # fmt: skip
_LONGEST_ARGUMENT = 20_000  # characters
_DEEPEST = 20  # levels of nested text arguments, such as footnotes in footnotes
_MOST_IN_NOTE = 20  # spans of a footnote that is translated inside its sentence


def read(raw: bytes, options: ReadOptions) -> Document:
    declared = _INPUT_ENCODING.search(raw)
    name = declared[1].decode() if declared else ""
    return text_document(raw, options, find_spans, encoding=_PYTHON_NAMES.get(name, name))


def find_spans(text: str, options: ReadOptions = ReadOptions()) -> Iterator[Span]:
    reader = _TexReader(text)
    begin = text.find("\\begin{document}")
    end = text.find("\\end{document}")
    reader.read(max(begin, 0), end if end >= 0 else len(text))
    if begin >= 0:
        reader.titles(begin)
    return iter(reader.spans)


class _TexReader:
    def __init__(self, text: str, outer: "_TexReader | None" = None):
        self.text = text
        self._closings: dict[int, int] = outer._closings if outer else _closings(text)
        self._depth: int = outer._depth + 1 if outer else 0
        self.spans: list[Span] = []
        self._items: list[tuple[int, int, str | Code]] = []
        self._notes: list[Span] = []  # spans of the footnotes in the current paragraph

    def titles(self, end: int) -> None:
        """Find the title, the only prose of the preamble."""
        for match in re.finditer(r"\\(?:sub)?title\s*+(\[[^\[\]]*+\])?\{", self.text[:end]):
            close = self._closing(match.end() - 1)
            if close < end and "\\title" not in self.text[match.end() : close]:
                self._inside(match.end(), close)
                if match[1]:
                    self._title(match.start(1), end, "[")

    def _closing(self, at: int) -> int:
        """Return the end of a brace or bracket; the length of the text if it is too far away."""
        close = self._closings.get(at, len(self.text))
        return close if close - at <= _LONGEST_ARGUMENT else len(self.text)

    def read(self, at: int, end: int) -> None:
        """Find all paragraphs in a range of the text."""
        while match := _TOKEN.search(self.text, at, end):
            self._add(at, match.start(), self.text[at : match.start()])
            at = max(match.end(), self._token(match, end))
        self._add(at, end, self.text[at:end])
        self._paragraph()

    def _token(self, match: re.Match[str], end: int) -> int:
        """Add a token or end the paragraph; return where to continue."""
        start, stop = match.span()
        raw = match[0]
        match match.lastgroup:
            case "comment" | "blank" | "end" | "glue":
                self._paragraph()
            case "env" | "begin":
                self._paragraph()
                return self._environment(match["env"], stop, end)
            case "accent":
                letter = raw.rstrip("}")[-1] + _ACCENTS[raw[1]]
                self._add(start, stop, unicodedata.normalize("NFC", letter))
            case "letter":
                self._add(start, stop, _LETTERS[raw[1:].rstrip("{} \t")])
            case "special":
                self._add(start, stop, raw[1])
            case "quote" | "space":
                self._add(start, stop, _READ_AS.get(raw, " "))
            case "math":
                self._add(start, stop, Code(raw))
                self._notes += self._texts_in_math(start, stop)
            case "tie":
                self._add(start, stop, "\u00a0")
            case "newline":
                self._paragraph()
            case "command":
                return self._command(raw, start, stop, end)
            case "open":
                self._add(start, stop, Code("{", Kind.OPEN, "group"))
            case "close":
                self._add(start, stop, Code("}", Kind.CLOSE, "group"))
            case _:
                self._add(start, stop, Code(raw))
        return stop

    def _environment(self, name: str, at: int, end: int) -> int:
        # Names with a star or a suffix, such as align*, match as well.
        if _KEPT.match(name):
            close = self.text.find(f"\\end{{{name}}}", at, end)
            close = end if close < 0 else close
            if _MATH.match(name):
                self.spans += self._texts_in_math(at, close)
            return close
        if name in _FRAMES and (overlay := _OVERLAY.match(self.text, at, end)):
            at = overlay.end()
        if _TITLED.match(name) or name in _FRAMES:
            self._title(at, end, "{" if name in _FRAMES else "[")
        return self._arguments(at, end)

    def _title(self, at: int, end: int, bracket: str) -> None:
        """Find the text of an argument in brackets or braces."""
        close = self._closing(at) if self.text[at : at + 1] == bracket else end
        if close < end and self._depth < _DEEPEST:
            self._inside(at + 1, close)

    def _texts_in_math(self, start: int, end: int) -> list[Span]:
        spans: list[Span] = []
        for found in _IN_MATH.finditer(self.text, start, end):
            close = self._closing(found.end() - 1)
            if close < end and self._depth < _DEEPEST:
                inner = _TexReader(self.text, self)
                inner.read(found.end(), close)
                spans += inner.spans
        return spans

    def _arguments(self, at: int, end: int) -> int:
        """Return the end of all following arguments in brackets and braces."""
        while at < end and self.text[at] in "[{":
            close = self._closing(at)
            if close >= end:
                break
            at = close + 1
        return at

    def _command(self, raw: str, start: int, at: int, end: int) -> int:
        name = raw[1:].rstrip("*")
        opening = at
        while opening < end and self.text[opening] == "[":
            opening = min(self._closing(opening) + 1, end)
        close = self._closing(opening) if self.text[opening : opening + 1] == "{" else end
        if name in _INLINE and close < end:
            code = self.text[start : opening + 1]
            self._add(start, opening + 1, Code(code, Kind.OPEN, "group"))
            return opening + 1
        if name in _FONTS and self._items and self._items[-1][2] == Code("{", Kind.OPEN, "group"):
            while at < end and self.text[at] in " \t":
                at += 1
            first = self._items.pop()[0]
            self._add(first, at, Code(self.text[first:at], Kind.OPEN, "group"))
            return at
        if name in _BLOCKS and close < end and self._depth < _DEEPEST:
            inner = _TexReader(self.text, self)
            inner.read(opening + 1, close)
            if name in ("footnote", "thanks", "marginpar") and len(inner.spans) < _MOST_IN_NOTE:
                # A footnote is a mark in its sentence, with texts of its own.
                self._add(start, close + 1, Code(self.text[start : close + 1], Kind.MARK, "note"))
                self._notes += inner.spans
            else:
                self._paragraph()
                self.spans += inner.spans
                self._title(at, end, "[")
            return close + 1
        # An unknown command is a code with all of its arguments: they may not be prose.
        after = self._arguments(at, end)
        if name in _ENDS:
            self._paragraph()
            if name == "item":
                self._title(at, end, "[")
        else:
            kind = Kind.WORD if name.isalpha() else Kind.MARK
            # A blank after a name ends the name, unless it is written as a command, too.
            is_spaced = after == at and self.text[at : at + 2] in ("\\ ", "\\\n")
            self._add(start, after, Code(self.text[start:after] + "{}" * is_spaced, kind))
        return after

    def _add(self, start: int, end: int, item: str | Code) -> None:
        if start < end:
            self._items.append((start, end, item))

    def _inside(self, start: int, end: int) -> None:
        reader = _TexReader(self.text, self)
        reader.read(start, end)
        self.spans += reader.spans

    def _paragraph(self) -> None:
        """Make a segment of the items since the last end, without blanks and codes at its ends."""
        items, self._items = self._items, []
        notes, self._notes = self._notes, []
        ascii_only = self.text.isascii()
        self.spans += block_spans(
            self.text, items, notes, (Kind.MARK, Kind.WORD), unwrap, lambda s: _write(s, ascii_only)
        )


def _closings(text: str) -> dict[int, int]:
    """Return the end of each brace and bracket, found in one pass.

    A bracket ends at the next closing one at the same depth of braces.
    """
    closings: dict[int, int] = {}
    braces: list[int] = []
    brackets: list[list[int]] = [[]]  # open ones, by depth of braces
    for match in re.finditer(r"\\.|[{}\[\]]|%[^\n]*+", text, re.S):
        at = match.start()
        match match[0]:
            case "{":
                braces.append(at)
                brackets.append([])
            case "}" if braces:
                closings[braces.pop()] = at
                brackets.pop()
            case "[":
                brackets[-1].append(at)
            case "]":
                closings.update(dict.fromkeys(brackets[-1], at))
                brackets[-1].clear()
    return closings


def _write(segment: Segment, ascii_only: bool) -> str:
    def escape(text: str) -> str:
        text = _SPECIAL.sub(r"\\\g<0>", text)
        text = _PERCENT.sub(r"\,", text)
        for character, command in _QUOTES.items():
            text = text.replace(character, command)
        return "".join(map(_accented, text)) if ascii_only else text

    pieces: list[str] = []
    for item in segment:
        code = isinstance(item, Code) and not item.in_text
        piece = item.raw if isinstance(item, Code) else item
        piece = piece if code else escape(piece)
        # The name of a command ends before the first character that is not a letter.
        if pieces and not code and piece[:1].isalpha() and re.search(r"\\[A-Za-z@]++$", pieces[-1]):
            pieces.append("{}")
        pieces.append(piece)
    return "".join(pieces)


def _accented(character: str) -> str:
    """Write a character as a command of LaTeX, if there is one.

    >>> _accented("ü"), _accented("ß"), _accented("犬")
    ('\\\\"{u}', '{\\\\ss}', '犬')
    """
    if character.isascii():
        return character
    if character in _BY_LETTER:
        return f"{{\\{_BY_LETTER[character]}}}"
    base, mark = (*unicodedata.normalize("NFD", character), "", "")[:2]
    return f"\\{_BY_MARK[mark]}{{{base}}}" if mark in _BY_MARK else character
