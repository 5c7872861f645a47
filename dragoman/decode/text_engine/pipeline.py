"""The pipeline around a text engine: the same calls as `decode/pipeline.py`, for all its callers.

The package's model stands behind the engine. It translates what the engine could not, and reads
every translation: that gives confidences, and links between words for the tags of documents.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dragoman.decode.pipeline import Pipeline
from dragoman.decode.query import BudgetError, Query, Search, SearchOptions
from dragoman.decode.request import Request
from dragoman.decode.splitting import Part
from dragoman.decode.text_engine.checks import EngineSegment, faults
from dragoman.decode.text_engine.engine import TextEngine, segment_of
from dragoman.decode.text_engine.forms import PLAIN, read
from dragoman.decode.translation import Candidate, Translation
from dragoman.text.codec import Codec
from dragoman.text.detect import detect
from dragoman.text.languages import Languages, reason_to_keep
from dragoman.text.marks import MARK
from dragoman.text.translation_memory import EXACT

PACKAGE = "the package's model"


class CheckedTranslation(Translation):
    """A translation by a text engine, or by the package's model in its place.

    `broken` says why it is marked; an empty text if it keeps all promises.
    """

    broken: str = ""

    @property
    def warning(self) -> str:
        return self.broken or super().warning


class TextPipeline(Pipeline):
    """Translates lines with a text engine, and has the package's pipeline do the rest."""

    def __init__(self, package: Pipeline, codec: Codec, languages: Languages, engine: TextEngine):
        self._package, self._codec, self.languages, self.engine = package, codec, languages, engine

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return what is not defined here from the package's pipeline, such as its splitter."""
            return getattr(self.__dict__["_package"], name)

    @property
    def takes_marks(self) -> bool:
        return self.engine.dialect.tags

    def translate(
        self, lines: Sequence[str], request: Request, search: Search, first: int = 0
    ) -> list[Translation]:
        found: list[Translation | EngineSegment] = [
            self._segment(lines, row, request) for row in range(len(lines))
        ]
        # Equal texts are asked for once.
        unique = {one.content: one for one in found if isinstance(one, EngineSegment)}
        segments = [*unique.values()]
        sendable = [one for one in segments if self._is_for_engine(one)]
        request.outside(lambda: self.engine.translate(sendable, request.pause))
        package = self._by_package(segments, request, search)
        chosen = [self._chosen(one, package.get(one.content)) for one in segments]
        read = self._read(segments, [text for text, _, _ in chosen], request, search)
        made = {}
        for segment, (text, by, why), candidate in zip(segments, chosen, read, strict=True):
            source = segment.unmarked(segment.text)
            one = CheckedTranslation(source, (replace(candidate, text=text),), by=by)
            one.broken = why
            self.engine.marked += bool(why)
            made[segment.content] = one
        return [made[one.content] if isinstance(one, EngineSegment) else one for one in found]

    def _segment(
        self, lines: Sequence[str], row: int, request: Request
    ) -> EngineSegment | Translation:
        """Return a line as a segment, or its translation if it needs no engine."""
        text, memory = lines[row], request.memory
        match = memory.find(text) if memory and text.strip() else None
        if match and match.similarity == EXACT:
            return Translation(text, (Candidate(match.target, 0.0),), match=match)
        sources = self.languages.sources
        source = request.source_language or detect(text, sources)[0].language
        to = request.to or self.languages.default_target(source)
        note = ""
        if not request.source_language:
            note = reason_to_keep(MARK.sub(" ", text), sources, to)
        if note or not text.strip():
            return Translation(text, (Candidate(text, 0.0),), note, match)
        before = lines[max(0, row - self.engine.settings.context) : row]
        context = " ".join(MARK.sub("", line) for line in before)
        return segment_of(text, source, to, request.glossary, context)

    def _is_for_engine(self, segment: EngineSegment) -> bool:
        """Tell whether to ask the engine: it has letters, and the dialect can keep its codes."""
        has_letters = any(map(str.isalpha, MARK.sub("", segment.text)))
        return has_letters and (self.engine.dialect.tags or not segment.has_codes)

    def _by_package(
        self, segments: Sequence[EngineSegment], request: Request, search: Search
    ) -> dict[object, str]:
        """Return the package's translation of each text that the engine could not do.

        A text with codes is for the caller to try without them.
        """
        groups: dict[tuple[str, str], list[EngineSegment]] = {}
        for one in segments:
            if one.answer is None and not one.has_codes and self._speaks(one):
                groups.setdefault((one.source, one.to), []).append(one)
        package: dict[object, str] = {}
        for (source, to), some in groups.items():
            own = replace(request, source_language=source, to=to, memory=None, nbest=1)
            texts = [one.unmarked(one.text) for one in some]
            translations = self._package.translate(texts, own, search)
            package.update(
                (one.content, str(found)) for one, found in zip(some, translations, strict=True)
            )
        return package

    def _chosen(self, segment: EngineSegment, package: str | None) -> tuple[str, str, str]:
        """Return the best translation of a segment, who made it, and why it is marked."""
        engine, label = self.engine.name, self.engine.settings.label
        if segment.answer is not None:
            why = " ".join(fault.words for fault in segment.doubts).rstrip(".")
            return segment.restored(segment.answer), engine, why
        if segment.has_codes:
            return "", engine, ""
        if not self._is_for_engine(segment):
            return package or segment.unmarked(segment.text), PACKAGE, ""
        # The first answer with the fewest faults wins, and the engine's come first.
        offers = [(text, engine, wrong) for text, wrong in segment.said if text]
        if package is not None:
            marked = read(package, segment.text, segment.kept, PLAIN)
            offers.append((marked, PACKAGE, faults(segment, marked)))
        broken = " ".join(fault.words for fault in segment.said[-1][1])
        if not offers:
            return segment.unmarked(segment.text), "", f"{label} failed: {broken}".rstrip(".")
        text, by, wrong = min(offers, key=lambda offer: len(offer[2]))
        left = " ".join(fault.words for fault in wrong)
        why = f"{label} failed: {left}"
        if by == PACKAGE:
            why = f"{label} failed ({broken}), so {by} translated it. {left}"
        return segment.unmarked(text), by, why.strip().rstrip(".")

    def _read(
        self,
        segments: Sequence[EngineSegment],
        texts: Sequence[str],
        request: Request,
        search: Search,
    ) -> list[Candidate]:
        """Have the package's model read the translations, for their confidence and their links."""
        read = [Candidate(text, 0.0) for text in texts]
        rows, parts, queries = [], [], []
        longest = self.splitter.longest(request)
        settings = self.proposer.settings(request)
        options = SearchOptions(
            settings, attention=request.alignments and self.proposer.links_words
        )
        for row, (segment, text) in enumerate(zip(segments, texts, strict=True)):
            target = MARK.sub("", text)
            if not (target.strip() and self._speaks(segment)):
                continue
            source = segment.unmarked(segment.text)
            (ids,) = self._codec.encode_source([source], segment.to, segment.source)
            (out,) = self._codec.encode_target([target])
            if max(len(ids), len(out)) < longest:
                rows.append(row)
                parts.append(Part(row, 0, ids, segment.to, source))
                out = [*self._codec.forced_start(segment.to), *out]
                queries.append(Query(ids, options, outputs=[out]))
        if queries:
            for row, part, found in zip(rows, parts, search(queries), strict=True):
                # A service may have no time left for it.
                if not isinstance(found, BudgetError):
                    read[row] = self.proposer.candidates(part, found, replace(request, nbest=1))[0]
        return read

    def _speaks(self, segment: EngineSegment) -> bool:
        languages = self._codec.languages
        return languages.takes(segment.source, segment.to) and segment.to in languages.targets
