"""The models: mathematics as functions, weights as modules, variants as entries of tables."""
