"""Numbers that a translation has lost, invented or changed are counted."""

import re

import pytest

from dragoman.text.numbers import in_24_hours, misread, number_errors


@pytest.mark.parametrize(
    ("number", "said", "language", "to", "right"),
    [
        ("1.234,56 €", "1.234.56 €", "en", "en", "1,234.56 €"),
        ("1.234,56 €", "1.234,56 €", "en", "en", "1,234.56 €"),
        ("1,234.56 €", "1,234.56 €", "fr", "de", "1.234,56 €"),
        ("1.234,56 €", "1.234,56 €", "en", "pt", "1.234,56 €"),
        ("1.234", "1.234", "en", "en", "1.234"),
        ("10.0.1,5", "10.0.1,5", "en", "de", "10.0.1,5"),
    ],
)
def test_both_signs_of_a_number_tell_how_it_is_written(number, said, language, to, right) -> None:
    """Alone it may be taken for one of another language."""
    assert bool(misread(number, said, language, to)) == (said != right)


@pytest.mark.parametrize(
    ("language", "source", "to", "said", "right"),
    [
        ("en", "3,456 people", "de", "3,456 Menschen", "3.456 Menschen"),
        ("de", "1.889.000 Leute", "fr", "1,889 000 personnes", "1 889 000 personnes"),
        ("en", "$1,299.99", "de", "1.299.99 Dollar", "1.299,99 Dollar"),
        ("es", "los -15,5 °C", "fr", "les 15,5 °C", "les -15,5 °C"),
        ("de", "es wird −5 °C", "en", "it will be minus 5 °C", "it will be minus 5 °C"),
        ("fr", "demande PHP 8.2", "de", "erfordert PHP 8,2", "erfordert PHP 8.2"),
        ("en", "needs Python 3.11", "de", "braucht Python 3.11", "braucht Python 3.11"),
        ("en", "3.2% more", "de", "3.2 % mehr", "3,2 % mehr"),
        ("en", "pages 10-15", "de", "Seiten 10-15", "Seiten 10-15"),
        ("de", "am 14.02.2022", "en", "on 14 February 2022", "on 14 February 2022"),
        ("de", "bis 31.12.2027.", "en", "until 31.12,2027.", "until 31.12.2027."),
        ("de", "am 3.10.1990", "fr", "le 310.1990", "le 3.10.1990"),
        ("de", "am 3.10.1990", "fr", "le 3/10/1990", "le 3/10/1990"),
        ("de", "am 24.11.2012", "fr", "le 2411-2012", "le 24.11.2012"),
        ("de", "am 26.09.2021", "en", "on 26th,09.2021", "on 26.09.2021"),
        ("xx", "3,456 people", "de", "3,456 Menschen", "3,456 Menschen"),
        ("en", "read 18,204 times", "fr", "lu 18-204 fois", "lu 18 204 fois"),
    ],
)
def test_numbers_that_mean_something_else_are_counted(language, source, to, said, right) -> None:
    assert bool(misread(source, said, language, to)) == (said != right)


@pytest.mark.parametrize(
    ("source", "said", "errors"),
    [
        ("Um 1900 lebten hier 1.889.000 Menschen.", "By 1900,889,000 people lived here.", True),
        ("Das Brett ist 1,8 m lang und 24 mm dick.", "It is 1.8 mm long and 24 mm thick.", True),
        ("Er zahlte $1,299.99.", "He paid 1 $299.99.", True),
        ("La multa es de 200 €.", "The fine is 200 euros.", False),
        ("um 9 Uhr", "at nine o'clock", False),
        ("Der Zug fährt um 17:42 Uhr.", "The train leaves at 17:42.", False),
    ],
)
def test_lost_digits_and_units_are_counted(source: str, said: str, errors: bool) -> None:
    assert bool(number_errors(source, said, "en")) == errors


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("It is 12 am.", "It is 0:00."),
        ("From 9:30am to 12:15 PM", "From 9:30 to 12:15"),
        ("At 7 p.m. we ate.", "At 19:00 we ate."),
        ("I am 5.", "I am 5."),
        ("5 amps at 13 pm", "5 amps at 13 pm"),
    ],
)
def test_12_hour_times_become_24_hour_times(text: str, after: str) -> None:
    assert in_24_hours(text, "en", "de").text == after
    assert in_24_hours(text, "en", "en").text == in_24_hours(text, "fr", "de").text == text


def test_links_count_the_words_that_a_model_does_not_read(packaged) -> None:
    text = "The train leaves at 3:45 pm from London."
    found = packaged(text, source="en", to="de", alignments=True)
    assert re.search(r"15[.:]45", found)
    words = found.split()
    linked = {words[t].strip("."): s for s, t in found.alignment}
    assert linked["London"] == 7


@pytest.mark.parametrize(
    ("source", "said", "to", "errors"),
    [
        ("im 19. Jahrhundert", "in the nineteenth century", "en", 0),
        ("im 19. Jahrhundert", "au XIXe siècle", "fr", 0),
        ("im 19. Jahrhundert", "en el siglo XIX", "es", 0),
        ("im 19. Jahrhundert", "in the century", "en", 2),
        ("im 19. Jahrhundert", "in the eighteenth century", "en", 2),
        ("im 19. und 19.", "in the nineteenth and", "en", 2),  # once is not twice
        ("zwanzig Jahre", "20 years", "en", 0),
        ("zwanzig Jahre", "20 and 20 years", "en", 2),
        ("12 Uhr", "12 twelve o'clock", "en", 0),  # what is there is not looked for
        ("Zimmer 204", "room two hundred and four", "en", 3),
    ],
)
def test_round_numbers_of_two_digits_may_be_words(source, said, to, errors) -> None:
    assert number_errors(source, said, to) == errors
    assert number_errors(source, said) >= errors  # without a language no words are known
