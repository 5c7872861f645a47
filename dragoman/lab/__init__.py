"""The laboratory: teaching material and experiments, outside the core.

The core does not import it. It imports itself into the core's tables, as any plug-in does, when one
of them lacks a name (`config/plugins.py`). So this module must stay cheap: names, no code.

    variant_names.py         names and rules of all variants below
    transformer_variants.py  similarities, spans, head layouts and positions
    architectures/           recurrent, convolutional, decoder-only and statistical systems
    minimum_risk.py          training on the score of sampled translations
    compare/                 train systems under equal terms and compare them
    explain/                 pages about one sentence: attention, beam, a whole forward pass
    commands/                the command lines
"""

from dragoman.cli import COMMANDS
from dragoman.lab import variant_names as variant_names
from dragoman.serve import PAGES, ROUTERS

COMMANDS |= {
    "attend": "dragoman.lab.commands.attend_command",
    "explain": "dragoman.lab.commands.explain_command",
    "compare": "dragoman.lab.commands.compare_command",
    "sweep": "dragoman.lab.commands.sweep_command",
}
ROUTERS.append("dragoman.lab.explain.routes")
PAGES.append("dragoman.lab.explain")
