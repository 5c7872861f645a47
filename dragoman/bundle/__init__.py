"""One folder is one model: its weights, pieces, settings and card; adapters beside it."""
