"""How good translations are: BLEU, chrF and TER by sacreBLEU, with signatures."""
