"""A segment as the plain text that a model takes, and its codes in the translation.

Tags are left out and words stand in for placeholders. In the translation, a stand-in that is there
exactly once becomes its placeholder again. A tag is placed by word links: an element encloses the
run of target words that is linked to its source words most purely. Whatever the model says, the
elements are nested and complete by construction; where a placeholder would be lost, doubled or in
another element, there is no result, and the caller tries something else.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dragoman.documents.protect import adds_protected
from dragoman.documents.segment import Code, Kind, Segment, normalize, texts
from dragoman.text.segments import split_sentences
from dragoman.text.verbatim import StandIns, names

WORD = re.compile(r"\S+")
_PARTS = re.compile(r"\w+")
_PUNCTUATION = "\"'„“”‚‘’«»‹›()[]{}.,;:!?…–—-"
DEEPEST = 50  # elements in elements
_SURE = 1000.0  # a stand-in tells more than any number of links
_SAME = 3.0  # a word that is in source and translation alike tells more than a link
_SMALL = 0.25  # an article or a preposition tells less: attention links these nearly at random
_SMALL_WORDS_LISTED = (
    "the a an of to in on at for by with from and or der die das den dem des ein eine einen "
    "einem einer eines im am zum zur vom von zu mit für auf und oder el la los las lo un una "
    "unos unas de del al en y le les l d une du au aux à et ou par pour dans o os as um uma do "
    "da dos das no na ao à e em con por para com que sur an bei aus su sus is ist sie vous "
    "usted você"
)
_SMALL_WORDS = frozenset(_SMALL_WORDS_LISTED.split())
_ARTICLES = frozenset(
    [
        *("the", "a", "an", "der", "die", "das", "den", "dem", "des", "ein", "eine", "einen"),
        *("einem", "einer", "eines", "el", "la", "los", "las", "un", "una", "unos", "unas"),
        *("le", "les", "une", "o", "os", "as", "um", "uma"),
    ]
)


class SentenceResult(NamedTuple):
    """What a translator made of a sentence, which words are linked, as (source, target), and how
    likely it is to be good."""

    text: str
    links: tuple[tuple[int, int], ...] = ()
    confidence: float = 1.0


@dataclass
class _Node:
    """An element, or the whole segment. Offsets count characters, of the source and then of the
    target."""

    opening: Code | None
    start: int
    parent: "_Node | None" = None
    closing: Code | None = None
    end: int = 0
    children: list["_Node"] = field(default_factory=list)
    marks: list[tuple[Code, int]] = field(default_factory=list)
    words: list[tuple[Code, str]] = field(default_factory=list)  # placeholders and stand-ins
    first: int = 0  # target words that it encloses
    last: int = 0
    span: tuple[int, int] = (0, 0)  # of the target

    def subtree(self) -> list["_Node"]:
        found = [self]
        for node in found:
            found += node.children
        return found


class MaskedSegment:
    """A segment on its way through a translator."""

    def __init__(self, segment: Segment, stand_ins: StandIns = names):
        self.segment = segment
        self.root = _Node(None, 0)
        whole = "".join(texts(segment))
        node, depth, number = self.root, 0, 0
        self.too_deep = False
        self.text = ""
        for item in segment:
            if isinstance(item, str):
                self.text += item
            elif item.kind is Kind.OPEN:
                child = _Node(item, len(self.text), node)
                node.children.append(child)
                node, depth = child, depth + 1
                self.too_deep |= depth > DEEPEST
            elif item.kind is Kind.CLOSE:
                assert node.parent is not None, "a segment's elements are nested"
                node.closing, node.end = item, len(self.text)
                node, depth = node.parent, depth - 1
            elif item.kind is Kind.WORD:
                while (other := stand_ins(number)) in whole:
                    number += 1
                number += 1
                node.words.append((item, other))
                self.text += other
            else:
                node.marks.append((item, len(self.text)))
        self.root.end = len(self.text)
        self.sentences, self.gaps = split_sentences(self.text)

    @property
    def has_tags(self) -> bool:
        return bool(self.root.children or self.root.marks)

    def placed(self, said: Sequence[SentenceResult]) -> Segment | None:
        """The translation with all codes in it, from those of the sentences; None: it would lose
        one."""
        target = "".join(s.text + gap for s, gap in zip(said, [*self.gaps, ""], strict=True))
        if target == self.text:
            return self.segment
        places: dict[str, tuple[int, int]] = {}
        for node in self.root.subtree():
            for _, other in node.words:
                spans = [m.span() for m in re.finditer(rf"(?<!\w){other}(?!\w)", target)]
                if len(spans) != 1 or target.count(other) != 1:
                    return None
                places[other] = spans[0]
        if self.has_tags:
            _Placing(self, target, said, places).place()
        self.root.span = (0, len(target))
        items = _rendered(self.root, target, places)
        if items is None or any(
            adds_protected(self.text, text) for text in items if isinstance(text, str)
        ):
            return None
        return normalize(items)


class _Placing:
    """Finds the target words of every element."""

    def __init__(
        self,
        plain: MaskedSegment,
        target: str,
        said: Sequence[SentenceResult],
        places: dict[str, tuple[int, int]],
    ):
        self.source, self.target, self.root = plain.text, target, plain.root
        self.source_words = [match.span() for match in WORD.finditer(plain.text)]
        self.target_words = [match.span() for match in WORD.finditer(target)]
        self.links = self._links(plain, said)  # target word to source word
        self._parts = Counter(_PARTS.findall(plain.text)), Counter(_PARTS.findall(target))
        # which stand-in is in a target word
        self.sure = {
            self._word_at(self.target_words, start): other for other, (start, _) in places.items()
        }

    def _links(self, plain: MaskedSegment, said: Sequence[SentenceResult]) -> dict[int, int]:
        """Through the whole segment. Where a sentence's words were counted in another way, words
        at like places are linked."""
        links: dict[int, int] = {}
        source = target = 0
        for sentence, one in zip(plain.sentences, said, strict=True):
            read, wrote = len(sentence.split()), len(one.text.split())
            given = {t: s for s, t in one.links}
            fits = len(given) == wrote and all(s < read for s in given.values())
            for t in range(wrote):
                s = given[t] if fits else t * read // wrote
                if read:
                    links[target + t] = source + s
            source, target = source + read, target + wrote
        return links

    @staticmethod
    def _word_at(words: Sequence[tuple[int, int]], offset: int) -> int:
        return next((i for i, (start, end) in enumerate(words) if start <= offset < end), -1)

    def place(self) -> None:
        self.root.first, self.root.last = 0, len(self.target_words)
        self.root.span = (0, len(self.target))
        for node in self.root.subtree():
            taken: set[int] = set()
            for child in sorted(node.children, key=lambda child: child.start - child.end):
                self._enclose(child, node, taken)
                taken.update(range(child.first, child.last))
            node.marks = self._marks(node)

    def _enclose(self, child: _Node, parent: _Node, taken: set[int]) -> None:
        own = self._words_in(child.start, child.end)
        inside = {other for node in child.subtree() for _, other in node.words}
        alike = self._alike(child)
        scores = []
        for word in range(parent.first, parent.last):
            score = self._weight(word) if self.links.get(word) in own else -self._weight(word)
            if word in alike:
                score = _SAME
            if word in self.sure:
                score = _SURE if self.sure[word] in inside else -_SURE
            scores.append(float("-inf") if word in taken else score)
        if own and own >= self._words_in(parent.start, parent.end):
            start, end = 0, len(scores)
        else:
            start, end = _best_run(scores)
            start, end = self._without_articles(child, parent, start, end)
        if start == end and own:
            start, end = self._like_place(own, scores)
        child.first, child.last = parent.first + start, parent.first + end
        if start == end:  # it encloses nothing, and stands where a mark would
            at = self._position(child.start, parent)
            child.span = (at, at)
            return
        child.span = self._verbatim(child) or self._without_punctuation(child, parent)

    def _weight(self, word: int) -> float:
        """How much the link of a target word tells. That of a dash tells nothing: its source is no
        word."""
        bare = self._bare(word)
        return _SMALL if bare in _SMALL_WORDS else float(bool(bare))

    def _bare(self, word: int) -> str:
        """A target word in small letters, without punctuation."""
        start, end = self.target_words[word]
        return self.target[start:end].strip(_PUNCTUATION).lower()

    def _alike(self, child: _Node) -> set[int]:
        """Target words that hold a word of the element as it is: a name, a number. Of words that
        are in the source or in the translation twice, this tells nothing."""
        found = set()
        for word in _PARTS.findall(self.source[child.start : child.end]):
            if word.lower() in _SMALL_WORDS or self._parts[0][word] != 1:
                continue
            if self._parts[1][word] == 1:
                at = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", self.target)
                if at:
                    found.add(self._word_at(self.target_words, at.start()))
        return found

    def _without_articles(
        self, child: _Node, parent: _Node, start: int, end: int
    ) -> tuple[int, int]:
        """An element has an article at its beginning if its source has one there; and it does not
        consist of small words alone if its source does not."""
        words = _PARTS.findall(self.source[child.start : child.end].lower())
        if not words:
            return start, end
        first = parent.first
        if all(word in _SMALL_WORDS for word in words):
            return start, end
        while end - start > 1 and self._bare(first + start) in _SMALL_WORDS - {words[0]}:
            if words[0] in _SMALL_WORDS:
                break
            start += 1
        while end - start > 1 and self._bare(first + end - 1) in _SMALL_WORDS:
            if words[-1] in _SMALL_WORDS:
                break
            end -= 1
        if words[0] in _ARTICLES and start and self._bare(first + start - 1) in _ARTICLES:
            start -= 1
        return start, end

    def _words_in(self, start: int, end: int) -> set[int]:
        """Source words with a letter or digit between these offsets."""
        return {
            number
            for number, (first, last) in enumerate(self.source_words)
            if any(c.isalnum() for c in self.source[max(first, start) : min(last, end)])
        }

    def _like_place(self, own: set[int], scores: Sequence[float]) -> tuple[int, int]:
        """The one word at a like place, if it is free, for an element that no word is linked
        to."""
        middle = (min(own) + max(own) + 1) / 2 / max(1, len(self.source_words))
        free = [i for i, score in enumerate(scores) if score > -_SURE]
        if not free:
            return 0, 0
        best = min(free, key=lambda i: abs(i + 0.5 - middle * len(scores)))
        return best, best + 1

    def _verbatim(self, child: _Node) -> tuple[int, int] | None:
        """Where the text of an element stands as it is, in the words that were chosen for it:
        X3D in X3D-Ausgabe."""
        inner = self.source[child.start : child.end].strip()
        if child.children or child.words or not inner or not inner[0].isalnum():
            return None
        start, end = self.target_words[child.first][0], self.target_words[child.last - 1][1]
        found = re.search(rf"(?<!\w){re.escape(inner)}(?!\w)", self.target[start:end])
        return (start + found.start(), start + found.end()) if found else None

    def _without_punctuation(self, child: _Node, parent: _Node) -> tuple[int, int]:
        """From the first to the last word; punctuation at either end only if the source has some
        there too."""
        start = max(self.target_words[child.first][0], parent.span[0])
        end = min(self.target_words[child.last - 1][1], parent.span[1])
        inner = self.source[child.start : child.end].strip()
        shown = self.target[start:end]
        core = re.search(r"\w(?:.*\w)?", shown, re.S)
        if core and inner[-1:].isalnum():
            end -= len(shown) - core.end()
        if core and inner[:1].isalnum():
            start += core.start()
        return start, max(start, end)

    def _marks(self, node: _Node) -> list[tuple[Code, int]]:
        """Where the marks of an element go, in their order, never inside another element."""
        placed = []
        at = node.span[0]
        for code, offset in node.marks:
            at = max(at, self._position(offset, node))
            for child in sorted(node.children, key=lambda child: child.span):
                if child.span[0] < at < child.span[1]:
                    at = child.span[1]
            placed.append((code, at))
        return placed

    def _position(self, offset: int, node: _Node) -> int:
        """Before what the next source word became, or behind what the last one became."""
        mine = range(node.first, node.last)
        words = [
            i
            for i, (start, end) in enumerate(self.source_words)
            if node.start <= start and end <= node.end
        ]
        low, high = node.span
        for word in (i for i in words if self.source_words[i][0] >= offset):
            linked = [t for t in mine if self.links.get(t) == word]
            if linked:
                return min(max(self.target_words[linked[0]][0], low), high)
        for word in reversed([i for i in words if self.source_words[i][1] <= offset]):
            linked = [t for t in mine if self.links.get(t) == word]
            if linked:
                return min(max(self.target_words[linked[-1]][1], low), high)
        return low if offset <= node.start else high


def _best_run(scores: Sequence[float]) -> tuple[int, int]:
    """The neighbouring scores with the largest sum, from start to end; nothing, if none is above 0
    (Kadane's algorithm).

    >>> _best_run([-1, 1, -1, 1, 1, -1])
    (3, 5)
    """
    best, found = 0.0, (0, 0)
    total, start = 0.0, 0
    for place, score in enumerate(scores):
        if total <= 0:
            total, start = 0.0, place
        total += score
        if total > best:
            best, found = total, (start, place + 1)
    return found


def _rendered(
    node: _Node, target: str, places: dict[str, tuple[int, int]]
) -> list[str | Code] | None:
    """The text of an element with its codes; None where a placeholder is not in its element."""
    begin, end = node.span
    pieces: list[tuple[int, int, list[str | Code]]] = []
    for child in node.children:
        inner = _rendered(child, target, places)
        if inner is None or child.opening is None or child.closing is None:
            return None
        pieces.append((*child.span, [child.opening, *inner, child.closing]))
    pieces += [(at, at, [code]) for code, at in node.marks]
    pieces += [(*places[other], [code]) for code, other in node.words]
    items: list[str | Code] = []
    at = begin
    for start, stop, inside in sorted(pieces, key=lambda piece: piece[:2]):
        if start < at or stop > end:
            return None
        items += [target[at:start], *inside]
        at = stop
    items.append(target[at:end])
    return items
