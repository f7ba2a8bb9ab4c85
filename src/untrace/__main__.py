"""`python -m untrace`."""

from untrace.cli import main

main(prog_name="untrace")
