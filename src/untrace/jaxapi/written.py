"""Where generated code finds what JAX has no stable name for."""

from __future__ import annotations

PRIVATE = "jax._src"
PRIMITIVES = "jax.extend.core.primitives"
AS_ARRAY = ("jax._src.lax.lax", "asarray")
COMPUTE_CONTEXT = ("jax._src.compute_on", "extend_compute_type")
CONFIG = ("jax._src", "config")
COTANGENTS_HOME = "jax.interpreters.ad"
EVALUATION = ("jax.extend.core", "jaxpr_as_fun")
FLAT_TREES_HOME = ("jax._src", "flattree")
LAYOUT_CONTEXT = ("jax._src.layout", "use_layout_mode")  # jax >= 0.11
POLICIES_HOME = "jax._src.ad_checkpoint"
