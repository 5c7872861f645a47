"""What a model did with one sentence: attention, the beam's tree, positions.

These come as data, as a page, and as figures.
"""
