"""Break the code on purpose, one rule at a time, and see that a test notices.

    python tests/mutants/run.py              every mutant
    python tests/mutants/run.py patience     those whose description has this word

Each mutant is applied to a copy of the package, and the tests named with it run against that copy.
A mutant that passes them all has survived: then a test is missing, and the exit status is 1.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 300  # a broken search may never end: that is noticed too

RULES = "tests/unit/decode/search/test_rules_of_search.py"
MASKED = "tests/unit/decode/test_masked_parts.py"
MASK_TESTS = "tests/unit/text/test_masks.py"
LOOPS = f"{RULES}::test_search_finds_what_plain_loops_find_and_computes_no_more"
STOPPING = f"{RULES}::test_stopping_early_changes_no_answer"
WIDE = f"{RULES}::test_a_wide_and_patient_beam_finds_the_best_of_all_hypotheses"
PREFIX = f"{RULES}::test_a_forced_prefix_is_said_whatever_the_rules_and_the_rest_follows_them"
OBSERVER = f"{RULES}::test_the_observer_sees_the_tree_that_leads_to_the_results"
TORCH = "tests/unit/decode/search/test_search.py"
STEPS = "tests/agree/test_decoding.py::test_rows_may_be_reordered_repeated_and_left_out"
EXHAUSTIVE = "tests/agree/test_decoding.py::test_a_wide_beam_is_exhaustive_search"
GRID = "tests/unit/engine/test_kv_slots.py"
DEVICE = "tests/agree/test_device_search.py"
KEEPING_NAMES = "tests/unit/decode/repairs/test_keeping_names.py"
UNLISTED = "tests/unit/decode/test_unlisted_names.py"
PLACING = "tests/unit/documents/test_document_segments.py"
BATCHER = "tests/unit/serve/test_batcher.py"
CACHE = "tests/unit/serve/test_cache.py"
OPTIMISER = "tests/unit/training/test_optimizer.py"
FORKS = "tests/unit/decode/test_processes.py"
FORMS = "tests/unit/text/test_forms.py"
VERBS = "tests/unit/text/test_verbs.py"
TERM_PLACES = "tests/unit/decode/repairs/test_placing.py"
GLOSSARIES = "tests/unit/text/test_glossary.py"

PIPELINE = "dragoman/decode/pipeline.py"
PROPOSER = "dragoman/decode/proposer.py"
MASKS_RULES = "dragoman/text/masks.py"
SEARCH = "dragoman/decode/search/beam.py"
HYPOTHESES = "dragoman/decode/search/hypotheses.py"
TORCH_ENGINE = "dragoman/engine/torch_engine.py"
TORCH_STATE = "dragoman/model/base.py"
GRID_CODE = "dragoman/engine/kv_slots.py"
KERNEL = "dragoman/model/kernels/search.py"
NAMES = "dragoman/decode/repairs/keep_names.py"
NAME_RULES = "dragoman/text/names.py"
SPLITTING = "dragoman/decode/splitting.py"
INLINE = "dragoman/documents/inline.py"
GERMAN_LEADS = "dragoman/text/german_leads.py"
TAILS = "dragoman/text/tails.py"
VERB_RULES = "dragoman/text/verbs.py"
TERM_PLACING = "dragoman/decode/repairs/placing.py"
GLOSSARY = "dragoman/text/term_matching.py"


class Mutant(NamedTuple):
    breaks: str
    file: str
    old: str  # occurs in the file exactly once
    new: str
    tests: tuple[str, ...]


MUTANTS = [
    Mutant(
        "an end leaves its place in a shrinking beam to another",
        SEARCH, "beam - finished.counts", "beam + 0 * finished.counts", (LOOPS,),
    ),
    Mutant("patience is ignored", HYPOTHESES, "round(beam * settings.patience)", "beam", (LOOPS,)),
    Mutant(
        "the bound that stops a sentence takes the length penalty of one word",
        HYPOTHESES, "int(self._limits.longest[sentence])", "1", (STOPPING,),
    ),
    Mutant(
        "the bound takes the length penalty of the hypothesis that ended first",
        HYPOTHESES, "int(self._limits.longest[sentence])",
        "len(self._hypotheses[sentence][0].log_probs)", (STOPPING,),
    ),
    Mutant(
        "the bound looks at the best complete hypothesis, not at the last of the n best",
        HYPOTHESES, "scores[self._nbest - 1]", "scores[0]", (STOPPING,),
    ),
    Mutant(
        "a sentence is never stopped early",
        HYPOTHESES, "bool(best_live_total / largest <= scores[self._nbest - 1])", "False", (LOOPS,),
    ),
    Mutant(
        "the length in a score leaves out the end",
        HYPOTHESES, "self._penalty(len(tokens),", "self._penalty(max(1, len(tokens) - complete),",
        (LOOPS,),
    ),
    Mutant("the GNMT length penalty has another constant", HYPOTHESES, "(5.0 + n)", "(4.0 + n)",
    (LOOPS,)),
    Mutant("the length penalty n^alpha has no alpha", HYPOTHESES, "n**alpha", "n", (LOOPS,)),
    Mutant(
        "there is no coverage penalty",
        HYPOTHESES, "score += coverage_penalty(", "score += 0 * coverage_penalty(", (LOOPS,),
    ),
    Mutant(
        "coverage counts the padding of a source",
        HYPOTHESES, "attention[:, : self._limits.source_lengths[sentence]]",
        "attention", (LOOPS,),
    ),
    Mutant("coverage has no upper limit", HYPOTHESES, "1e-9, 1.0)", "1e-9, None)", (LOOPS,)),
    Mutant("runs of words may occur twice", HYPOTHESES, "if self.ngram and t", "if False and t",
    (LOOPS,)),
    Mutant("repeated runs are noticed one word late", HYPOTHESES, "t >= self.ngram",
    "t > self.ngram", (LOOPS,)),
    Mutant(
        "a forced prefix may not repeat itself",
        HYPOTHESES, "np.flatnonzero(forced < 0)", "np.arange(len(forced))", (PREFIX,),
    ),
    Mutant(
        "there is no minimum length",
        HYPOTHESES, "t < self.shortest[rows.sentences]", "t < 0 * rows.sentences", (LOOPS,),
    ),
    Mutant(
        "the minimum length is one word more",
        HYPOTHESES, "t < self.shortest[rows.sentences]", "t <= self.shortest[rows.sentences]",
        (LOOPS,),
    ),
    Mutant(
        "an end outside the beam completes a hypothesis",
        SEARCH, "~others & (rank < beam)", "~others", (LOOPS,),
    ),
    Mutant(
        "an end inside the beam is not taken",
        SEARCH, "(rank < beam)", "(rank < beam - 1)", (LOOPS,),
    ),
    Mutant(
        "an end takes the place of a live hypothesis",
        SEARCH, "others & (better - better[first] < beam)",
        "others & (rank < beam)", (LOOPS,),
    ),
    Mutant("the engine returns too few candidates", SEARCH, "else beam + 1", "else beam",
    (LOOPS,)),
    Mutant("the n best come worst first", HYPOTHESES, "key=lambda h: -h.score",
    "key=lambda h: h.score", (LOOPS,)),
    Mutant(
        "the n best come in the order in which they ended",
        HYPOTHESES, "sorted(hypotheses, key=lambda h: -h.score)", "list(hypotheses)", (LOOPS,),
    ),
    Mutant(
        "what reaches the largest length is dropped",
        HYPOTHESES, "self.add(rows, mine, complete=False)", "pass", (WIDE,),
    ),
    Mutant(
        "search does not tell the engine what is forbidden",
        SEARCH, "banned=limits.forbidden(rows, forced)", "banned=None", (LOOPS,),
    ),
    Mutant(
        "a forced prefix is ignored",
        SEARCH, "limits.forced(rows)", "np.full(len(rows.sentences), -1)", (PREFIX,),
    ),
    Mutant(
        "the observer gets the first row as the parent of every candidate",
        SEARCH, " parents,\n            flat,", " 0 * parents,\n            flat,",
        (OBSERVER,),
    ),
    Mutant(
        "the torch engine says words that are forbidden in a row",
        TORCH_ENGINE, "log_probs[self._tensor(banned[0]), self._tensor(banned[1])] = -torch.inf",
        "pass", (TORCH,),
    ),
    Mutant(
        "the torch engine says pieces that no translation holds",
        TORCH_ENGINE, "log_probs[:, self._never] = -torch.inf", "pass", (EXHAUSTIVE,),
    ),
    Mutant(
        "the torch engine's KV cache ignores parents",
        TORCH_STATE, "cache = _take(self.cache, parents)",
        "cache = _take(self.cache, np.arange(len(parents)) % len(self.sentences))", (STEPS,),
    ),
    Mutant(
        "rows of the torch engine look at the source of another sentence",
        TORCH_STATE, "_take(self.encoder_state, sentences)",
        "_take(self.encoder_state, np.zeros_like(sentences))",
        (STEPS,),
    ),
    Mutant(
        "the grid of KV caches ignores parents",
        GRID_CODE, "self.slots[parents]", "self.slots[np.arange(len(parents)) % len(self.slots)]",
        (GRID,),
    ),
    Mutant(
        "a second child gets no copy of its parent's KV cache",
        GRID_CODE, "self._copy(source, slots[row])", "pass", (GRID,),
    ),
    Mutant(
        "a copy of a KV cache leaves out the position where two hypotheses parted",
        GRID_CODE, "int(parted.argmax())", "int(parted.argmax()) + 1", (GRID,),
    ),
    Mutant(
        "a grid that grows loses the order of its rows",
        GRID_CODE, "= old[sources, :, :filled]",
        "= old[np.sort(sources)[::-1], :, :filled]", (GRID,),
    ),
    Mutant("the search kernel ignores patience", KERNEL, "(count >= enough)", "(count >= 1000)",
    (DEVICE,)),
    Mutant(
        "the bound of the search kernel takes the length penalty of today",
        KERNEL, "tl.load(penalties_at + longest)", "penalty", (DEVICE,),
    ),
    Mutant(
        "the bound of the search kernel looks at the best hypothesis alone",
        KERNEL, "<= _kth_best(scores, nbest)", "<= tl.max(scores, 0)", (DEVICE,),
    ),
    Mutant(
        "the search kernel completes hypotheses outside the beam",
        KERNEL, "(its_word == end) & (rank < hypotheses)", "(its_word == end)", (DEVICE,),
    ),
    Mutant(
        "the search kernel goes one step beyond the largest length",
        KERNEL, "(steps + 1 >= longest)", "(steps + 1 > longest)", (DEVICE,),
    ),
    Mutant(
        "the search kernel lets no hypothesis inherit its parent's ancestors",
        KERNEL, "theirs = (sentence * hypotheses + new_parent)", "theirs = (hypothesis_at)",
        (DEVICE,),
    ),
    Mutant(
        "the search kernel notes each hypothesis as its own parent",
        KERNEL, "new_parent[:, None], origin)", "index[:, None], origin)", (DEVICE,),
    ),
    Mutant(
        "the search kernel notes a wrong parent in the history",
        KERNEL, "tl.store(parents_at + history_at, new_parent,",
        "tl.store(parents_at + history_at, 0 * new_parent,", (DEVICE,),
    ),
    Mutant(
        "the search kernel lets a sentence end too early",
        KERNEL, "(word == end) & too_early", "(word == end) & (too_early & False)", (DEVICE,),
    ),
    Mutant(
        "the second search need not have the masks", PROPOSER,
        "phrases.append(Phrase((tuple(ids),)))", "pass", (MASKED,),
    ),
    Mutant(
        "a second translation counts with as many faults", PIPELINE,
        "if min(counts) < faults[row]:",
        "if min(counts) <= faults[row]:", (MASKED,),
    ),
    Mutant(
        "a second translation keeps the pieces of its masks", PIPELINE,
        "if self._codec.has_masks or not changed:", "if True:", (MASKED,),
    ),
    Mutant(
        "a mask within a word is taken for the mask", MASKS_RULES,
        'rf"(?i)(?<!\\w){self.symbol}(?!\\w)"', 'rf"(?i){self.symbol}"', (MASK_TESTS,),
    ),
    Mutant(
        "a name is put in, however unlikely", NAMES, "total - before > _WORSE", "True",
        (KEEPING_NAMES,),
    ),
    Mutant(
        "names are looked for in words that the model is sure of", NAMES,
        "or of_words[number] < _DOUBT", "or True", (KEEPING_NAMES,),
    ),
    Mutant(
        "a second search for a name may break other promises", NAMES,
        "return fewer and faults(text) <= faults(other)", "return fewer", (KEEPING_NAMES,),
    ),
    Mutant(
        "a known name may not have a form of its own", NAME_RULES,
        "if not known or not (word.islower() or is_known(word)):", "if True:",
        (KEEPING_NAMES,),
    ),
    Mutant(
        "a German noun with unlisted pieces is searched among all pieces", SPLITTING,
        "if language not in NOUNS_IN_CAPITALS:", "if True:", (UNLISTED,),
    ),
    Mutant(
        "links that do not fit the words are believed",
        INLINE,
        "fits = len(linked) == target_size and all(s < source_size for s in linked.values())",
        "fits = bool(linked)", (PLACING,),
    ),
    Mutant(
        "articles pull an element as much as other words", INLINE,
        "_SMALL if bare in _SMALL_WORDS else float(bool(bare))", "float(bool(bare))", (PLACING,),
    ),
    Mutant(
        "a dash cuts an element", INLINE, "else float(bool(bare))", "else 1.0", (PLACING,),
    ),
    Mutant("a name may leave its element", INLINE, "score = _SAME", "pass", (PLACING,)),
    Mutant(
        "an element takes the punctuation after it",
        INLINE, "if core and inner[-1:].isalnum():", "if False:", (PLACING,),
    ),
    Mutant(
        "a verb after a noun passes for its adjective", TAILS,
        "if not said and not _is_adjective(word, language):", "if False:", (FORMS,),
    ),
    Mutant(
        "a German noun may be a second subject", GERMAN_LEADS,
        'return () if _COPULA.search(f"{others} {after}") else ("nominative",)', "return ()",
        (FORMS,),
    ),
    Mutant(
        "listed verbs keep their regular stems", VERB_RULES,
        "taken = _taken(base, kind, language)", "taken: set[str] = set()", (VERBS,),
    ),
    Mutant(
        "an English term is put in in any number", TERM_PLACING,
        "forms = _as_many(forms, noun)", "pass",
        (f"{TERM_PLACES}::test_an_english_term_has_the_number_of_the_word_whose_place_it_takes",),
    ),
    Mutant(
        "an article changes before an acronym", TERM_PLACING,
        'agree = form.gender or language == "en" or not place.demand.inflection',
        "agree = form.number or not place.demand.inflection",
        (f"{TERM_PLACES}::test_beside_an_acronym_an_article_stays",),
    ),
    Mutant(
        "two German terms for one word are both inserted", TERM_PLACING,
        'places = _with_compounds(places) if language == "de" else places', "pass",
        (f"{TERM_PLACES}::test_two_german_nouns_for_one_word_become_one",),
    ),
    Mutant(
        "a clause begins with a genitive", GERMAN_LEADS,
        'cases = tuple(case for case in cases if case != "genitive") or cases', "pass", (FORMS,),
    ),
    Mutant(
        "a verb after its pronoun is an adjective", GERMAN_LEADS,
        "(word in _NO_ADJECTIVES or _PRONOUN.search(text, 0, at))", "word in _NO_ADJECTIVES",
        (FORMS,),
    ),
    Mutant(
        "hyphens of an entry count", GLOSSARY,
        "return words if term.exact else _without_hyphens(words)", "return words",
        (f"{GLOSSARIES}::test_hyphens_of_an_entry_do_not_count_wherever_they_stand",),
    ),
    Mutant(
        "forms with an umlaut or an accent are not found", GLOSSARY,
        'return "".join(letter for letter in normalize("NFD", first) if not combining(letter))',
        "return first", (f"{GLOSSARIES}::test_a_sources_form_tells_the_number",),
    ),
    Mutant(
        "batches of two models are mixed", "dragoman/serve/batcher.py",
        "return id(self.searcher), self.query.group", "return self.query.group", (BATCHER,),
    ),
    Mutant(
        "the cache of answers forgets the oldest, not the least used", "dragoman/serve/service.py",
        "self._cache.move_to_end(key)", "pass", (CACHE,),
    ),
    Mutant(
        "Muon has no weight decay", "dragoman/training/optimizer.py",
        'part.mul_(1 - group["lr"] * group["weight_decay"])', "pass", (OPTIMISER,),
    ),
    Mutant(
        "an interrupt ends a forked process", "dragoman/decode/processes.py",
        "signal.signal(signal.SIGINT, signal.SIG_IGN)", "pass", (FORKS,),
    ),
]  # fmt: skip


class Outcome(NamedTuple):
    killed: bool
    by: str  # the failed test, or the reason why no test failed


def mutated(mutant: Mutant, root: Path = ROOT) -> str:
    """Return the text of a mutant's file with its change."""
    text = (root / mutant.file).read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        sys.exit(
            f"{mutant.file}: {mutant.old!r} must occur once, but occurs {text.count(mutant.old)} "
            f"times. Update the mutant."
        )
    return text.replace(mutant.old, mutant.new)


