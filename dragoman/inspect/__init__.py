"""What a model did with one sentence: attention, the beam's tree, positions; as data, as a page, as
figures."""
