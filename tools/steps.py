"""Count the steps of a regular expression, with a small backtracking matcher.

It walks the tree that Python's own parser makes of a pattern, tries the same choices in the same
order as `re`, and counts every character and every choice that it looks at. Unlike time, the count
is the same on every machine. It knows what patterns may hold in Python 3.11, except conditions on
groups.

Attacks are made from a pattern's own parts: text that must precede a repeat, then many repetitions,
then an end that does not match.
"""

import itertools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from typing import Any

SINGLE = {"LITERAL", "NOT_LITERAL", "ANY", "IN"}
REPEATS = {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}
_COMMON = "aAéx0 \t\n\r.,-_/:\"'<>[](){}%\\#*=&@+!|中"
_TAILS = ("", "\0", "a", "\r\n\0")
_MOST_PAIRED = 8  # characters whose pairs are tried

Then = Callable[[int], bool]
Match = Callable[[int, Then], bool]
Fixed = Callable[[int], int]  # where a part ends that leaves no choice; -1: it does not fit
Tree = Any  # what the parser makes: a sequence of pairs of an operator and its arguments


class TooManyError(Exception):
    """A count passed its limit."""


class _Known(dict[str, bool]):
    """Whether a character is one of a class: asked once, then looked up."""

    def __init__(self, own: re.Pattern[str]):
        super().__init__()
        self._own = own

    def __missing__(self, character: str) -> bool:
        self[character] = found = self._own.match(character) is not None
        return found


