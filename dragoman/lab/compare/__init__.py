"""Train systems under equal terms and compare them; hyperparameter search."""
