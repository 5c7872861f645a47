"""The lectures' claims, each run on models trained here, drawn, and said in two sentences made from
the numbers."""
