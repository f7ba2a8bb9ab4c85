"""Primitives for which there is no pair of programs, and fields that say nothing.

A primitive of JAX that is neither traced nor listed here fails the suite, and so does
one that is listed and traced.
"""

from __future__ import annotations

UNREACHED: dict[str, str] = {}
"""By primitive, the reason."""


def unreached(why: str, *names: str) -> None:
    """List primitives with one reason."""
    UNREACHED.update(dict.fromkeys(names, why))


unreached(
    "asynchronous collectives: made for accelerators, by no public function",
    "all_gather_done",
    "all_gather_reduced_start",
    "all_gather_start",
    "all_to_all_done",
    "all_to_all_start",
    "pbroadcast_done",
    "pbroadcast_start",
    "ppermute_done",
    "ppermute_start",
    "psum_done",
    "psum_invariant_start",
    "psum_start",
    "reduce_scatter_done",
    "reduce_scatter_start",
    "unreduced_psum_start",
    "unreduced_reduce_scatter_start",
    "precv",
    "psend",
)
unreached(
    "collectives over explicit or reduced axes, by no public function",
    "all_gather_invariant",
    "all_gather_reduced",
    "pbroadcast_dynamic",
    "preduced",
    "reduced_vary_cast",
    "reduced_vary_cast_p",
    "unreduced_pmax",
    "unreduced_pmin",
    "unreduced_psum",
    "unreduced_reduce_scatter",
    "vary_unreduced_cast",
    "vary_unreduced_cast_p",
)
unreached(
    "kernels of vendors: tracing asks for the library",
    "cudnn_fusion",
    "dot_product_attention_bwd",
    "dot_product_attention_bwd_wrapper",
    "dot_product_attention_fp8_bwd",
    "dot_product_attention_fp8_bwd_wrapper",
    "dot_product_attention_fp8_fwd",
    "dot_product_attention_fp8_fwd_wrapper",
    "dot_product_attention_fwd",
    "dot_product_attention_fwd_wrapper",
    "scaled_matmul",
    "coo_spmm",
    "coo_spmv",
    "csr_spmm",
    "csr_spmv",
)
unreached(
    "experiments of JAX that no public function makes",
    "accum_grad_in_ref",
    "box_get",
    "box_set",
    "call_hi_primitive",
    "call_hi_primitive_linearized",
    "core_map",
    "create_linear",
    "dce_sink",
    "eval_jaxpr",
    "get_global",
    "log_extend",
    "log_read",
    "mpmd_map",
    "new_box",
    "new_log",
    "pin",
    "relayout",
    "stage",
    "tie",
    "unpin",
    "unreachable",
    "xla_metadata_call",
)
unreached(
    "what compiling makes: it stands in no jaxpr that a function traces to",
    "broadcast_to",
    "call",
    "dimension_size",
    "empty",
    "from_edtype",
    "geqp3",
    "philox2x32",
    "philox4x32",
    "polynomial",
    "reciprocal",
    "scaled_dot",
    "select_and_scatter",
    "shape_assertion",
    "threefry4x32",
    "to_edtype",
    "with_memory_space_constraint",
)
unreached(
    "for arrays of several hosts",
    "global_array_to_host_local_array",
    "host_local_array_to_global_array",
)
unreached(
    "refs and masks inside kernels of one backend",
    "empty_ref",
    "masked_load",
    "masked_swap",
)

EQUAL_FLOW: dict[tuple[str, str], str] = {
    ("free_ref", ""): "jax 0.10 gives it no effect and no result, so it is dead",
    ("jit", "name"): "a label",
    ("jit", "inline"): "how a call is compiled; it is opened",
    ("jit", "keep_unused"): "how a call is compiled; it is opened",
    (
        "jit",
        "ctx_mesh",
    ): "the mesh around a call; what it means stands in the equations",
}
"""Fields that `equivalent` may leave out, and why."""

FIELD_HOLES: dict[tuple[str, str], str] = {
    ("jit", "ctx_mesh"): "calls are opened though their mesh says which devices",
}
"""Fields that `equivalent` leaves out and should not: faults, as those of `holes.py`."""

RECOUNTED: dict[tuple[str, str], str] = {
    **{
        ("jit", name): "options that are none in every way are none"
        for name in (
            "in_shardings",
            "out_shardings",
            "in_layouts",
            "out_layouts",
            "donated_invars",
        )
    },
    ("while", "cond_nconsts"): "constants are counted again once dead ones are gone",
    ("while", "body_nconsts"): "constants are counted again once dead ones are gone",
}
"""Fields that `equivalent` may leave out where only their form changes, and why."""

FORMS = (
    " shortened",
    " as list",
    " as int",
    " as bool",
    " as float",
    "(None,",
    "(UnspecifiedValue,",
)
"""Changes of the form alone, by how they are called."""
