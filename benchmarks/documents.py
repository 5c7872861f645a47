"""Documents on real files and under fire.

python benchmarks/documents.py placeholders --count 10000
python benchmarks/documents.py html --corpora corpora
python benchmarks/documents.py pages FOLDER --corpora corpora
python benchmarks/documents.py tags --corpora corpora
python benchmarks/documents.py marks FOLDER [--count 120] [--pages '{}/*.html'] [--half even]

placeholders: random texts full of codes, through a translator that drops, doubles, moves
and invents words. html: BLEU of sentences with tags in them, tags left out, beside the same
sentences without. pages: the same on real pages, the Debian handbook in five languages (folder
usr/share/doc/debian-handbook/html of Debian's package), whose paragraphs with tags are paired by
their order; also, how well elements enclose what they enclose in the translated book, if they are
placed by the model's attention, by a lexicon (IBM model 1), or by both. tags: how often a tag on
one word ends up on the translation of that word, which a small dictionary knows. marks: on the
pages of the same book, how many elements enclose just what they enclose in the translated book, of
those whose words the translation has; placed as they are, and by attention alone (the stretch of
target words that are linked to the element's words most purely). Even paragraphs are there to be
looked at (--show prints those that are placed differently), odd ones are not. Other books in
several languages: --pages says where the pages are, `{}` standing for the language.
"""

import argparse
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import sacrebleu

import dragoman
from dragoman.decode.request import Request
from dragoman.decode.translator import Translator
from dragoman.documents import inline
from dragoman.documents.document import ReadOptions
from dragoman.documents.inline import SentenceResult
from dragoman.documents.protect import protect_texts
from dragoman.documents.rounds import SentenceRequest, translate_segments
from dragoman.documents.segment import Kind, Segment, codes, same_structure, serialize
from dragoman.documents.translate import sentence_result, sentence_translator
from dragoman.documents.web import read as read_html
from dragoman.text.parallel import read_lines

CODES = [
    "%s", "%d", "%(name)s", "%1$s", "{0}", "{name}", "{}", "{{x}}", "${HOME}", "$t(key)", "v1.2.3",
    '<x id="1"/>', "https://example.org/a?b=c", "ada@example.org", "report.docx", "10.0.0.1",
    "{n, plural, one {# file} other {# files}}",
]  # fmt: skip
WORDS = ["The", "dog", "sleeps", "in", "our", "old", "house.", "Really?", "Yes,", "why", "once"]
# English to German: forms that a translation of the word may have
DICTIONARY = {
    "house": "Haus Hauses Häuser", "dog": "Hund Hundes", "book": "Buch Buches", "car": "Auto Wagen",
    "school": "Schule", "money": "Geld", "friend": "Freund Freundin", "mother": "Mutter",
    "father": "Vater", "today": "heute Heute", "tomorrow": "morgen Morgen", "always": "immer",
    "yesterday": "gestern Gestern", "never": "nie niemals", "letter": "Brief", "city": "Stadt",
    "question": "Frage", "door": "Tür", "window": "Fenster", "train": "Zug", "doctor": "Arzt",
    "Tom": "Tom", "now": "jetzt", "here": "hier Hier", "children": "Kinder Kindern", "cat": "Katze",
    "time": "Zeit", "three": "drei", "year": "Jahr", "very": "sehr", "new": "neu neue neuen neues",
}  # fmt: skip


def marked(draw: random.Random) -> str:
    """Words, codes and nested tags in any order."""
    parts: list[str] = []
    opened: list[str] = []
    for _ in range(draw.randint(1, 16)):
        kind = draw.choice(["word", "word", "code", "open", "close"])
        if kind == "word":
            parts.append(draw.choice(WORDS) + " ")
        elif kind == "code":
            parts.append(draw.choice(CODES) + draw.choice(["", " "]))
        elif kind == "open":
            opened.append(draw.choice(["b", "i", "a"]))
            parts.append(f"<{opened[-1]}>")
        elif opened:
            parts.append(f"</{opened.pop()}>")
    return "".join([*parts, *(f"</{name}>" for name in reversed(opened))])


