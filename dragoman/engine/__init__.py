"""What runs a model for search: `start` with sentences, then `step` by `step`."""

import os

# ONNX Runtime reads this once, when it is imported, and only modules of this package import it.
# Without it, it would write a database into the user's home and send what is in there.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
