"""Small requests that ask for much are refused, or cost little."""

import numpy as np
import pytest
from pydantic import ValidationError

from dragoman.decode.repairs.placing import MOST_TEXTS, Demand, filled_in
from dragoman.errors import ConfigError
from dragoman.lab.explain.routes import ChangeRequest
from dragoman.serve.schemas import Message
from dragoman.text.glossary import MOST_ALTERNATIVES, Glossary


def test_a_term_has_a_bounded_number_of_alternatives() -> None:
    many = "|".join(f"b{number}" for number in range(MOST_ALTERNATIVES + 1))
    with pytest.raises(ConfigError, match="alternatives"):
        Glossary.of([("Hund", many)])


def test_terms_that_occur_often_are_placed_in_a_bounded_number_of_ways() -> None:
    """Five places with the same fifty alternatives have 300 million combinations."""
    targets = tuple(f"b{number}" for number in range(MOST_ALTERNATIVES))
    demands = [Demand(targets, words=(place, place + 1)) for place in range(5)]
    texts = filled_in("a b c d e", np.eye(5), demands, "en")
    assert 1 <= len(texts) <= MOST_TEXTS


@pytest.mark.parametrize("places", [{0: 150_000}, {0: 10**30}, {-1: 0}, {10**6: 0}])
def test_a_subword_moves_only_to_a_position_that_models_have(places: dict[int, int]) -> None:
    with pytest.raises(ValidationError):
        ChangeRequest(places=places)


def test_a_message_of_many_parts_is_refused_at_its_first_mistake() -> None:
    with pytest.raises(ValidationError) as refused:
        Message.model_validate({"role": "user", "content": [{}] * 50_000})
    assert len(refused.value.errors()) < 500
