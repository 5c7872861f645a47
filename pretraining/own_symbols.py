"""The model's own symbols.

Private-use characters, since no text has them: SentencePiece keeps each as a piece of its own
(vocabulary.py), and the pairs of behaviors.py give it its meaning.
"""

MASKS = [chr(0xE000 + number) for number in range(16)]
TERM, LEMMA, TERM_END = "\ue010", "\ue011", "\ue012"
CONTEXT = "\ue013"  # after the sentence before
FORMAL, INFORMAL = "\ue014", "\ue015"
SYMBOLS = [chr(0xE000 + number) for number in range(32)]
