"""Translating files too large for one sitting: in shards, on many workers, through kills."""
