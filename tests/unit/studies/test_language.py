"""The toy language follows from its seed and keeps its own rules."""

from studies.language import toy_pairs


def test_the_language_follows_from_its_seed_and_says_nothing_twice() -> None:
    pairs = toy_pairs(300, seed=3)
    assert pairs == toy_pairs(300, seed=3)
    assert pairs != toy_pairs(300, seed=4)
    assert len({source for source, _ in pairs}) == 300


def test_the_last_word_of_the_source_decides_the_ending_of_every_verb() -> None:
    """Two sentences that differ only in their last word differ in as many target words as there
    are verbs."""
    told = dict(toy_pairs(4000, seed=1))
    compared = 0
    for source, target in told.items():
        other = told.get(f"{source.rsplit(' ', 1)[0]} {'lo' if source.endswith('nu') else 'nu'}")
        if other is not None:
            changed = [a != b for a, b in zip(target.split(), other.split(), strict=True)]
            assert sum(changed) == source.count(" ma ") + 1
            compared += 1
    assert compared > 10


def test_plural_subjects_change_the_verb_which_the_source_does_not_mark() -> None:
    """The verb is the third of a clause of bare words; its target form depends on the subject's
    number."""
    forms: dict[tuple[str, str, bool], set[str]] = {}
    for source, target in toy_pairs(6000, seed=2, clauses=1):
        words = source.split()
        plural = words[1] == "ki"
        rest = words[2:] if plural else words[1:]
        # noun [ki] object verb tense
        if len(rest) == 3 and words[0].islower() and "ki" not in rest:
            forms.setdefault((rest[1], rest[2], plural), set()).add(target.split()[1])
    assert all(len(said) == 1 for said in forms.values())
    both = [
        (verb, tense) for verb, tense, plural in forms if plural and (verb, tense, False) in forms
    ]
    assert both
    assert all(forms[verb, tense, True] != forms[verb, tense, False] for verb, tense in both)
