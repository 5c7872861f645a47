from dragoman.text.doctor import survey
from dragoman.text.parallel import Pair


def test_each_trouble_is_counted_with_its_lines() -> None:
    good = [Pair(1, "Guten Tag.", "Good day."), Pair(2, "Danke.", "Thanks.")]
    bad = [
        Pair(3, "Danke.", "Thanks."),
        Pair(4, "", "Nothing there."),
        Pair(5, "OK", "OK"),
        Pair(6, "kurz", "a very long translation of a very short word indeed"),
        Pair(7, "kaputt \ufffd", "broken"),
    ]
    assert survey(good).findings == []
    found = survey(good + bad)
    assert found.pairs == 7
    lines = [found.repeated, found.empty, found.same, found.lopsided, found.broken]
    assert [finding.lines for finding in lines] == [[3], [4], [5], [6], [7]]
