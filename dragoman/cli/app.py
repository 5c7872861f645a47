"""Where a command begins, and how errors leave it.

Results go to standard output, everything else to standard error. Exit status: 0, 1 for a user's
mistake (one line that names place, value and remedy), 2 for wrong usage.
"""

import errno
import os
import signal
import sys
from contextlib import suppress

from dragoman.cli import ReaderGoneError
from dragoman.cli.quick import quick_translation
from dragoman.errors import DragomanError
from dragoman.storage.prefetch import prefetch_weights


def run() -> None:
    """The process that somebody started: `main`, and a quick end of a translation."""
    main()
    if quick_translation(sys.argv[1:]) is None:
        return  # other commands may have left something to be done at the end
    # All is written. What is left is to give back memory piece by piece, and the system does that
    # sooner.
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(0)


def main() -> None:
    """Returns where there was nothing to complain about."""
    # SIGTERM becomes an exception, so that files that are half written are swept away.
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        try:
            _run()
        finally:
            sys.stdout.flush()
    except DragomanError as error:
        print(f"dragoman: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except (BrokenPipeError, ReaderGoneError):
        _drop_output()
        sys.exit(0)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        print(f"dragoman: {error.strerror}.", file=sys.stderr)
        _drop_output()
        sys.exit(1)


def _drop_output() -> None:
    """What is still buffered goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run() -> None:
    request = quick_translation(sys.argv[1:])
    if request is not None:
        prefetch_weights(request.get("model", ""))
        from dragoman.cli.translating import translate

        translate(**request)
        return
    from dragoman.cli.commands import app

    app()
