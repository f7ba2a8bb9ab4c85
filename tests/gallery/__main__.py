"""Write the gallery: `python -m tests.gallery [NAME ...]`.

Without names the pages are made of what is kept. With names (or `all`), those programs
are recovered first, if what they need is installed; read the difference in `git diff`.
"""

import sys
from importlib.util import find_spec

from tests.gallery.pages import index, page
from tests.gallery.pairs import PAIRS, ROOT

DOCS = ROOT / "docs"

for pair in PAIRS:
    if {pair.name, "all"} & {*sys.argv[1:]}:
        missing = [name for name in pair.needs if find_spec(name) is None]
        if missing:
            print(f"{pair.name}: {', '.join(missing)} is not installed")
        else:
            pair.stored.write_text(pair.after())
            print(pair.stored)
(DOCS / "gallery").mkdir(exist_ok=True)
for pair in PAIRS:
    if pair.stored.exists():
        (DOCS / "gallery" / f"{pair.name}.md").write_text(page(pair))
(DOCS / "gallery.md").write_text(index())
