"""Attributes of composites and foreign calls, exported functions, checks, symbolic sizes."""

from __future__ import annotations

from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import checkify, sparse
from jax.experimental.custom_partitioning import custom_partitioning

from tests.verification.attacks.pairs import F32, Jaxpr, M, differs

POLICIES = jax.checkpoint_policies
B = 1.0 + 2.0**-30


def composite(
    body: Any = jnp.sin, name: str = "my.op", version: int = 0, **attributes: Any
) -> Any:
    return lambda x: lax.composite(lambda x, **_: body(x), name, version)(
        x, **attributes
    )


def foreign(target: str = "target", **attributes: Any) -> Any:
    options = {k: attributes.pop(k) for k in OPTIONS if k in attributes}
    shape = attributes.pop("shape", F32)
    return lambda x: jax.ffi.ffi_call(target, shape, **options)(x, **attributes)


OPTIONS = (
    "has_side_effect",
    "vmap_method",
    "input_layouts",
    "output_layouts",
    "input_output_aliases",
    "custom_call_api_version",
    "legacy_backend_config",
    "allow_spmd_partitioning",
)

for _what, _one, _other in (
    ("value", 1, 2),
    ("i32 or i64", np.int32(1), np.int64(1)),
    ("i8 or i32", np.int8(1), np.int32(1)),
    ("i32 or u32", np.int32(1), np.uint32(1)),
    ("number or i32", 1, np.int32(1)),
    ("f32 or f64", np.float32(1), np.float64(1)),
    ("f16 or f32", np.float16(1), np.float32(1)),
    ("bool or number", True, 1),
    ("bool or float", True, 1.0),
    ("number or float", 1, 1.0),
    ("sign of zero", 0.0, -0.0),
    ("NaN or infinity", np.nan, np.inf),
    ("double precision", 1.0, B),
    ("string", "a", "b"),
    ("string or number", "1", 1),
    ("array", np.arange(3), np.arange(1, 4)),
    ("array, dtype", np.arange(3, dtype=np.int32), np.arange(3, dtype=np.int64)),
    ("array, shape", np.zeros((2, 1), np.int32), np.zeros((1, 2), np.int32)),
    ("array or scalar", np.zeros((1,), np.int32), np.int32(0)),
):
    differs(
        f"attribute of a composite, {_what}", composite(a=_one), composite(a=_other)
    )
    differs(f"attribute of a foreign call, {_what}", foreign(a=_one), foreign(a=_other))

differs(
    "attribute of a foreign call, dictionary", foreign(a={"b": 1}), foreign(a={"b": 2})
)
differs(
    "attribute of a foreign call, i32 in a dictionary",
    foreign(a={"b": np.int32(1)}),
    foreign(a={"b": np.int64(1)}),
)
differs("attributes of a composite, name", composite(a=1), composite(b=1))
differs("attributes of a composite, which", composite(a=1, b=2), composite(a=2, b=1))
differs("attributes of a composite, none", composite(a=1), composite())
differs("composite, body", composite(), composite(jnp.cos))
differs("composite, name", composite(), composite(name="my.other"))
differs("composite, version", composite(), composite(version=1))
differs("composite or its body", composite(), jnp.sin)
differs("foreign call, target", foreign(), foreign("other"))
differs("foreign call, side effect", foreign(has_side_effect=True), foreign())
differs(
    "foreign call, vmap_method",
    foreign(vmap_method="sequential"),
    foreign(vmap_method="broadcast_all"),
)
differs(
    "foreign call, result",
    foreign(),
    foreign(shape=jax.ShapeDtypeStruct((4,), np.float16)),
)
differs("foreign call, aliases", foreign(input_output_aliases={0: 0}), foreign())
differs(
    "foreign call, layouts",
    *[
        lambda x, o=o: jax.ffi.ffi_call(
            "target", jax.ShapeDtypeStruct((3, 4), np.float32), input_layouts=[o]
        )(x)
        for o in ((0, 1), (1, 0))
    ],
    M,
)
differs(
    "foreign call, version of the interface",
    foreign(custom_call_api_version=4),
    foreign(custom_call_api_version=2),
)
differs(
    "foreign call, backend config",
    *[foreign(custom_call_api_version=2, legacy_backend_config=c) for c in ("a", "b")],
)
differs(
    "foreign calls with effects, one or two",
    lambda x: (lambda y: y + y)(foreign(has_side_effect=True)(x)),
    lambda x: foreign(has_side_effect=True)(x) + foreign(has_side_effect=True)(x),
)

# ---- remat -------------------------------------------------------------------------------


def block(x: Any, name: str = "a") -> Any:
    return jnp.sin(checkpoint_name(jnp.cos(x), name))


def remat(policy: Any = None, **options: Any) -> Any:
    return lambda x: jax.checkpoint(block, policy=policy, **options)(x)


