"""Numbers that stand in for others."""

import re

import pytest

from dragoman.decode.numbers import stand_ins, with_others


@pytest.mark.parametrize(
    "text",
    [
        "Am 15. Mai 1987 um 8 Uhr",
        "030 1234567",
        "11, 12, 13 e 23",
        "00 000",
        "7",
        " ".join(f"{n}5" for n in range(1, 10)),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_others_are_as_long_and_can_be_put_back(text: str, seed: int) -> None:
    others = stand_ins(text, seed)
    changed = with_others(text, others)
    numbers = re.findall(r"\d+", text)
    assert set(others) == {number for number in numbers if len(number) > 1}
    assert len(changed) == len(text)
    assert with_others(changed, {other: number for number, other in others.items()}) == text


def test_others_are_told_alike() -> None:
    """So that "the 19th" becomes "the 15th" again, and not "the 22nd" "the 15nd"."""
    for seed in range(20):
        others = stand_ins("15 23 1987", seed)
        assert re.fullmatch(r"1[^5]", others["15"])
        assert re.fullmatch(r"[^12]3", others["23"])
        assert re.fullmatch(r"1.[^1]7", others["1987"])
