"""The mutants of `run.py` fit the current code. `run.py` itself checks that tests kill them."""

import ast

import pytest

from tests.mutants.run import MUTANTS, ROOT, Mutant, mutated


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.breaks)
def test_a_mutant_fits_the_code_and_names_tests_that_exist(mutant: Mutant) -> None:
    ast.parse(mutated(mutant))
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert f"def {name or 'test_'}" in (ROOT / file).read_text(encoding="utf-8")
