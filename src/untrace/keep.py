"""What `untrace.reduce` is to keep: predicates on failing programs.

Combine them with `&`, `|` and `~`:

>>> from untrace import keep
>>> str(keep.nan(under="grad") & keep.contains("log"))
"nan(under='grad') & contains('log')"
"""

from untrace.reduction.keeping import Auto as auto
from untrace.reduction.keeping import Check as check
from untrace.reduction.keeping import Command as command
from untrace.reduction.keeping import Contains as contains
from untrace.reduction.keeping import Crashes as crashes
from untrace.reduction.keeping import Differs as differs
from untrace.reduction.keeping import Hangs as hangs
from untrace.reduction.keeping import Inf as inf
from untrace.reduction.keeping import Keep, KeepError
from untrace.reduction.keeping import Memory as memory
from untrace.reduction.keeping import Nan as nan
from untrace.reduction.keeping import Raises as raises
from untrace.reduction.keeping import Recompiles as recompiles
from untrace.reduction.keeping import SlowCompile as slow_compile
from untrace.reduction.keeping import parse_keep as parse

__all__ = [
    "Keep",
    "KeepError",
    "auto",
    "check",
    "command",
    "contains",
    "crashes",
    "differs",
    "hangs",
    "inf",
    "memory",
    "nan",
    "parse",
    "raises",
    "recompiles",
    "slow_compile",
]
