"""Mask a segment's codes for the model, and restore them in the translation.

The model takes plain text: tags are dropped, and a mask, which is a word, replaces each
placeholder. In the translation, a mask that occurs exactly once becomes its placeholder again. Tags
are placed by word links: an element encloses the run of target words that is linked most purely to
its source words. Elements come out nested and complete by construction. If a placeholder would be
lost, doubled or moved to another element, there is no result, and the caller tries something else.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dragoman.documents.protect import adds_protected
from dragoman.documents.segment import Code, Kind, Segment, normalize, texts, word_set
from dragoman.text.segments import split_sentences
from dragoman.text.verbatim import StandIns, names

WORD = re.compile(r"\S+")
_PARTS = re.compile(r"\w+")
_PUNCTUATION = "\"'„“”‚‘’«»‹›()[]{}.,;:!?…–—-"
DEEPEST = 50  # levels of nested elements
# Weights of the evidence that a target word belongs to an element; a link of a content word has 1.
_SURE = 1000.0  # a mask outweighs any number of links
_SAME = 3.0  # a word that occurs unchanged in source and translation
_SMALL = 0.25  # an article or preposition: attention links these nearly at random
_ARTICLES = word_set(
    "the a an der die das den dem des ein eine einen einem einer eines el la los las un una unos "
    "unas le les une o os as um uma"
)
_SMALL_WORDS = _ARTICLES | word_set(
    "of to in on at for by with from and or im am zum zur vom von zu mit für auf und oder lo de "
    "del al en y l d du au aux à et ou par pour dans do da dos das no na ao à e em con por para "
    "com que sur an bei aus su sus is ist sie vous usted você"
)


class SentenceResult(NamedTuple):
    """A sentence's translation, its word links as (source, target) pairs, and its confidence.

    `why` says what else is doubtful about it.
    """

    text: str
    links: tuple[tuple[int, int], ...] = ()
    confidence: float = 1.0
    why: str = ""


@dataclass
class _Node:
    """An element, or the whole segment.

    Offsets count characters: `start` and `end` in the source, `span` in the target.
    """

    opening: Code | None
    start: int
    parent: "_Node | None" = None
    closing: Code | None = None
    end: int = 0
    children: list["_Node"] = field(default_factory=list)
    marks: list[tuple[Code, int]] = field(default_factory=list)
    placeholders: list[tuple[Code, str]] = field(default_factory=list)  # with their masks
    first: int = 0  # range of enclosed target words
    last: int = 0
    span: tuple[int, int] = (0, 0)

    def subtree(self) -> list["_Node"]:
        nodes = [self]
        for node in nodes:  # grows while it is read: breadth first
            nodes += node.children
        return nodes


class MaskedSegment:
    """A segment as plain text for the model, and the tree of its elements."""

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
                # A mask that occurs in the text could not be found again.
                while (stand_in := stand_ins(number)) in whole:
                    number += 1
                number += 1
                node.placeholders.append((item, stand_in))
                self.text += stand_in
            else:
                node.marks.append((item, len(self.text)))
        self.root.end = len(self.text)
        self.sentences, self.gaps = split_sentences(self.text)

    @property
    def has_tags(self) -> bool:
        return bool(self.root.children or self.root.marks)

    def restore(self, results: Sequence[SentenceResult]) -> Segment | None:
        """Return the translation with all codes; None if it would lose a placeholder."""
        target = "".join(s.text + gap for s, gap in zip(results, [*self.gaps, ""], strict=True))
        # Nothing was translated, so all codes are where they were.
        if target == self.text:
            return self.segment
        places: dict[str, tuple[int, int]] = {}
        for node in self.root.subtree():
            for _, stand_in in node.placeholders:
                spans = [m.span() for m in re.finditer(rf"(?<!\w){stand_in}(?!\w)", target)]
                if len(spans) != 1 or target.count(stand_in) != 1:
                    return None
                places[stand_in] = spans[0]
        if self.has_tags:
            _TagPlacer(self, target, results, places).place()
        self.root.span = (0, len(target))
        items = _rendered(self.root, target, places)
        if items is None or any(
            adds_protected(self.text, text) for text in items if isinstance(text, str)
        ):
            return None
        return normalize(items)


class _TagPlacer:
    """Finds the range of target words that each element encloses."""

    def __init__(
        self,
        masked: MaskedSegment,
        target: str,
        results: Sequence[SentenceResult],
        places: dict[str, tuple[int, int]],
    ):
        self.source, self.target, self.root = masked.text, target, masked.root
        self.source_words = [match.span() for match in WORD.finditer(masked.text)]
        self.target_words = [match.span() for match in WORD.finditer(target)]
        self.links = self._links(masked, results)  # target word to source word
        self._parts = Counter(_PARTS.findall(masked.text)), Counter(_PARTS.findall(target))
        self.stand_ins = {  # by the target word that contains them
            self._target_word_at(start): stand_in for stand_in, (start, _) in places.items()
        }

    def _links(self, masked: MaskedSegment, results: Sequence[SentenceResult]) -> dict[int, int]:
        """Return the links of all sentences, with words numbered through the segment.

        If a sentence's links count words differently, link words at proportional positions instead.
        """
        links: dict[int, int] = {}
        source = target = 0
        for sentence, result in zip(masked.sentences, results, strict=True):
            source_size, target_size = len(sentence.split()), len(result.text.split())
            linked = {t: s for s, t in result.links}
            fits = len(linked) == target_size and all(s < source_size for s in linked.values())
            for t in range(target_size):
                s = linked[t] if fits else t * source_size // target_size
                if source_size:
                    links[target + t] = source + s
            source, target = source + source_size, target + target_size
        return links

    def _target_word_at(self, offset: int) -> int:
        words = enumerate(self.target_words)
        return next((i for i, (start, end) in words if start <= offset < end), -1)

    def place(self) -> None:
        self.root.first, self.root.last = 0, len(self.target_words)
        self.root.span = (0, len(self.target))
        for node in self.root.subtree():
            # Siblings must not overlap.
            taken: set[int] = set()
            # The longest element chooses first: it has the most evidence.
            for child in sorted(node.children, key=lambda child: child.start - child.end):
                self._enclose(child, node, taken)
                taken.update(range(child.first, child.last))
            node.marks = self._marks(node)

    def _enclose(self, child: _Node, parent: _Node, taken: set[int]) -> None:
        """Choose the target words of an element among the free ones of its parent."""
        own = self._words_in(child.start, child.end)
        # Masks of placeholders inside the element must stay inside.
        inside = {name for node in child.subtree() for _, name in node.placeholders}
        unchanged = self._unchanged_words(child)
        scores = []
        for word in range(parent.first, parent.last):
            score = self._weight(word) if self.links.get(word) in own else -self._weight(word)
            if word in unchanged:
                score = _SAME
            if word in self.stand_ins:
                score = _SURE if self.stand_ins[word] in inside else -_SURE
            # A run never crosses a word of a sibling.
            scores.append(float("-inf") if word in taken else score)
        # The element has all words of its parent.
        if own and own >= self._words_in(parent.start, parent.end):
            start, end = 0, len(scores)  # an element around everything stays around everything
        else:
            start, end = _best_run(scores)
            start, end = self._without_articles(child, parent, start, end)
        if start == end and own:
            start, end = self._proportional_word(own, scores)
        child.first, child.last = parent.first + start, parent.first + end
        if start == end:  # an empty element is placed like a mark
            at = self._position(child.start, parent)
            child.span = (at, at)
            return
        child.span = self._verbatim(child) or self._without_punctuation(child, parent)

    def _weight(self, word: int) -> float:
        """Return how much the link of a target word counts.

        Punctuation such as a dash counts nothing: it is linked to an arbitrary word.
        """
        bare = self._bare(word)
        return _SMALL if bare in _SMALL_WORDS else float(bool(bare))

    def _bare(self, word: int) -> str:
        """Return a target word in lower case, without punctuation."""
        start, end = self.target_words[word]
        return self.target[start:end].strip(_PUNCTUATION).lower()

    def _unchanged_words(self, child: _Node) -> set[int]:
        """Return the target words that contain a word of the element unchanged: a name, a number.

        Words that occur twice in the source or in the translation are no evidence.
        """
        unchanged = set()
        for word in _PARTS.findall(self.source[child.start : child.end]):
            if word.lower() in _SMALL_WORDS or self._parts[0][word] != 1:
                continue
            match = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", self.target)
            if match and self._parts[1][word] == 1:
                unchanged.add(self._target_word_at(match.start()))
        return unchanged

    def _without_articles(
        self, child: _Node, parent: _Node, start: int, end: int
    ) -> tuple[int, int]:
        """Trim small words from the ends of a range.

        An element begins with an article only if its source does. It consists of small words only
        if its source does.
        """
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
        # Take in the article before the run: its link is often wrong.
        if words[0] in _ARTICLES and start and self._bare(first + start - 1) in _ARTICLES:
            start -= 1
        return start, end

    def _words_in(self, start: int, end: int) -> set[int]:
        """Return the source words that have a letter or digit between two offsets."""
        return {
            number
            for number, (first, last) in enumerate(self.source_words)
            if any(c.isalnum() for c in self.source[max(first, start) : min(last, end)])
        }

    def _proportional_word(self, own: set[int], scores: Sequence[float]) -> tuple[int, int]:
        """Return the free word at the proportional position, for an element that no word is linked
        to.
        """
        # The middle of the element, as a fraction of the source.
        middle = (min(own) + max(own) + 1) / 2 / max(1, len(self.source_words))
        free = [i for i, score in enumerate(scores) if score > -_SURE]
        if not free:
            return 0, 0
        best = min(free, key=lambda i: abs(i + 0.5 - middle * len(scores)))
        return best, best + 1

    def _verbatim(self, child: _Node) -> tuple[int, int] | None:
        """Return the place of the element's own text inside its words, as X3D in "X3D-Ausgabe";
        None if it is not there.
        """
        inner = self.source[child.start : child.end].strip()
        if child.children or child.placeholders or not inner or not inner[0].isalnum():
            return None
        start, end = self.target_words[child.first][0], self.target_words[child.last - 1][1]
        match = re.search(rf"(?<!\w){re.escape(inner)}(?!\w)", self.target[start:end])
        return (start + match.start(), start + match.end()) if match else None

    def _without_punctuation(self, child: _Node, parent: _Node) -> tuple[int, int]:
        """Return the range from the first to the last word, with punctuation at an end only if the
        source has some there.
        """
        start = max(self.target_words[child.first][0], parent.span[0])
        end = min(self.target_words[child.last - 1][1], parent.span[1])
        inner = self.source[child.start : child.end].strip()
        words = self.target[start:end]
        core = re.search(r"\w(?:.*\w)?", words, re.S)
        if core and inner[-1:].isalnum():
            end -= len(words) - core.end()
        if core and inner[:1].isalnum():
            start += core.start()
        return start, max(start, end)

    def _marks(self, node: _Node) -> list[tuple[Code, int]]:
        """Place an element's marks, in their order and never inside another element."""
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
        """Return the offset before the translation of the next source word, or after the
        translation of the previous word.
        """
        own = range(node.first, node.last)
        words = [
            i
            for i, (start, end) in enumerate(self.source_words)
            if node.start <= start and end <= node.end
        ]
        low, high = node.span
        for word in (i for i in words if self.source_words[i][0] >= offset):
            linked = [t for t in own if self.links.get(t) == word]
            if linked:
                return min(max(self.target_words[linked[0]][0], low), high)
        for word in reversed([i for i in words if self.source_words[i][1] <= offset]):
            linked = [t for t in own if self.links.get(t) == word]
            if linked:
                return min(max(self.target_words[linked[-1]][1], low), high)
        return low if offset <= node.start else high


