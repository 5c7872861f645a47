"""From text to text: the one pipeline that everything that translates goes through.

Lines that were translated before, or that are in another language, are left out. The others are
split into parts that the model can take. Each part is searched for, what breaks a promise is
mended, and the parts of a line are joined again. An empty line stays empty. What stands several
times among the lines is translated once.

It is a life (`query.py`): it yields queries and is sent hypotheses. The command line, Python and
bulk jobs drive it from `Translator`, documents from there too, and the service from its queue.
"""

from collections.abc import Sequence
from dataclasses import replace

from dragoman.config import DecodingConfig
from dragoman.decode.promises.promise import kept
from dragoman.decode.promises.table import PROMISES
from dragoman.decode.proposer import Proposer
from dragoman.decode.query import BudgetError, Life, together
from dragoman.decode.request import Request
from dragoman.decode.splitting import Part, Splitter
from dragoman.decode.translation import Candidate, Translation, count_words, joined
from dragoman.engine.protocol import Engine
from dragoman.text.codec import Codec
from dragoman.text.languages import reason_to_keep
from dragoman.text.translation_memory import EXACT, Match


class Pipeline:
    """`decoding`: the model's own settings; `engine`: asked for what it can do, never to do it."""

    def __init__(self, engine: Engine, codec: Codec, decoding: DecodingConfig):
        self._engine, self._codec = engine, codec
        self.splitter = Splitter(codec, decoding, engine.max_length, engine.allowed_tokens)
        self.proposer = Proposer(codec, decoding, engine.has_attention)
        self._promises = [make(self.splitter, self.proposer) for make in PROMISES.values()]

    def translate(
        self, lines: Sequence[str], request: Request, first: int = 0
    ) -> Life[list[Translation]]:
        """A translation of each line; `first`: lines that came before these."""
        memory = request.memory
        matches = [memory.find(text) if memory and text.strip() else None for text in lines]
        finished: dict[int, Translation] = {}  # by line: what the model is not asked for
        for row, (text, match) in enumerate(zip(lines, matches, strict=True)):
            if match and match.similarity == EXACT:
                finished[row] = Translation(text, (Candidate(match.target, 0.0),), match=match)
            elif note := self._reason_to_keep(text, request):
                # A translation is one line, and so is what takes its place.
                same = " ".join(text.splitlines()).replace("\t", " ")
                finished[row] = Translation(text, (Candidate(same, 0.0),), note, match)
        # To the model, a line that stays as it is looks empty.
        read = ["" if row in finished else text for row, text in enumerate(lines)]
        parts = self.splitter(read, request, first)
        candidates = yield from self._each_once(parts, request)
        of_line: list[list[tuple[Part, tuple[Candidate, ...]]]] = [[] for _ in lines]
        for part, of_part in zip(parts, candidates, strict=True):
            of_line[part.line - first].append((part, of_part))
        return [
            finished[row] if row in finished else self._joined(text, of_line[row], matches[row])
            for row, text in enumerate(lines)
        ]

    def sentence(self, part: Part, request: Request) -> Life[tuple[Candidate, ...]]:
        """The candidates of a part, best first, with all promises kept that can be paid for."""
        if request.sampling or request.observer:
            return (yield from self.proposer.propose(part, request))
        candidates = yield from self.proposer.distinct(part, request)
        for promise in self._promises:
            try:
                candidates = yield from kept(promise, part, candidates, request)
            except BudgetError:
                continue
        return tuple(replace(one, looked=None) if part.demands else one for one in candidates)

    def linking(self, request: Request) -> Request:
        """The request with links between words, if the model can tell them."""
        return replace(request, alignments=self._engine.has_attention)

    def least_work(self, lines: Sequence[str], request: Request) -> int:
        """A lower bound of the work of these lines' first searches, without splitting them."""
        source = request.source_language or next(iter(self._codec.languages.sources), "")
        to = request.to or self._codec.languages.default_target(request.source_language)
        texts = [line for line in lines if line.strip()]
        pieces = sum(map(len, self._codec.encode_source(texts, to, source)))
        ratio = min(1.0, self.proposer.settings(request).max_length_ratio)
        return int(pieces * (1 + self.proposer.width(request) * ratio))

    def _reason_to_keep(self, text: str, request: Request) -> str:
        """Why a text is left as it is, if its language was to be detected and is not for us."""
        if request.source_language or request.observer or not text.strip():
            return ""
        languages = self._codec.languages
        return reason_to_keep(text, languages.sources, self.splitter.target(text, request))

    def _each_once(
        self, parts: Sequence[Part], request: Request
    ) -> Life[list[tuple[Candidate, ...]]]:
        """The candidates of each part; equal parts share theirs.

        Not where they are drawn, since equal parts get different draws, nor where somebody looks
        on.
        """
        if request.sampling or request.observer:
            return (yield from together([self.sentence(part, request) for part in parts]))
        keys = [_key(part, request) for part in parts]
        unique = dict(zip(keys, parts, strict=True))
        candidates = yield from together([self.sentence(part, request) for part in unique.values()])
        of_key = dict(zip(unique, candidates, strict=True))
        return [of_key[key] for key in keys]

    def _joined(
        self, text: str, parts: Sequence[tuple[Part, tuple[Candidate, ...]]], match: Match | None
    ) -> Translation:
        """A line's translation from the candidates of its parts."""
        words: list[int] = []
        if len(parts) > 1:  # one part is the whole line: nothing is shifted by words before it
            pieces = self._codec.source.pieces
            words = [
                count_words([pieces[i] for i in part.ids]) + len(part.left_out) for part, _ in parts
            ]
        candidates = joined([of_part for _, of_part in parts], words)
        return Translation(text, candidates, match=match, adapted=self._is_adapted(parts))

    def _is_adapted(self, parts: Sequence[tuple[Part, tuple[Candidate, ...]]]) -> bool:
        first, *others = self._engine.variants
        return bool(others) and any(self._engine.route(part.ids) is not first for part, _ in parts)


def _key(part: Part, request: Request) -> object:
    """What the candidates of a part depend on.

    The text too: its digits are looked at, and two ways to write them may have the same ids. And
    the words that are left out: alignments count them.
    """
    must_begin = bool(request.prefix) and part.number == 0  # with the prefix
    text = part.text.strip()
    return tuple(part.ids), part.to, text, must_begin, part.demands, part.left_out
