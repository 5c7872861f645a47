"""The entry point of every command, and its exit status.

Results go to standard output, everything else to standard error. Exit status: 0, 1 for a user's
mistake (one line that names place, value and remedy), 2 for wrong usage, 3 if --strict finds
results that need a look.
"""

import errno
import os
import signal
import sys
from contextlib import suppress

from dragoman.cli.arguments import UsageError
from dragoman.cli.commands import run_command_line
from dragoman.errors import DragomanError


def run() -> None:
    """Run `main` as a process of its own, and end a translation quickly."""
    main()
    # Other commands, and jobs on Ray, may leave something to do at the end of the process.
    if sys.argv[1:2] != ["translate"] or "ray" in sys.modules:
        return
    # All is written. The system frees all memory in one go; Python would do it piece by piece.
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(0)


def main() -> None:
    """Run the command line; return normally only if nothing went wrong."""
    # SIGTERM becomes an exception, so that half-written files are removed.
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        try:
            run_command_line(sys.argv[1:])
        finally:
            sys.stdout.flush()
    except UsageError as error:
        print(f"dragoman: {error}", file=sys.stderr)
        sys.exit(2)
    except DragomanError as error:
        print(f"dragoman: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        _drop_output()
        sys.exit(0)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        print(f"dragoman: {error.strerror}.", file=sys.stderr)
        _drop_output()
        sys.exit(1)


def _drop_output() -> None:
    """Discard what is still buffered, so that flushing it at exit cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
