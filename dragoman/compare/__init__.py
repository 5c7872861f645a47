"""Settings of one's own, trained and compared on equal terms."""
