"""What an answer breaks: marks, terms, numbers, lines, length, language, or it chats.

The same checks judge an engine and the package's model. A fault's words go to the engine, so they
say what is wrong, and not how to find it.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from dragoman.decode.confidence.errors import errors
from dragoman.decode.text_engine.forms import shown, stray
from dragoman.text.detect import surely_none_of
from dragoman.text.glossary import Demand, lacking
from dragoman.text.marks import MARK, are_balanced, is_single
from dragoman.text.segments import is_in_capitals
from dragoman.text.verbatim import reason_for_doubt

KINDS = (
    "error", "cut", "empty", "refusal", "chatter", "mark", "order", "term", "number", "lines",
    "length", "language", "copied", "repetition",
)  # fmt: skip
_LONGER, _SHORTER = 3.0, 0.3  # ratios of lengths that no good translation has
_SPARE = 40  # characters: ratios of short texts say little
_FEW_WORDS = 6
_DENSE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_DENSITY = 2.5  # letters of other scripts for one of these
_CHATTER = re.compile(
    r"(?i)\A\W*(?:sure|certainly|of course|okay|here(?:'s| is| are)|the translat\w+|translat\w+"
    r"|gerne|natürlich|hier ist|die übersetzung|claro|aquí|bien sûr|voici|la trad\w+|aqui está)\b"
    r"[^\n]{0,80}:(?=\s|$)"
    r"|\(?\b(?:note|hinweis|anmerkung|nota|remarque)\b ?:[^\n]{0,200}\Z"
    r"|\b(?:let me know if|hope this helps|as an ai|i have translated|i translated)\b"
    r"|```|\A(?:german|english|french|spanish|portuguese|translation|source|text) ?:"
)
_REFUSAL = re.compile(
    r"(?i)\b(?:as an ai|language model|sprachmodell|i (?:can(?:'|no)t|am unable to|won't) "
    r"(?:assist|help (?:you )?with|translate|fulfil|comply|provide|process)"
    r"|(?:ich kann|kann ich)\b[^.]{0,40}\bnicht\b[^.]{0,20}\b(?:übersetzen|helfen|bearbeiten)"
    r"|no puedo (?:traducir|ayudar)|je ne peux pas (?:traduire|vous aider)"
    r"|não posso (?:traduzir|ajudar))"
)
_QUOTES = "\"“”„«»'‘’"


class Fault(NamedTuple):
    kind: str
    words: str  # for the engine, and for the user


@dataclass
class EngineSegment:
    """A text on its way to an engine: with marks in place of what must be kept.

    Attributes:
        text: The source, with marks.
        kept: The words of marks that stand for words; other marks are a document's codes.
        demands: Its terms, and `entries` the lines of the glossary that they come from.
        context: The sentences before it.
        answer: The accepted translation, with marks.
        doubts: What the accepted translation may break.
        said: The other answers, and what each breaks.
        asked: The request bodies so far: no question is asked twice.
        failed_forms: Forms of marks that did not come through.
    """

    text: str
    source: str
    to: str
    kept: dict[str, str] = field(default_factory=dict)
    demands: tuple[Demand, ...] = ()
    entries: tuple[tuple[str, str], ...] = ()
    context: str = ""
    answer: str | None = None
    doubts: list[Fault] = field(default_factory=list)
    said: list[tuple[str, list[Fault]]] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    failed_forms: list[str] = field(default_factory=list)

    @property
    def has_codes(self) -> bool:
        """Whether it has marks of a document."""
        return any(mark not in self.kept for mark in MARK.findall(self.text))

    @property
    def content(self) -> object:
        """What tells it from others in one job."""
        return self.text, self.source, self.to, self.context, tuple(self.kept.values())

    def restored(self, text: str) -> str:
        """Return a text with the words of its marks, and the marks of codes."""
        return MARK.sub(lambda match: self.kept.get(match[0], match[0]), text)

    def unmarked(self, text: str) -> str:
        """Return a text with the words of its marks, without codes."""
        return MARK.sub(lambda match: self.kept.get(match[0], ""), text)


def faults(segment: EngineSegment, answer: str) -> list[Fault]:
    """Return what an answer with marks breaks; nothing if it keeps all promises."""
    source, target = segment.unmarked(segment.text), segment.unmarked(answer)
    if any(map(str.isalpha, source)) and not target.strip():
        return [Fault("empty", "It was empty.")]
    found: list[Fault] = []
    for check in _CHECKS:
        found += check(segment, answer, source, target)
    return found


def _talk(segment: EngineSegment, answer: str, source: str, target: str) -> list[Fault]:
    if _REFUSAL.search(target) and not _REFUSAL.search(source):
        return [Fault("refusal", "It refused to translate.")]
    quoted = target[:1] in _QUOTES and target[-1:] in _QUOTES and source[:1] not in _QUOTES
    talks = [*_CHATTER.finditer(target)]
    if (talks and len(talks) > len(_CHATTER.findall(source))) or (quoted and len(target) > 1):
        return [Fault("chatter", "It had words around the translation.")]
    return []


def _marks(segment: EngineSegment, answer: str, source: str, target: str) -> list[Fault]:
    wanted, got = Counter(MARK.findall(segment.text)), Counter(MARK.findall(answer))
    lost = [*(wanted - got)]
    if lost:
        return [Fault("mark", f"It lacked {_listed(segment, lost)}.")]
    if more := [*(got - wanted)]:
        return [Fault("mark", f"It had {_listed(segment, more)} too often.")]
    if not are_balanced(answer):
        return [Fault("mark", "Its tags were not nested.")]
    if (other := stray(answer)) and other not in segment.text:
        return [Fault("mark", f"It had a tag {other} that the text lacks.")]
    order = [
        [mark for mark in MARK.findall(text) if is_single(mark)] for text in (segment.text, answer)
    ]
    if _words(segment, order[0]) != _words(segment, order[1]):
        return [Fault("order", f"It changed the order of {_listed(segment, order[0])}.")]
    return []


def _terms(segment: EngineSegment, answer: str, source: str, target: str) -> list[Fault]:
    missing = lacking(segment.demands, target, is_in_capitals(source)) if segment.demands else []
    words = [f"{demand.source!r} must become {demand.spellings[0]!r}" for demand in missing]
    return [Fault("term", f"{'; '.join(words)}.")] if words else []


def _lines(segment: EngineSegment, answer: str, source: str, target: str) -> list[Fault]:
    before, after = (text.strip().count("\n") for text in (source, target))
    return (
        [Fault("lines", f"It had {after + 1} lines, not {before + 1}.")] if before != after else []
    )


def _length(segment: EngineSegment, answer: str, source: str, target: str) -> list[Fault]:
    before, after = map(_size, (source, target))
    if after > _LONGER * before + _SPARE:
        return [Fault("length", "It was much longer than the text.")]
    if after < _SHORTER * before - _SPARE / 4:
        return [Fault("length", "It was much shorter than the text.")]
    return []


def _content(segment: EngineSegment, answer: str, source: str, target: str) -> list[Fault]:
    """Numbers, repetition, and the language of the answer."""
    # Words that are kept say nothing about the language.
    bare_source, bare = (MARK.sub(" ", text) for text in (segment.text, answer))
    found = []
    kinds = errors(source, target, segment.source, segment.to)
    if "number" in kinds:
        found.append(Fault("number", "Its numbers were not the text's."))
    if "repetition" in kinds:
        found.append(Fault("repetition", "It repeated words."))
    if segment.source != segment.to and _is_copied(bare_source, bare, segment.to):
        found.append(Fault("copied", "It was not translated."))
    elif other := surely_none_of(bare, [segment.to]):
        found.append(Fault("language", f"It was in {other!r}, not in {segment.to!r}."))
    return found


def _is_copied(source: str, target: str, to: str) -> bool:
    if reason_for_doubt(source, target):
        return True
    # Of a few words, several may be names: "generated by python-docx".
    small = sum(word.islower() for word in source.split())
    return small >= _FEW_WORDS and "untranslated" in errors(source, target, "", to)


_CHECKS: tuple[Callable[[EngineSegment, str, str, str], list[Fault]], ...] = (
    _talk, _marks, _terms, _lines, _length, _content,
)  # fmt: skip


def _listed(segment: EngineSegment, marks: list[str]) -> str:
    return ", ".join(shown(mark, segment.kept) for mark in marks)


def _words(segment: EngineSegment, marks: list[str]) -> list[str]:
    return [segment.kept.get(mark) or mark for mark in marks]


def _size(text: str) -> float:
    """Count the characters of a text; of scripts that write a word in one or two, several times."""
    return len(text) + (_DENSITY - 1) * len(_DENSE.findall(text))