class Counter:
    """A pattern that counts its steps."""

    def __init__(self, pattern: re.Pattern[str] | re.Pattern[bytes]):
        source = pattern.pattern
        flags = pattern.flags
        if isinstance(source, bytes):  # with Latin-1's characters and ASCII's classes
            source, flags = source.decode("latin-1"), flags | re.ASCII
        self.tree = _parser.parse(source, flags)
        self.flags = self.tree.state.flags
        self._root = self._sequence(self.tree, self.flags)

    def run(self, text: str, everywhere: bool = True, limit: int = 10**7) -> list[tuple[int, int]]:
        """Return the matches of `finditer` or `match`, and set `steps` to their number of steps."""
        deepest = sys.getrecursionlimit()
        sys.setrecursionlimit(max(deepest, 100_000))  # a repeat calls itself
        try:
            return self._run_on(text, everywhere, limit)
        finally:
            sys.setrecursionlimit(deepest)

    def _run_on(self, text: str, everywhere: bool, limit: int) -> list[tuple[int, int]]:
        self.text, self.length, self.steps, self.limit = text, len(text), 0, limit
        self.groups: dict[int, tuple[int, int]] = {}
        found: list[tuple[int, int]] = []
        start, barred = 0, -1  # no second match without characters at one place
        while start <= len(text):
            self._step()
            end = -1

            def then(at: int, begin: int = start, not_at: int = barred) -> bool:
                nonlocal end
                end = at
                return not at == begin == not_at

            if self._root(start, then):
                found.append((start, end))
                barred = end if end == start else -1
                start = end
            else:
                start += 1
            if not everywhere:
                break
        return found

    def _step(self, count: int = 1) -> None:
        """Compare the count with its limit, only at repeats and starts: every endless search passes
        through them."""
        self.steps += count
        if self.steps > self.limit:
            raise TooManyError

    def _sequence(self, nodes: Tree, flags: int) -> Match:
        """Parts without a choice are walked through in a loop, all others call each other."""
        last: Match | None = None
        fixed: list[Fixed] = []
        for operator, argument in reversed(nodes):
            one = self._fixed(str(operator), argument, flags)
            if one is not None:
                fixed.insert(0, one)
                continue
            last = _joined(fixed, last) if fixed else last
            fixed = []
            last = _before(self._node(str(operator), argument, flags), last)
        return _joined(fixed, last) if fixed or last is None else last

    def _node(self, operator: str, argument: Any, flags: int) -> Match:
        if operator in REPEATS:
            least, most, body = argument
            return self._repeat(operator, least, most, body, flags)
        if operator == "BRANCH":
            return self._branch(argument[1], flags)
        if operator == "SUBPATTERN":
            group, added, removed, inner = argument
            return self._group(group, self._sequence(inner, flags & ~removed | added))
        if operator == "ATOMIC_GROUP":
            return self._atomic(self._sequence(argument, flags))
        if operator == "GROUPREF":
            return self._reference(argument)
        if operator in ("ASSERT", "ASSERT_NOT"):
            inner = self._sequence(argument[1], flags)
            wanted = operator == "ASSERT"
            return lambda at, then: (self._first(inner, at) >= 0) is wanted and then(at)
        raise NotImplementedError(operator)

    def _own(self, operator: str, argument: Any, flags: int) -> re.Pattern[str]:
        """A part of the pattern that takes no choices, as a pattern of Python's."""
        node = (getattr(_constants, operator), argument)
        part: re.Pattern[str] = _compiler.compile(
            _parser.SubPattern(self.tree.state, [node]), flags
        )
        return part

    def accepts(self, operator: str, argument: Any, flags: int) -> Callable[[str], bool]:
        """Whether a character is one of a class."""
        return _Known(self._own(operator, argument, flags)).__getitem__

    def _fixed(self, operator: str, argument: Any, flags: int) -> Fixed | None:
        """None for a part that leaves a choice."""
        behind = operator in ("ASSERT", "ASSERT_NOT") and argument[0] < 0
        if operator == "AT" or behind:
            own = self._own(operator, argument, flags)
            # A lookbehind has a fixed length, so there is nothing to choose.
            width = argument[1].getwidth()[1] if behind else 1

            def place(at: int) -> int:
                self.steps += width
                return at if own.match(self.text, at) else -1

            return place
        if operator not in SINGLE:
            return None
        accepts = self.accepts(operator, argument, flags)

        def character(at: int) -> int:
            self.steps += 1
            return at + 1 if at < self.length and accepts(self.text[at]) else -1

        return character

    def _repeat(self, operator: str, least: int, most: int, body: Tree, flags: int) -> Match:
        if operator == "POSSESSIVE_REPEAT":
            return self._atomic(self._repeat("MAX_REPEAT", least, most, body, flags))
        greedy = operator == "MAX_REPEAT"
        if len(body) == 1 and str(body[0][0]) in SINGLE:
            return self._run(greedy, least, most, self.accepts(str(body[0][0]), body[0][1], flags))
        inner = self._sequence(body, flags)

        def match(at: int, then: Then, count: int = 0, last: int = -1) -> bool:
            self._step()

            def more() -> bool:
                if count >= most or (at == last and count >= least):
                    return False
                return inner(at, lambda next_: match(next_, then, count + 1, at))

            if count < least:
                return more()
            return (more() or then(at)) if greedy else (then(at) or more())

        return match

    def _run(self, greedy: bool, least: int, most: int, accepts: Callable[[str], bool]) -> Match:
        """A repeat of single characters."""

        def match(at: int, then: Then) -> bool:
            longest = least if not greedy else most
            last = at
            text = self.text
            end = min(self.length, at + longest)
            while last < end and accepts(text[last]):
                last += 1
            self._step(1 + last - at)
            while last - at >= least:
                self.steps += 1
                if then(last):
                    return True
                if greedy:
                    last -= 1
                elif last - at < most and last < len(self.text) and accepts(self.text[last]):
                    last += 1
                else:
                    return False
            return False

        return match

    def _branch(self, ways: Sequence[Tree], flags: int) -> Match:
        """Most ways fail at their first character: for each character, those are known that do
        not, with the steps of those before them."""
        matches = [self._sequence(way, flags) for way in ways]
        firsts = [
            self.accepts(str(way[0][0]), way[0][1], flags)
            if way and str(way[0][0]) in SINGLE
            else None
            for way in ways
        ]
        known: dict[str, tuple[list[tuple[int, Match]], int]] = {}

        def open_to(character: str) -> tuple[list[tuple[int, Match]], int]:
            left, steps = [], 0
            for first, way in zip(firsts, matches, strict=True):
                if first is None or (character and first(character)):
                    left.append((steps + 1, way))
                    steps = 0
                else:
                    steps += 2  # the choice, and the character that does not fit
            known[character] = left, steps
            return left, steps

        def match(at: int, then: Then) -> bool:
            character = self.text[at] if at < self.length else ""
            left, rest = known.get(character) or open_to(character)
            for steps, way in left:
                self.steps += steps
                if way(at, then):
                    return True
            self.steps += rest
            return False

        return match

    def _group(self, group: int | None, inner: Match) -> Match:
        if group is None:
            return inner

        def match(at: int, then: Then) -> bool:
            before = self.groups.get(group)

            def ended(end: int) -> bool:
                self.groups[group] = (at, end)
                return then(end)

            if inner(at, ended):
                return True
            if before is None:
                self.groups.pop(group, None)
            else:
                self.groups[group] = before
            return False

        return match

    def _reference(self, group: int) -> Match:
        def match(at: int, then: Then) -> bool:
            self.steps += 1
            if group not in self.groups:
                return False
            start, end = self.groups[group]
            self.steps += end - start
            word = self.text[start:end]
            return self.text.startswith(word, at) and then(at + len(word))

        return match

    def _first(self, inner: Match, at: int) -> int:
        """Return the end of the first way through a part, or -1."""
        ends: list[int] = []

        def ended(end: int) -> bool:
            ends.append(end)
            return True

        return ends[0] if inner(at, ended) else -1

    def _atomic(self, inner: Match) -> Match:
        def match(at: int, then: Then) -> bool:
            end = self._first(inner, at)
            return end >= 0 and then(end)

        return match


