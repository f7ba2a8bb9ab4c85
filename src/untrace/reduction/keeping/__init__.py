"""What to keep: predicates on failing programs, their combinations, their text."""

from untrace.errors import KeepError as KeepError
from untrace.reduction.keeping.automatic import Auto as Auto
from untrace.reduction.keeping.base import Keep as Keep
from untrace.reduction.keeping.checking import Check as Check
from untrace.reduction.keeping.composition import Both as Both
from untrace.reduction.keeping.composition import Either as Either
from untrace.reduction.keeping.composition import Not as Not
from untrace.reduction.keeping.contents import Command as Command
from untrace.reduction.keeping.contents import Contains as Contains
from untrace.reduction.keeping.costs import Memory as Memory
from untrace.reduction.keeping.costs import Recompiles as Recompiles
from untrace.reduction.keeping.costs import SlowCompile as SlowCompile
from untrace.reduction.keeping.failures import Crashes as Crashes
from untrace.reduction.keeping.failures import Hangs as Hangs
from untrace.reduction.keeping.failures import Raises as Raises
from untrace.reduction.keeping.text import PREDICATES as PREDICATES
from untrace.reduction.keeping.text import parse_keep as parse_keep
from untrace.reduction.keeping.values import Differs as Differs
from untrace.reduction.keeping.values import Inf as Inf
from untrace.reduction.keeping.values import Nan as Nan
