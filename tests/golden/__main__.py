"""Write the golden files: `python -m tests.golden [NAME ...]`.

They hold what level "api" makes of the programs in `benchmarks/readability`, without the
header. Read the difference in `git diff` as a reviewer of generated code would.
"""

import sys

from benchmarks.readability import corpus
from tests.golden.test_golden import FOLDER, UNSTABLE, body, load_or_none

for name in sys.argv[1:] or sorted({*corpus.names()} - UNSTABLE):
    program = load_or_none(name)
    if program is None:
        print(f"{name}: its framework is not installed")
        continue
    path = FOLDER / f"{name}.txt"
    path.write_text(body(program))
    print(path)
