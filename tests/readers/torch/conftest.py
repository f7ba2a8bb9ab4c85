"""Everything here needs torch, which the other tests do without."""

import pytest

pytest.importorskip("torch")