def _joined(fixed: list[Fixed], last: Match | None) -> Match:
    """Parts without a choice, and what follows them."""

    def match(at: int, then: Then) -> bool:
        for part in fixed:
            at = part(at)
            if at < 0:
                return False
        return then(at) if last is None else last(at, then)

    return match


def _before(first: Match, last: Match | None) -> Match:
    if last is None:
        return first
    return lambda at, then: first(at, lambda next_: last(next_, then))


def _inner(operator: str, argument: Any) -> list[Tree]:
    """The trees in a node."""
    if operator in REPEATS:
        return [argument[2]]
    if operator == "BRANCH":
        return list(argument[1])
    if operator == "SUBPATTERN":
        return [argument[3]]
    if operator == "ATOMIC_GROUP":
        return [argument]
    return [argument[1]] if operator in ("ASSERT", "ASSERT_NOT") else []


def _singles(counter: Counter, tree: Tree) -> Iterator[tuple[str, Any]]:
    for operator, argument in tree:
        if str(operator) in SINGLE:
            yield str(operator), argument
        for part in _inner(str(operator), argument):
            yield from _singles(counter, part)


def alphabet(counter: Counter, tree: Tree) -> str:
    """One character for each set of classes that it belongs to: all others behave like one."""
    nodes = list(_singles(counter, tree))
    literals = [chr(argument) for operator, argument in nodes if operator == "LITERAL"]
    tests = [counter.accepts(*node, counter.flags) for node in nodes]
    kinds: dict[tuple[bool, ...], str] = {}
    for character in (*_COMMON, *literals):
        kinds.setdefault(tuple(test(character) for test in tests), character)
    return "".join(character for kind, character in kinds.items() if any(kind))


def example(counter: Counter, tree: Tree, way: int = 0) -> str:
    """A short text that fits a tree, or nearly; `way` chooses among alternatives."""
    text = ""
    for operator_, argument in tree:
        operator = str(operator_)
        if operator in SINGLE:
            accepts = counter.accepts(operator, argument, counter.flags)
            literal = chr(argument) if operator == "LITERAL" else ""
            text += literal or next(filter(accepts, _COMMON + "".join(map(chr, range(256)))), "")
        elif operator in REPEATS:
            text += example(counter, argument[2], way) * max(1, argument[0])
        elif operator == "BRANCH":
            text += example(counter, argument[1][way % len(argument[1])], way)
        elif operator in ("SUBPATTERN", "ATOMIC_GROUP"):
            text += example(counter, _inner(operator, argument)[0], way)
    return text


def _pumps(counter: Counter, tree: Tree, prefix: str = "") -> Iterator[tuple[str, Tree]]:
    """Every repeat's body, and a text that leads to it."""
    for operator_, argument in tree:
        operator = str(operator_)
        if operator in REPEATS and argument[1] > 1:
            yield prefix, argument[2]
        for part in _inner(operator, argument):
            yield from _pumps(counter, part, prefix)
        prefix += example(counter, [(operator_, argument)])


def attacks(counter: Counter) -> Iterator[tuple[str, str, str]]:
    """A beginning, the text to repeat after it, and an end."""
    seen: set[tuple[str, str]] = set()
    whole = alphabet(counter, counter.tree)
    for prefix, body in _pumps(counter, counter.tree):
        bodies = {example(counter, body, way) for way in range(8)} | set(alphabet(counter, body))
        for one in sorted(bodies):
            seen |= {(prefix, one), ("", prefix + one), ("", one)}
    if len(whole) <= 4 * _MOST_PAIRED:
        seen |= {("", one) for one in whole}
    pairs = itertools.product(whole[:_MOST_PAIRED], repeat=2)
    seen |= {("", one + other) for one, other in pairs if one != other}
    for prefix, body_text in sorted(seen):
        if body_text:
            yield from ((prefix, body_text, tail) for tail in _TAILS)
