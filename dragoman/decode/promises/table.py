"""The promises, in the order in which they are kept.

What an earlier one has put in its place must not be broken again by a later one.
"""

from dragoman.decode.promises.keep_names import KeepNames
from dragoman.decode.promises.keep_numbers import KeepNumbers
from dragoman.decode.promises.keep_symbols import KeepSymbols
from dragoman.decode.promises.keep_terms import KeepTerms
from dragoman.decode.promises.keep_verbatim import KeepVerbatim
from dragoman.decode.promises.promise import Promise
from dragoman.decode.promises.short_lines import ShortLines

# A short line gets another answer, so that comes first. A translation in which addresses were
# mended has new numbers too, so these come later. Names take the place of single words, which
# breaks nothing.
PROMISES: dict[str, type[Promise]] = {
    "short lines": ShortLines,
    "terms": KeepTerms,
    "verbatim": KeepVerbatim,
    "symbols": KeepSymbols,
    "numbers": KeepNumbers,
    "names": KeepNames,
}
