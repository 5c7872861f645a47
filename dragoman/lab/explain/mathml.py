"""Write formulas as MathML, which browsers render.

The input resembles LaTeX, with a space between symbols:

    x_{ij}  σ^2  ∑_k        subscripts and superscripts; each letter of a subscript is a symbol
    frac{a + b}{c}          a fraction
    √{a + b}                a root
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Possessive quantifiers (++), because a symbol never needs to give characters back.
_SYMBOL = re.compile(r"_\{[^{}]*+\}|_\S|[{}^√]|[^\s{}_^√]++")
_OPERATORS = {*"=+−·/()[];,…←∑→⊤<>", "−∞"}


@dataclass(frozen=True)
class Formula:
    """A formula as MathML (`math`) and in words, for screen readers (`spoken`)."""

    math: str
    spoken: str


def formula(spoken: str, *lines: str) -> Formula:
    """Build a formula of one or several lines."""
    rows = "".join(f"<mtr><mtd>{_row(line)}</mtd></mtr>" for line in lines)
    return Formula(
        '<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">'
        f"<mtable columnalign='left' displaystyle='true'>{rows}</mtable></math>",
        spoken,
    )


def _row(text: str) -> str:
    """
    >>> _row("x_{ij}")
    '<mrow><msub><mi>x</mi><mrow><mi>i</mi><mi>j</mi></mrow></msub></mrow>'
    """
    return _group(iter(_SYMBOL.findall(text)))


def _group(symbols: Iterator[str]) -> str:
    """Convert symbols up to a closing brace or the end."""
    parts: list[str] = []
    for symbol in symbols:
        if symbol == "}":
            break
        if symbol[0] == "_":
            # Letters of a subscript are separate symbols: x_{ij} has the indices i and j.
            index = _row(" ".join(symbol[1:].strip("{}")))
            # The index of a sum goes below it, as in displayed formulas.
            under = parts[-1] in (_leaf("∑"), _leaf("argmin"))
            kind, base = ("munder", f"<mrow>{parts[-1]}</mrow>") if under else ("msub", parts[-1])
            parts[-1] = f"<{kind}>{base}{index}</{kind}>"
        elif symbol == "^":
            parts[-1] = f"<msup>{parts[-1]}{_part(next(symbols), symbols)}</msup>"
        else:
            parts.append(_part(symbol, symbols))
    return f"<mrow>{''.join(parts)}</mrow>"


def _part(symbol: str, more: Iterator[str]) -> str:
    """Convert a symbol and its arguments in braces."""
    if symbol == "{":
        return _group(more)
    if symbol == "√":
        return f"<msqrt>{_part(next(more), more)}</msqrt>"
    if symbol == "frac":
        above = _part(next(more), more)
        return f"<mfrac>{above}{_part(next(more), more)}</mfrac>"
    return _leaf(symbol)


def _leaf(symbol: str) -> str:
    if symbol in _OPERATORS:
        return f"<mo>{symbol.replace('<', '&lt;').replace('>', '&gt;')}</mo>"
    if symbol.replace(".", "").isdigit():
        return f"<mn>{symbol}</mn>"
    if len(symbol) > 1 and symbol.isalpha():
        space = "<mspace width='.25em'/>"
        # Words such as exp and norm are upright; italics would read as a product of letters.
        before = space if symbol == "if" else ""
        return f"<mrow>{before}<mi mathvariant='normal'>{symbol}</mi>{space}</mrow>"
    return f"<mi>{symbol}</mi>"
