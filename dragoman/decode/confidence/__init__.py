"""How good a translation is, as far as one can tell without a reference."""