differs("remat or none", remat(), block)
differs(
    "remat, policy", remat(POLICIES.dots_saveable), remat(POLICIES.everything_saveable)
)
differs("remat, policy or none", remat(POLICIES.nothing_saveable), remat())
differs("remat, names", *[remat(POLICIES.save_only_these_names(n)) for n in ("a", "b")])
differs(
    "remat, saved or not",
    remat(POLICIES.save_only_these_names("a")),
    remat(POLICIES.save_anything_except_these_names("a")),
)
differs(
    "remat, number of names",
    remat(POLICIES.save_only_these_names("a")),
    remat(POLICIES.save_only_these_names("a", "b")),
    because="more is saved",
)
differs(
    "remat, both policies",
    *[
        remat(
            POLICIES.save_from_both_policies(
                POLICIES.dots_saveable, POLICIES.save_only_these_names(n)
            )
        )
        for n in ("a", "b")
    ],
)
differs(
    "remat, offloading",
    *[
        remat(
            POLICIES.save_and_offload_only_these_names(
                names_which_can_be_saved=[],
                names_which_can_be_offloaded=["a"],
                offload_src="device",
                offload_dst=d,
            )
        )
        for d in ("pinned_host", "unpinned_host")
    ],
)
differs(
    "remat, policy of the user",
    *[remat(lambda p, *_, n=n, **__: p.name == n) for n in ("sin", "cos")],
    because="other values are saved",
)
differs("remat, prevent_cse", remat(prevent_cse=True), remat(prevent_cse=False))
differs("checkpoint_name", lambda x: block(x, "a"), lambda x: block(x, "b"))
differs("checkpoint_name or none", lambda x: block(x), lambda x: jnp.sin(jnp.cos(x)))

# ---- exported, partitioned, checked ----------------------------------------------------------


def exported(f: Any, *shapes: Any, **options: Any) -> Any:
    made = jax.export.export(jax.jit(f), **options)(*(shapes or (F32,)))
    return lambda x: made.call(x)


SCOPE = jax.export.SymbolicScope()


def symbolic(text: str, constraints: Any = ()) -> Any:
    scope = jax.export.SymbolicScope(constraints) if constraints else SCOPE
    shape = jax.export.symbolic_shape(text, scope=scope)
    return jax.ShapeDtypeStruct(shape, np.float32)


def sized(text: str, constraints: Any = ()) -> Jaxpr:
    given = symbolic(text, constraints)
    return Jaxpr(lambda: jax.make_jaxpr(lambda x: jnp.sin(x))(given))


def partitioned(name: str = "a", n: int = 2, rule: str = "i -> i") -> Any:
    f = custom_partitioning(lambda x: x * 2)

    def partition(mesh: Any, args: Any, result: Any) -> Any:
        return mesh, lambda x: x * n, args[0].sharding, (args[0].sharding,)

    f.def_partition(
        partition=partition,
        infer_sharding_from_operands=lambda *a: None,
        sharding_rule=rule,
    )
    return lambda x: f(x)


def checked(text: str, debug: bool = False, n: float = 0.0) -> Any:
    def f(x: Any) -> Any:
        (checkify.debug_check if debug else checkify.check)(x[0] > n, text, x=x[0])
        return x

    return f


differs("exported function", exported(jnp.sin), exported(jnp.cos))
differs(
    "exported function, a constant",
    *[exported(lambda x, n=n: x * n) for n in (2.0, 3.0)],
)
differs(
    "exported function, platforms",
    exported(jnp.sin, platforms=["cpu"]),
    exported(jnp.sin, platforms=["cpu", "cuda"]),
)
differs(
    "exported function, symbolic or not",
    exported(jnp.sin, symbolic("n")),
    exported(jnp.sin),
)
differs(
    "exported function, constraints",
    exported(jnp.sin, symbolic("n", ["n >= 2"])),
    exported(jnp.sin, symbolic("n", ["n >= 3"])),
)
differs(
    "symbolic size, name", sized("n"), sized("m"), because="the sizes have other names"
)
differs(
    "symbolic size, expression",
    sized("2*n"),
    sized("3*n"),
    because="other sizes are allowed",
)
differs(
    "symbolic size, constraint",
    sized("n", ["n >= 2"]),
    sized("n", ["n >= 3"]),
    because="other sizes are allowed",
)
differs(
    "symbolic size or number",
    sized("n"),
    Jaxpr(lambda: jax.make_jaxpr(lambda x: jnp.sin(x))(F32)),
)
differs(
    "symbolic sizes, one or two",
    sized("n, n"),
    sized("n, m"),
    because="other sizes are allowed",
)
differs(
    "partitioned function, rule",
    partitioned(n=2),
    partitioned(n=3),
    because="the parts are computed otherwise",
)
differs(
    "partitioned function, sharding rule",
    partitioned(),
    partitioned(rule="i -> j"),
    because="the rules differ",
)
differs(
    "check, message", checked("a {x}"), checked("b {x}"), because="the messages differ"
)
differs("check, condition", checked("a {x}"), checked("a {x}", n=1.0))
differs(
    "check, debug",
    checked("a {x}"),
    checked("a {x}", debug=True),
    because="the checks differ",
)
differs(
    "sparse, number of elements",
    *[lambda x, n=n: sparse.BCOO.fromdense(x, nse=n).data for n in (2, 3)],
)
differs(
    "sparse, sorted indices",
    *[
        lambda x, n=n: (
            sparse.BCOO((x, jnp.arange(4)[:, None]), shape=(4,), indices_sorted=n)
            @ jnp.ones((4,))
        )
        for n in (True, False)
    ],
)
differs(
    "sparse, unique indices",
    *[
        lambda x, n=n: sparse.BCOO(
            (x, jnp.arange(4)[:, None]), shape=(4,), unique_indices=n
        ).todense()
        for n in (True, False)
    ],
)
differs(
    "sparse, shape",
    *[
        lambda x, n=n: sparse.BCOO((x, jnp.arange(4)[:, None]), shape=(n,)).todense()
        for n in (4, 5)
    ],
)
