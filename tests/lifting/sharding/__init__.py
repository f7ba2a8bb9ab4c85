"""Programs about sharding, devices and ambient context."""

from tests.lifting.sharding import (  # these register their programs
    automatic,
    explicit,
    manual,
    manual_more,
    mixed,
    mixed_more,
)
from tests.lifting.sharding.base import PROGRAMS

__all__ = ["MODULES", "PROGRAMS"]

MODULES = (automatic, explicit, manual, manual_more, mixed, mixed_more)
