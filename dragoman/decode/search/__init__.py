"""Search algorithms: beam search as the reference, its faster forms, sampling and scoring."""