def placeholders(count: int) -> None:
    draw = random.Random(1)

    def scrambled(text: str) -> SentenceResult:
        words = [word for word in text.split() for _ in range(draw.choice([0, 1, 1, 1, 2]))]
        draw.shuffle(words)
        words += draw.choices(["neu", "%s", "{0}", "<b>", "X47"], k=draw.randrange(3))
        read = max(1, len(text.split()))
        return SentenceResult(
            " ".join(words), tuple((draw.randrange(read), t) for t in range(len(words)))
        )

    wrong = 0
    for _ in range(count):
        text = marked(draw)
        (after,) = translate_segments(
            [(text,)], lambda sentences: [scrambled(sentence.text) for sentence in sentences]
        )
        balanced = re.sub(r"<(/?)[bia]>", r"<\1>", serialize(after)).count("<>") == text.count(
            "</b>"
        ) + text.count("</i>") + text.count("</a>")
        wrong += not (same_structure(protect_texts((text,)), after) and balanced)
    print(f"{count:,} texts, {wrong} with a code lost, gained, altered or in another element")
    sys.exit(bool(wrong))


def html(corpora: Path, count: int) -> None:
    draw = random.Random(1)
    sources = list(read_lines(str(corpora / "flores" / "dev.en.gz")))[:count]
    references = list(read_lines(str(corpora / "flores" / "dev.de.gz")))[:count]
    request = Request(to="de", source_language="en")
    translator = dragoman.load()
    start = time.process_time()
    plain = translator(sources, request)
    between = time.process_time()
    segments = [(tagged(source, draw),) for source in sources]
    found = translate_segments(segments, sentence_translator(translator, request))
    with_tags = [re.sub(r"<[^<>]*>", "", serialize(segment)) for segment in found]
    end = time.process_time()
    bleus = [sacrebleu.corpus_bleu(texts_, [references]).score for texts_ in (plain, with_tags)]
    same = sum(a == b for a, b in zip(plain, with_tags, strict=True))
    print(
        f"{len(sources)} sentences of FLORES dev, en-de: BLEU {bleus[0]:.2f} without tags, "
        f"{bleus[1]:.2f} with; {same} equal; {between - start:.1f} s and {end - between:.1f} s"
    )


def tagged(source: str, draw: random.Random) -> str:
    """Put a link around some words, and often another element inside or next to it."""
    words = source.split()
    start = draw.randrange(len(words))
    end = min(len(words), start + draw.randint(1, 4))
    words[start] = f'<a href="x">{words[start]}'
    words[end - 1] += "</a>"
    if end < len(words):
        words[end] = f"<em>{words[end]}</em>"
    return " ".join(words)


class Paragraph(NamedTuple):
    source: Segment
    reference: Segment


# The names of languages in books.
BOOKS = {
    "de": ("de-DE", "de"), "es": ("es-ES", "es"), "fr": ("fr-FR", "fr"),
    "pt": ("pt-BR", "pt_BR", "pt-br", "pt"),
}  # fmt: skip
ENGLISH = ("en-US", "en")
_LANGUAGE = re.compile(
    rf"(?<=[/.])(?:{'|'.join([*ENGLISH, *(name for names in BOOKS.values() for name in names)])})"
    r"(?=[/.\"])"
)


def translated_pages(folder: Path, pages: str, to: str) -> Iterator[tuple[Path, Path]]:
    """Yield English pages and their translations; `{}` is the language in the pattern."""
    before, after = re.match(r".*?(.?)\{\}(.?)", pages).groups()  # type: ignore[union-attr]
    for english in ENGLISH:
        for page in sorted(folder.glob(pages.format(english))):
            name = str(page.relative_to(folder))
            for code in BOOKS[to]:
                place = name.replace(f"{before}{english}{after}", f"{before}{code}{after}", 1)
                if (other := folder / place).exists():
                    yield page, other
                    break


def paragraphs(folder: Path, to: str, count: int, pages: str = "{}/*.html") -> list[Paragraph]:
    """English paragraphs with elements around words, and their translations, from pages with as
    many segments, each text once; not what has the same text in both."""
    found: dict[str, Paragraph] = {}
    for page, other in translated_pages(folder, pages, to):
        ours, theirs = (
            read_html(path.read_bytes(), ReadOptions()).segments for path in (page, other)
        )
        if len(ours) != len(theirs):
            continue
        for source, reference in zip(ours, theirs, strict=True):
            plain, said = bare(source), bare(reference)
            long_enough = len(plain.split()) > 7 and len(said.split()) > 7
            marked = [sum(c.kind is Kind.OPEN for c in codes(s)) for s in (source, reference)]
            translated = plain.split()[:5] != said.split()[:5]
            if translated and long_enough and marked[0] == marked[1] > 0:
                found.setdefault(plain, Paragraph(source, reference))
    draw = random.Random(1)
    return draw.sample([*found.values()], min(count, len(found)))


def bare(segment: Segment) -> str:
    """Remove tags; the text inside a code's tags is a word of the text."""
    raw = serialize(segment)
    return " ".join(re.sub(r"<[^<>]*>", "", raw).split())