def _best_run(scores: Sequence[float]) -> tuple[int, int]:
    """Return start and end of the run of scores with the largest sum; (0, 0) if no sum is positive.

    This is Kadane's algorithm.

    >>> _best_run([-1, 1, -1, 1, 1, -1])
    (3, 5)
    """
    best, run = 0.0, (0, 0)
    total, start = 0.0, 0
    for index, score in enumerate(scores):
        # A prefix without a positive sum never helps.
        if total <= 0:
            total, start = 0.0, index
        total += score
        if total > best:
            best, run = total, (start, index + 1)
    return run


def _rendered(
    node: _Node, target: str, places: dict[str, tuple[int, int]]
) -> list[str | Code] | None:
    """Return the text of an element with its codes; None if a placeholder left its element."""
    begin, end = node.span
    pieces: list[tuple[int, int, list[str | Code]]] = []
    for child in node.children:
        inner = _rendered(child, target, places)
        if inner is None or child.opening is None or child.closing is None:
            return None
        pieces.append((*child.span, [child.opening, *inner, child.closing]))
    pieces += [(at, at, [code]) for code, at in node.marks]
    pieces += [(*places[stand_in], [code]) for code, stand_in in node.placeholders]
    items: list[str | Code] = []
    at = begin
    # Children, marks and placeholders in the order of the target.
    for start, stop, inside in sorted(pieces, key=lambda piece: piece[:2]):
        if start < at or stop > end:  # overlaps another element, or leaves this one
            return None
        items += [target[at:start], *inside]
        at = stop
    items.append(target[at:end])
    return items
