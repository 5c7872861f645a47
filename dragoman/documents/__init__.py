"""Files and markup around a translator: what is text is translated, all else stays as it is."""
