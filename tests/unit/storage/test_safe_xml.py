"""XML that may be hostile."""

import pytest

from dragoman.storage.safe_xml import HostileXmlError, open_parser, parse, xml_events

HUGE = [
    "<a b='" + "x" * 2**25 + "'/>",
    "<a><!--" + "x" * 2**25 + "--></a>",
    "<a><?b " + "x" * 2**25 + "?></a>",
]
DECLARED = "<!DOCTYPE a [<!ENTITY b 'c'>]><a/>"


@pytest.mark.parametrize("text", [*HUGE, DECLARED])
@pytest.mark.parametrize("chunk", [str, str.encode])
def test_an_endless_token_and_a_document_type_are_refused(text, chunk) -> None:
    with pytest.raises(HostileXmlError):
        parse(open_parser(), text.encode())
    with pytest.raises(HostileXmlError):
        [*xml_events([chunk(text)])]


def test_long_texts_of_many_tokens_are_read() -> None:
    text = "<a>" + "x" * 2**25 + f"<b c='{'y' * 2**20}'/>\n" * 20 + "</a>"
    ends = [element.tag for event, element in xml_events([text]) if event == "end"]
    assert ends == ["b"] * 20 + ["a"]
    parse(open_parser(), text.encode())


def test_what_is_read_does_not_depend_on_how_it_is_cut() -> None:
    raw = "<a>ä<b c='d &amp; e'/>f</a>".encode()
    seen = [
        [(event, one.tag, one.text) for event, one in xml_events(chunks) if event == "end"]
        for chunks in ([raw], [raw[i : i + 1] for i in range(len(raw))], [raw.decode()])
    ]
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][0] == ("end", "b", None)
