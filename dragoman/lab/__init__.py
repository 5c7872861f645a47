"""The laboratory: teaching material and experiments, outside the core.

The core does not import it. It imports itself into the core's tables, as any plug-in does, when one
of them lacks a name (`config/plugins.py`). So this module must stay cheap: names, no code.

    compare/     train systems under equal terms and compare them
    commands/    the command line of it
"""

from dragoman.cli import COMMANDS

COMMANDS |= {
    "compare": "dragoman.lab.commands.compare_command",
    "sweep": "dragoman.lab.commands.sweep_command",
}