def run_tests(folder: Path, tests: Sequence[str]) -> Outcome:
    """Run tests on the package in a folder; an error other than a failed test ends the script."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-rfE",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        *tests,
    ]
    paths = [str(folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return Outcome(True, f"the tests did not end within {TIMEOUT_S} s")
    failed = re.search(r"^FAILED \S+::(.+?)(?: - |$)", done.stdout, re.MULTILINE)
    if done.returncode == 1 and failed:
        return Outcome(True, failed[1])
    if done.returncode != 0:
        sys.exit(f"The tests could not run:\n{done.stdout}{done.stderr}")
    return Outcome(False, "")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", help="words of a mutant's description")
    words = parser.parse_args().words
    chosen = [mutant for mutant in MUTANTS if all(word in mutant.breaks for word in words)]
    survived = 0
    with tempfile.TemporaryDirectory() as name:
        # The tests are copied, too: pytest imports the package next to them.
        folder = Path(name)
        left_out = shutil.ignore_patterns("__pycache__")
        for part in ("dragoman", "tests"):
            shutil.copytree(ROOT / part, folder / part, ignore=left_out)
        shutil.copy(ROOT / "pyproject.toml", folder)
        unbroken = run_tests(folder, sorted({test for mutant in chosen for test in mutant.tests}))
        if unbroken.killed:
            sys.exit(f"{unbroken.by} fails on the unchanged code: fix that first.")
        for mutant in chosen:
            (folder / mutant.file).write_text(mutated(mutant), encoding="utf-8")
            outcome = run_tests(folder, mutant.tests)
            shutil.copy(ROOT / mutant.file, folder / mutant.file)
            survived += not outcome.killed
            print(
                f"{'killed  ' if outcome.killed else 'SURVIVED'}  {mutant.breaks:<78}  "
                f"{outcome.by}",
                flush=True,
            )
    print(f"{len(chosen)} mutants, {survived} survived")
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main())
