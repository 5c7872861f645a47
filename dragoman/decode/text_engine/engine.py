"""Asks an engine for translations until they keep their promises, or no question is left."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from dragoman.decode.text_engine import dialects
from dragoman.decode.text_engine.answers import Answers
from dragoman.decode.text_engine.checks import EngineSegment, Fault, faults
from dragoman.decode.text_engine.client import CHARACTERS, EngineClient, EngineError
from dragoman.decode.text_engine.dialects import Question
from dragoman.decode.text_engine.forms import PLAIN, read, written
from dragoman.decode.text_engine.settings import EngineSettings
from dragoman.text.glossary import NO_TERMS, Glossary
from dragoman.text.marks import MARK, MOST_MARKS, are_balanced, number_of, single
from dragoman.text.numbers import rewritten
from dragoman.text.segments import split_sentences
from dragoman.text.verbatim import verbatim_spans

# Words such as X47 and A380 are kept, too.
_CODE_WORD = re.compile(r"(?<!\w)[A-Z]{1,4}\d{2,}(?!\w)")
_NUMBER = re.compile(r"(?<![\w.,])\d(?:[\d.,]*\d)?(?!\w)")
# Questions about a whole text: in a batch, with its faults named, and protected by more marks.
_BATCH, _NAMED, _PROTECTED = range(3)


class _EngineCall(NamedTuple):
    segments: list[EngineSegment]
    asked: list[EngineSegment]  # the same, or with more marks
    form: str
    question: Question


class TextEngine:
    """Translates segments with one engine. `found` counts the faults of first answers by kind."""

    def __init__(self, settings: EngineSettings):
        self.settings = settings
        self.dialect = settings.resolved()
        self.client = EngineClient(settings, self.dialect)
        self._answers = Answers(settings.answers)
        # For each form of marks, how many were sent and how many came back.
        self._sent: Counter[str] = Counter()
        self._kept: Counter[str] = Counter()
        self.found: Counter[str] = Counter()
        self.texts = self.broken = self.marked = 0

    @property
    def name(self) -> str:
        return self.settings.name

    def translate(
        self, segments: Sequence[EngineSegment], pause: Callable[[], None] = lambda: None
    ) -> None:
        """Fill `answer` of each segment that the engine translates with all promises kept."""
        self.texts += len(segments)
        pending = []
        for segment in segments:
            segment.answer = self._answers.find(*self._content(segment))
            if segment.answer is None:
                pending.append(segment)
        self._ask_again_and_again(pending, (_BATCH, _NAMED, _PROTECTED), pause)
        self._ask_by_sentence([one for one in pending if one.answer is None], pause)
        for segment in pending:
            self.found.update({fault.kind for _, some in segment.said[:1] for fault in some})
            self.broken += bool(segment.said)

    def forecast(self, texts: int, characters: int) -> str:
        """Say what a job is going to ask for, before it does."""
        settings, usage = self.settings, self.client.usage
        calls = -(-texts // self._batch)
        # Both sides of the text, and an instruction in every call.
        tokens = int(2 * characters / CHARACTERS) + 100 * calls
        budget = [
            f"{most - used:,} {what} are left"
            for most, used, what in (
                (settings.most_calls, usage.calls, "calls"),
                (settings.most_tokens, usage.tokens, "tokens"),
            )
            if most
        ]
        return (
            f"{self.name}: {texts:,} texts, about {calls:,} calls and {tokens:,} "
            f"tokens{self._cost(tokens)}{''.join(f'; {one}' for one in budget)}"
        )

    @property
    def summary(self) -> str:
        """One line on what was asked for, and what came of it."""
        usage = self.client.usage
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in self.found.most_common())
        return (
            f"{self.name}: {self.texts:,} texts, {usage.calls:,} calls ({usage.retries:,} of them "
            f"repeated), {usage.tokens:,} tokens{self._cost(usage.tokens)}; {self.broken:,} texts "
            f"came back broken{f' ({kinds})' if kinds else ''}, {self.marked:,} are marked"
        )

    def _cost(self, tokens: int) -> str:
        price = self.settings.price
        return f" (price {tokens / 1e6 * price:,.4f})" if price else ""

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        # One pool for all callers, so that `concurrency` holds for a whole service.
        return ThreadPoolExecutor(self.settings.concurrency, thread_name_prefix="text-engine")

    @property
    def _batch(self) -> int:
        return max(1, self.settings.batch or self.dialect.batch)

    def _content(self, segment: EngineSegment) -> tuple[object, ...]:
        """Return all that an answer depends on, but the address."""
        terms = [(demand.source, demand.targets) for demand in segment.demands]
        languages = segment.source, segment.to
        asked = self.settings.model, self.dialect.name, self.settings.style, segment.context
        return (*asked, *languages, terms, segment.text, sorted(segment.kept.items()))

    def _ask_again_and_again(
        self, pending: list[EngineSegment], ways: Sequence[int], pause: Callable[[], None]
    ) -> None:
        for way in ways:
            pause()
            calls = self._calls(pending, way)
            futures = [self._threads.submit(self._answer, call) for call in calls]
            try:
                for call, future in zip(calls, futures, strict=True):
                    rows = zip(call.segments, call.asked, future.result(), strict=True)
                    for segment, asked, said in rows:
                        self._judge(segment, asked, said, call.form)
            finally:
                # If a call or the user ends the work, what still waits is not asked.
                for future in futures:
                    future.cancel()
            pending = [segment for segment in pending if segment.answer is None]

    def _calls(self, pending: Sequence[EngineSegment], way: int) -> list[_EngineCall]:
        calls = []
        # Texts of one call share languages and context.
        groups: dict[object, list[EngineSegment]] = {}
        for segment in pending:
            groups.setdefault((segment.source, segment.to, segment.context), []).append(segment)
        size = self._batch if way == _BATCH else 1
        for group in groups.values():
            for first in range(0, len(group), size):
                calls.append(self._call(group[first : first + size], way))
        return [call for call in calls if call is not None]

    def _call(self, segments: list[EngineSegment], way: int) -> _EngineCall | None:
        """Return a request for segments; None if it is no new question."""
        asked = [_protected(one) for one in segments] if way == _PROTECTED else segments
        form = self._form(asked)
        texts = [written(one.text, one.kept, form, self.dialect.escape) for one in asked]
        demands = [demand for one in asked for demand in one.demands]
        question = Question(
            tuple(texts),
            asked[0].source,
            asked[0].to,
            tuple(dict.fromkeys((demand.source, demand.spellings[0]) for demand in demands)),
            tuple(dict.fromkeys(entry for one in asked for entry in one.entries)),
            asked[0].context,
            self.settings.style,
            " ".join(fault.words for _, some in segments[0].said[-1:] for fault in some),
            any(_shows_marks(one, form) for one in asked),
            form,
        )
        if way != _BATCH:
            # A dialect that takes no instruction would get the same question again.
            (segment,) = segments
            body = str(self._body(question))
            if body in segment.asked:
                return None
            segment.asked.add(body)
        elif len(segments) == 1:
            segments[0].asked.add(str(self._body(question)))
        return _EngineCall(segments, asked, form, question)

    def _body(self, question: Question) -> dict[str, object]:
        return dialects.body(self.dialect, self.settings.model, question, self.client.key)

    def _form(self, segments: Sequence[EngineSegment]) -> str:
        """Return the form whose marks came through best; one that failed here comes last."""
        failed = {form for one in segments for form in one.failed_forms}

        def rank(form: str) -> tuple[bool, float]:
            return form in failed, -(self._kept[form] + 1) / (self._sent[form] + 1)

        return min(self.dialect.forms, key=rank)  # the first of equals

    def _answer(self, call: _EngineCall) -> list[str | EngineError | None]:
        try:
            data = self.client.post(self._body(call.question))
        except EngineError as error:
            if not self.client.usage.answered:
                raise  # nothing has ever come from there: the user must know
            return [error] * len(call.segments)
        if dialects.was_cut(self.dialect, data):
            return [EngineError("It was cut off.")] * len(call.segments)
        found = dialects.answers(self.dialect, data, len(call.segments))
        if found == [None]:
            return [EngineError("There was no translation in the answer.")]
        return [*found]

    def _judge(
        self,
        segment: EngineSegment,
        asked: EngineSegment,
        said: str | EngineError | None,
        form: str,
    ) -> None:
        """Accept an answer, or note what it breaks."""
        if not isinstance(said, str):
            words = str(said) if said else "The translation of one part was missing."
            segment.said.append(("", [Fault("error" if said else "lines", words)]))
            return
        answer = read(said.strip(), asked.text, asked.kept, form, self.dialect.escape)
        marks = Counter(MARK.findall(asked.text))
        came = Counter(MARK.findall(answer))
        self._sent[form] += marks.total()
        self._kept[form] += (marks & came).total()
        if marks != came:
            segment.failed_forms.append(form)
        wrong = faults(asked, answer)
        own = {*MARK.findall(segment.text)}
        answer = MARK.sub(lambda mark: mark[0] if mark[0] in own else asked.kept[mark[0]], answer)
        # Words may have to change places. An engine that insists on an order is believed, but not
        # without a mark: nothing in one text tells a needed order from a swap.
        kinds = [fault.kind for fault in wrong]
        insists = any([fault.kind for fault in some] == kinds for _, some in segment.said)
        if wrong and not (kinds == ["order"] and insists):
            segment.said.append((answer, wrong))
            return
        self._accept(segment, answer, wrong)

    def _accept(self, segment: EngineSegment, answer: str, doubts: list[Fault]) -> None:
        segment.answer, segment.doubts = answer, doubts
        if not doubts:
            self._answers.keep(answer, *self._content(segment))

    def _ask_by_sentence(self, pending: list[EngineSegment], pause: Callable[[], None]) -> None:
        """Ask for the sentences of texts alone, and join what comes back."""
        split: list[tuple[EngineSegment, list[EngineSegment], list[str]]] = []
        for segment in pending:
            texts, gaps = split_sentences(segment.text, segment.source)
            if len(texts) > 1 and all(map(are_balanced, texts)):
                split.append((segment, [_sentence(segment, text) for text in texts], gaps))
        sentences = [one for _, own, _ in split for one in own]
        self._ask_again_and_again(sentences, (_NAMED, _PROTECTED), pause)
        for segment, own, gaps in split:
            answers = [one.answer for one in own]
            joined = "".join(
                f"{answer}{gap}" for answer, gap in zip(answers, [*gaps, ""], strict=True)
            )
            if None not in answers and not (wrong := faults(segment, joined)):
                self._accept(segment, joined, [doubt for one in own for doubt in one.doubts])
            elif None not in answers:
                segment.said.append((joined, wrong))


def segment_of(
    text: str, source: str, to: str, glossary: Glossary = NO_TERMS, context: str = ""
) -> EngineSegment:
    """Return a text with marks for what must come through unchanged, and with its terms."""
    spans = [(start, end, text[start:end]) for start, end in verbatim_spans(text)]
    spans += [(*match.span(), match[0]) for match in _CODE_WORD.finditer(text)]
    segment = _marked(EngineSegment(text, source, to, context=context), spans)
    # Not in the whole text: the name of a file holds no term.
    demands = glossary.demands(segment.text, source, to)
    if not demands:
        return segment
    targets = {demand.targets for demand in demands}
    entries = tuple(
        (term.source, "|".join(term.targets)) for term in glossary.terms if term.targets in targets
    )
    return replace(segment, demands=demands, entries=entries)


def _protected(segment: EngineSegment) -> EngineSegment:
    """Put marks in place of the terms and numbers that an answer lacked."""
    kinds = {fault.kind for _, wrong in segment.said for fault in wrong}
    text, spans, demands = segment.text, [], segment.demands
    if "term" in kinds:
        for demand in demands:
            if (start := text.find(demand.source)) >= 0:
                spans.append((start, start + len(demand.source), demand.spellings[0]))
    if "number" in kinds:
        for match in _NUMBER.finditer(text):
            spans.append((*match.span(), rewritten(match[0], segment.source, segment.to)))
    return _marked(segment, spans)


def _marked(segment: EngineSegment, spans: Sequence[tuple[int, int, str]]) -> EngineSegment:
    """Put marks in place of spans, with the words that they stand for."""
    number = max(map(number_of, MARK.findall(segment.text)), default=0)
    pieces, at, kept = [], 0, dict(segment.kept)
    for start, end, word in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start < at or number + 1 >= MOST_MARKS:
            continue
        number += 1
        pieces += [segment.text[at:start], single(number)]
        kept[single(number)] = word
        at = end
    return replace(segment, text="".join([*pieces, segment.text[at:]]), kept=kept)


def _sentence(segment: EngineSegment, text: str) -> EngineSegment:
    plain = segment.unmarked(text)
    own = tuple(demand for demand in segment.demands if demand.source in plain)
    return EngineSegment(
        text, segment.source, segment.to, segment.kept, own, segment.entries, segment.context
    )


def _shows_marks(segment: EngineSegment, form: str) -> bool:
    return segment.has_codes or (form != PLAIN and bool(MARK.search(segment.text)))
