"""The command line. Ctrl-C is answered from the first line on: the libraries take a second to import."""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

from whest import __version__

INTERRUPTED = 130


def main() -> None:
    """`python -m whest` and `whest-run`: import the command line and run it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # a shell starts background jobs with SIGINT ignored
            signal.signal(number, _leave)
    if "--version" in sys.argv[1:]:
        print(f"whest {__version__}")
        return
    from whest.cli.command import run_command_line

    run_command_line()


def _leave(number: int, frame: FrameType | None) -> None:
    """End at once, while nothing has begun: an exception inside a library's import could be lost or change its type."""
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, b"whest: interrupted before the work began\n")
    os._exit(INTERRUPTED)


def program() -> NoReturn:
    """`main` as a whole process.

    After Ctrl-C it ends at once. JAX's threads are still at work then, and Python's own end could crash under them.
    """
    from whest.host import collect_less, leave

    collect_less()
    try:
        main()
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        if ended.code == INTERRUPTED:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        leave(ended.code or 0, at_once=ended.code == INTERRUPTED)
    leave(0)


if __name__ == "__main__":
    program()
