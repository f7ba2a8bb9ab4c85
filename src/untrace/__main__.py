"""`python -m untrace`, and the command `untrace`.

While modules are imported, which takes seconds, Ctrl-C ends the process at once: there is
nothing to be said or saved yet, and an exception may be lost where Python imports.
"""

import signal


def run() -> None:
    """Run the command line."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from untrace.cli import main

    signal.signal(signal.SIGINT, before)
    main(prog_name="untrace")


if __name__ == "__main__":
    run()