def enclosed(segment: Segment) -> list[tuple[str, Counter[str]]]:
    """The words in each element, sorted by what the element is."""
    found: list[tuple[str, Counter[str]]] = []
    opened: list[int] = []
    for item in segment:
        if isinstance(item, str):
            for number in opened:
                found[number][1].update(re.findall(r"\w+", item.lower()))
        elif item.kind is Kind.OPEN:
            opened.append(len(found))
            found.append((_LANGUAGE.sub("", item.raw), Counter()))
        elif item.kind is Kind.CLOSE and opened:
            opened.pop()
    return sorted(found, key=lambda entry: entry[0])


def lexical_links(
    text: str, said: str, lexicon: dict[tuple[str, str], float], given: dict[int, int]
) -> tuple[tuple[int, int], ...]:
    """Return for each target word the source word that translates it best, if one does; the nearest
    of equal ones. Otherwise the given one, or the word at a similar position."""
    source, target = (
        [re.sub(r"^\W+|\W+$", "", word.lower()) for word in whole.split()] for whole in (text, said)
    )
    links = []
    for t, word in enumerate(target):
        like = t * len(source) / max(1, len(target))
        scores = [
            lexicon.get((other, word), float(other == word and word.isalnum()))
            - 0.0001 * abs(s - like)
            for s, other in enumerate(source)
        ]
        best = max(range(len(source)), key=scores.__getitem__)
        known = scores[best] > 0.01
        links.append((best if known else given.get(t, int(like)), t))
    return tuple(links)


def pages(folder: Path, corpora: Path, count: int, languages: list[str]) -> None:
    from glossary import lexicon

    translator = dragoman.load()
    for to in languages:
        chosen = paragraphs(folder, to, count)
        learned = [
            [
                *first_lines(corpora / "tatoeba" / f"{to}-en" / f"train.{code}.gz", 60_000),
                *first_lines(corpora / "real" / f"europarl.{code}.bz2", 40_000),
            ]
            for code in ("en", to)
        ]
        left, right = learned
        known = lexicon(left, right, least=0.01)
        request = Request(to=to, source_language="en")
        references = [bare(paragraph.reference) for paragraph in chosen]
        plain = [str(said) for said in translator([bare(p.source) for p in chosen], request)]
        without = sacrebleu.corpus_bleu(plain, [references]).score
        print(f"en-{to}, {len(chosen)} paragraphs: BLEU {without:.2f} without tags", flush=True)
        for aligner in ("attention", "lexicon", "both"):
            found = placed(translator, [p.source for p in chosen], request, aligner, known)
            score = sacrebleu.corpus_bleu([bare(segment) for segment in found], [references]).score
            inside = agreement(found, [p.reference for p in chosen])
            print(
                f"   tags placed by {aligner}: BLEU {score:.2f}, F1 of words in elements "
                f"{inside:.1%}",
                flush=True,
            )


def first_lines(path: Path, count: int) -> list[str]:
    return list(islice(read_lines(str(path)), count))


def placed(
    translator: Translator, segments: list[Segment], request: Request, aligner: str, known: dict
) -> list[Segment]:
    """The segments translated, their tags placed by this aligner."""
    linked = replace(request, alignments=True)

    def translate(sentences: list[SentenceRequest]) -> list[SentenceResult]:
        answers = []
        translations = translator([sentence.text for sentence in sentences], linked)
        for sentence, translation in zip(sentences, translations, strict=True):
            links = translation.alignment
            if aligner != "attention":
                given = {t: s for s, t in links} if aligner == "both" else {}
                links = lexical_links(sentence.text, translation, known, given)
            answers.append(SentenceResult(translation.text, links))
        return answers

    return translate_segments(segments, translate)


def agreement(found: list[Segment], references: list[Segment]) -> float:
    """F1 of the words in elements, against those in the same elements of the references."""
    common = said = wanted = 0
    for segment, reference in zip(found, references, strict=True):
        pairs = zip(
            enclosed(protect_texts(segment)), enclosed(protect_texts(reference)), strict=False
        )
        for (raw, ours), (other, theirs) in pairs:
            if raw == other:
                common += (ours & theirs).total()
                said += ours.total()
                wanted += theirs.total()
    return 2 * common / max(1, said + wanted)


