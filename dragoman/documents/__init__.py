"""Documents and markup: text is translated, everything else is copied."""
