"""Whether two computations are the same, and where they differ if not."""

from untrace.verification.compare import compare
from untrace.verification.difference import Difference

__all__ = ["Difference", "compare"]