def marks(
    folder: Path, pages: str, count: int, languages: list[str], halves: list[str], show: bool
) -> None:
    translator = dragoman.load()
    for to in languages:
        chosen = paragraphs(folder, to, count, pages)
        request = Request(to=to, source_language="en")
        answers: dict = {}
        for half in halves:
            part = chosen[half == "odd" :: 2]
            for way in ("attention alone", "as it is"):
                with attention_alone() if way == "attention alone" else nullcontext():
                    found = by_memory(translator, [p.source for p in part], request, answers)
                right = known = 0
                for segment, paragraph in zip(found, part, strict=True):
                    good, all_ = same_marks(segment, paragraph.reference)
                    right, known = right + good, known + all_
                    if show and way == "as it is" and good < all_:
                        for of_one in (*paragraph, segment):
                            print("   ", " ".join(serialize(of_one).split()))
                        print()
                share = right / max(1, known)
                print(f"en-{to}, {half}, {way}: {right} of {known} ({share:.1%})", flush=True)


@contextmanager
def attention_alone() -> Iterator[None]:
    """Elements are placed by links, and by nothing else."""
    placing = inline._TagPlacer
    changed = ("_unchanged_words", "_without_articles", "_verbatim", "_weight")
    before = {name: getattr(placing, name) for name in changed}
    placing._unchanged_words = lambda self, child: set()  # type: ignore[method-assign]
    placing._without_articles = (  # type: ignore[method-assign]
        lambda self, child, parent, start, end: (start, end)
    )
    placing._verbatim = lambda self, child: None  # type: ignore[method-assign]
    placing._weight = lambda self, word: 1.0  # type: ignore[method-assign]
    try:
        yield
    finally:
        for name, method in before.items():
            setattr(placing, name, method)


def by_memory(
    translator: Translator, segments: list[Segment], request: Request, answers: dict
) -> list[Segment]:
    """Translate segments; sentences that were translated before keep their translations."""

    def translate(sentences: list[SentenceRequest]) -> list[SentenceResult]:
        new = [sentence for sentence in dict.fromkeys(sentences) if sentence not in answers]
        translations = translator([s.text for s in new], replace(request, alignments=True))
        answers.update(zip(new, map(sentence_result, translations), strict=True))
        return [answers[sentence] for sentence in sentences]

    return translate_segments(segments, translate)


def same_marks(segment: Segment, reference: Segment) -> tuple[int, int]:
    """Elements that enclose the words that they enclose in the reference, and elements whose words
    in the reference the translation has at all."""
    has = Counter(re.findall(r"\w+", bare(segment).lower()))
    right = known = 0
    ours = enclosed(protect_texts(segment))
    for wanted in enclosed(protect_texts(reference)):
        if wanted[1] and wanted[1] <= has:
            known += 1
            if wanted in ours:  # of elements that are written alike, any: they may change places
                right += 1
                ours.remove(wanted)
    return right, known


def tags(corpora: Path, count: int) -> None:
    sources = list(read_lines(str(corpora / "tatoeba" / "de-en" / "test.en.gz")))
    cases = []
    for source in sources:
        for word in DICTIONARY:
            if len(re.findall(rf"\b{word}\b", source)) == 1 and len(source.split()) > 3:
                cases.append((source, word))
    cases = cases[:: max(1, len(cases) // count)][:count]
    segments = [(re.sub(rf"\b{word}\b", f"<b>{word}</b>", source),) for source, word in cases]
    request = Request(to="de", source_language="en")
    found = translate_segments(segments, sentence_translator(dragoman.load(), request))
    right = known = 0
    for (_, word), segment in zip(cases, found, strict=True):
        text = serialize(segment)
        forms = "|".join(DICTIONARY[word].split())
        if len(re.findall(rf"\b(?:{forms})\b", text)) != 1:
            continue
        known += 1
        right += bool(re.search(rf"<b>(?:{forms})</b>", text))
    print(f"{known} tags on words with a known translation, {right} on it ({right / known:.1%})")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["placeholders", "html", "pages", "tags", "marks"])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--corpora", type=Path, default=Path("corpora"))
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--pages", default="{}/*.html", help="Of marks.")
    parser.add_argument("--half", choices=["even", "odd"], help="Of marks.")
    parser.add_argument("--show", action="store_true", help="Of marks.")
    parser.add_argument("--to", nargs="+", choices=BOOKS, default=[*BOOKS], help="Of pages.")
    arguments = parser.parse_args()
    match arguments.what:
        case "placeholders":
            placeholders(arguments.count)
        case "html":
            html(arguments.corpora, arguments.count)
        case "pages":
            pages(arguments.folders[0], arguments.corpora, arguments.count, arguments.to)
        case "marks":
            halves = [arguments.half] if arguments.half else ["even", "odd"]
            marks(arguments.folders[0], arguments.pages, arguments.count, arguments.to, halves,
                  arguments.show)  # fmt: skip
        case "tags":
            tags(arguments.corpora, arguments.count)


if __name__ == "__main__":
    main()
