"""Engines run a model for search: `start` with sentences, then one `step` per target position."""

import os

# ONNX Runtime reads this variable when it is imported, and only modules of this package import it.
# Unless disabled, telemetry writes a database into the user's home and sends its contents.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
