"""Pages and figures about one sentence: attention, beam, positions, and a whole forward pass."""
