"""Write the golden files: `python -m tests.golden [NAME ...]`.

They hold what level "api" makes of the programs in `benchmarks/readability`, without the
header. Read the difference in `git diff` as a reviewer of generated code would.
"""

import sys

from benchmarks.readability import corpus
from tests.golden.test_golden import FOLDER, UNSTABLE, body

for name in sys.argv[1:] or sorted({*corpus.names()} - UNSTABLE):
    path = FOLDER / f"{name}.txt"
    path.write_text(body(corpus.load(name)))
    print(path)
