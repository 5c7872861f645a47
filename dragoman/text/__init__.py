"""From text to pieces and back: strings only, never torch."""
