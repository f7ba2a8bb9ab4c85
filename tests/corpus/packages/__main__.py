"""`python -m tests.corpus.packages`: see `run`."""

from tests.corpus.packages.run import main

main()
