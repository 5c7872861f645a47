"""Count the structural parts of text formats, which a translation must not change.

Each function counts the parts of one format: blocks and links of Markdown, directives and titles of
reStructuredText, commands and environments of LaTeX, parts of a mail, groups of RTF, times of
subtitles.
"""

import email
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable

from dragoman.documents import adoc, markdown, rst, subtitles
from dragoman.documents.document import Span, decode_text
from dragoman.documents.segment import Segment, codes

Shape = Counter[Hashable]

# Marks whose number may change: escapes, doubled emphasis, and AsciiDoc's {empty}.
_FREE_CODE = re.compile(r"\\.?|[\s*_#~^\\]*|\{empty\}", re.S)
# Directives, footnotes, targets and substitutions; underlines and other rules.
_RST_LINE = re.compile(
    r"^[ \t]*+(?:\.\. (?!_`)(?:[\w.+-]++(?::[\w.+-]++)*+ ?::|\[[^\]\n]++\]|_[^:\n]++:|\|[^|\n]++\|)"
    r"|([=~^\"#*+'`_-])\1{2,}+[ \t\r]*+$)",
    re.M,
)
# Fences, section titles, attributes, tables and block macros.
_ADOC_LINE = re.compile(
    r"^(?:([=*_.+/-])\1{3,}+[ \t\r]*+$|={1,6} |\[[^\]\n]++\][ \t\r]*+$|:[\w-]++:"
    r"|\|===[ \t\r]*+$|[\w-]++::\S*+\[)",
    re.M,
)
# The old name of a heading that has a new one.
_ANCHOR = re.compile(r"<a id=\"[^\"<>]*+\"></a>")
_RULE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}+")
_TEX_COMMAND = re.compile(r"(?<!\\)(?:\\\\)*+(\\(?:begin|end)\s*+\{[^{}]*+\}|\\[A-Za-z@]++)")
# Characters written as commands: a translation has different ones.
_TEX_LETTER = re.compile(r"\\(?:ss|ae|AE|oe|OE|aa|AA|o|O|l|L|i|j|dots|[cvuHkr])")
# A control word or symbol, whose binary data is skipped, or a brace.
_RTF_TOKEN = re.compile(
    r"\\(?:'[0-9A-Fa-f]{2}|bin(\d{1,9}) ?|([a-z]++)-?\d*+ ?|[^a-z])|([{}])", re.S
)
# Control words that begin or end a part of the document.
_RTF_COUNTED = re.compile(
    r"par|pard|cell|row|sect|page|trowd|footnote|header\w?|footer\w?|field|fldinst|fldrslt|pict"
    r"|shp|object|annotation|bkmkstart|bkmkend|listtext"
)
# AsciiDoc writes `code` as ``code`` where it touches a letter.
_DOUBLED = re.compile(r"`(`[^`]++`)`")
# Headers that a translation may change.
_MAIL_STATES = frozenset(["subject", "content-type", "content-transfer-encoding", "mime-version"])


def _of_codes(segments: Iterable[Segment]) -> Shape:
    shown = (" ".join(code.raw.split()) for segment in segments for code in codes(segment))
    return Counter(_without_texts(raw) for raw in shown if not _FREE_CODE.fullmatch(raw))


def _without_texts(raw: str) -> str:
    """Reduce a tag to its name, and a link or picture to its target: the rest may be translated.

    >>> _without_texts('<img alt="A dog">'), _without_texts('](x.html "A page")')
    ('<img', '](x.html')
    """
    if tag := re.match(r"</?[\w-]++", raw):
        return tag[0]
    return raw[raw.rindex("](") :].split()[0].rstrip(")") if "](" in raw else raw


def of_markdown(raw: bytes) -> Shape:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table").disable(["inline", "text_join"])
    tokens = parser.parse(decode_text(raw, "latin-1")[0])
    contents = (_ANCHOR.sub("", token.content) for token in tokens)
    # Codes inside blocks, and the blocks themselves.
    shape = _of_codes(markdown.segment_of(content) for content in contents if content)
    return shape + Counter(token.type for token in tokens)


def _of_lines(
    line: re.Pattern[str], find: Callable[[str], Iterable[Span]]
) -> Callable[[bytes], Shape]:
    def shape(raw: bytes) -> Shape:
        text = decode_text(raw, "latin-1")[0]
        # A rule may change its length.
        lines = (_RULE.sub(r"\1", match[0].strip()) for match in line.finditer(text))
        return Counter(lines) + _of_codes(span.segment for span in find(text))

    return shape


def of_asciidoc(raw: bytes) -> Shape:
    shape: Shape = Counter()
    for entry, count in _of_lines(_ADOC_LINE, adoc.find_spans)(raw).items():
        shape[_DOUBLED.sub(r"\1", str(entry))] += count
    return shape


def of_latex(raw: bytes) -> Shape:
    text = raw.decode("latin-1")
    commands = (match[1] for match in _TEX_COMMAND.finditer(text))
    shape: Shape = Counter(c for c in commands if not _TEX_LETTER.fullmatch(c))
    # Groups may be added, but each must be closed.
    braces = Counter(re.findall(r"(?<!\\)(?:\\\\)*+([{}])", text))
    shape["an open brace"] = abs(braces["{"] - braces["}"])
    return shape


def of_rtf(raw: bytes) -> Shape:
    text = raw.decode("latin-1")
    shape: Shape = Counter()
    depth = at = 0
    while token := _RTF_TOKEN.search(text, at):
        at = token.end() + int(token[1] or 0)
        if token[3]:
            depth += 1 if token[3] == "{" else -1
            if depth < 0:
                shape["a group without a beginning"] += 1
        elif token[2] and _RTF_COUNTED.fullmatch(token[2]):
            shape[f"\\{token[2]}"] += 1
    shape["a group without an end"] = max(depth, 0)
    return shape


def of_mail(raw: bytes) -> Shape:
    message = email.message_from_bytes(raw)
    parts: Shape = Counter()
    for part in message.walk():
        parts[f"a part {part.get_content_type()} {part.get_filename() or ''}"] += 1
        parts.update(type(defect).__name__ for defect in part.defects)
    heads = ((key, str(value)) for key, value in message.items())
    return parts + Counter(head for head in heads if head[0].lower() not in _MAIL_STATES)


def of_subtitles(raw: bytes) -> Shape:
    text = decode_text(raw, "latin-1")[0]
    shape: Shape = Counter(line for line in text.splitlines() if "-->" in line)
    shape["a cue with text"] = subtitles.cues_with_text(text)
    return shape


SHAPES: dict[str, Callable[[bytes], Shape]] = {
    "markdown": of_markdown,
    "rst": _of_lines(_RST_LINE, rst.find_spans),
    "asciidoc": of_asciidoc,
    "latex": of_latex,
    "rtf": of_rtf,
    "eml": of_mail,
    "srt": of_subtitles,
    "vtt": of_subtitles,
}
