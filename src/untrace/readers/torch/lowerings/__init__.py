"""What functions of torch are in JAX, by their names.

A lowering takes JAX arrays where the function takes tensors, and otherwise what it takes.
What it calls is what the generated source shows. Parity with torch is checked by value.
"""

from __future__ import annotations

from untrace.readers.torch.lowerings import (
    attention as attention,
)
from untrace.readers.torch.lowerings import (
    creation as creation,
)
from untrace.readers.torch.lowerings import (
    elementwise as elementwise,
)
from untrace.readers.torch.lowerings import (
    indexing as indexing,
)
from untrace.readers.torch.lowerings import (
    linear as linear,
)
from untrace.readers.torch.lowerings import (
    losses as losses,
)
from untrace.readers.torch.lowerings import (
    normalisation as normalisation,
)
from untrace.readers.torch.lowerings import (
    pooling as pooling,
)
from untrace.readers.torch.lowerings import (
    random as random,
)
from untrace.readers.torch.lowerings import (
    recurrent as recurrent,
)
from untrace.readers.torch.lowerings import (
    reductions as reductions,
)
from untrace.readers.torch.lowerings import (
    shapes as shapes,
)
from untrace.readers.torch.lowerings.table import FUNCTIONS as FUNCTIONS
from untrace.readers.torch.lowerings.table import LOWERINGS as LOWERINGS
from untrace.readers.torch.lowerings.table import SAME as SAME
from untrace.readers.torch.lowerings.table import VIEWS as VIEWS
