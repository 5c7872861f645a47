"""Every variant of the Transformer learns a task that it can do, sequences that it has not seen
included."""

import pytest

from tests.learn.learning import share_learned
from tests.variants import VARIANTS

ONE_LAYER = {"model__num_encoder_layers": 1, "model__num_decoder_layers": 1}
INSTEAD: dict[str, dict[str, object]] = {
    "no positions": {"task": "sort"},  # it cannot see the order of the words
    # every query gets the same weights, so the whole output comes from one average
    "concat": {"longest": 3},
    "hard": {"longest": 3},  # one key at a time is slower to learn
    "no residuals": {"longest": 3, **ONE_LAYER},  # what a layer does not pass on is lost
    "no residuals, pre-norm": {"longest": 3, **ONE_LAYER},
}
"""What other variants learn than to copy up to eight words, and why."""


@pytest.mark.slow
@pytest.mark.parametrize("variant", [name for name in VARIANTS if not name.startswith("many")])
def test_the_variant_learns(variant: str) -> None:
    assert (
        share_learned(**{"task": "copy", **VARIANTS[variant], **INSTEAD.get(variant, {})}) >= 0.98
    )
