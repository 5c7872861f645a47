"""The model's own symbols.

Private-use characters, since no text has them: SentencePiece keeps each as a piece of its own
(vocabulary.py), and the pairs of behaviors.py give it its meaning.
"""

from dragoman.text.vocabulary import LEMMA as LEMMA
from dragoman.text.vocabulary import MASKS as MASKS
from dragoman.text.vocabulary import TERM as TERM
from dragoman.text.vocabulary import TERM_END as TERM_END

CONTEXT = "\ue013"  # after the sentence before
FORMAL, INFORMAL = "\ue014", "\ue015"
SYMBOLS = [chr(0xE000 + number) for number in range(32)]
