"""Text processing: strings to ids and back, languages, corpora; never imports torch."""
