"""Rules for random numbers, linear algebra and the rest."""

# ruff: noqa: E501  # a rule is one line

from __future__ import annotations

from untrace.ir import Equation
from untrace.lifting.rules.table import rule
from untrace.lifting.rules.when import all_of, dtype_name

# ---- random numbers ----------------------------------------------------------------


def _one_key(eqn: Equation) -> bool:
    return all(tuple(atom.aval.shape) == () for atom in eqn.operands)


rule("random_seed", "jax.random.key({0}, impl={impl:impl})", when=_one_key)
rule("random_wrap", "jax.random.wrap_key_data({0}, impl={impl:impl})")
rule("random_unwrap", "jax.random.key_data({0})")
rule("random_split", "jax.random.split({0}, {shape:axis})", when=_one_key)
rule(
    "random_fold_in",
    "jax.random.fold_in({0}, {1})",
    when=all_of(_one_key, lambda eqn: dtype_name(eqn.operands[1]) == "uint32"),
)
rule("random_clone", "jax.random.clone({0})")
for width in (8, 16, 32, 64):
    rule(
        "random_bits",
        f"jax.random.bits({{0}}, {{shape}}, jnp.uint{width})",
        when=_one_key,
        bit_width=width,
    )
rule(
    "rng_bit_generator",
    "jax.lax.rng_bit_generator({0}, {shape}, {dtype:dtype}, algorithm={algorithm})",
    out_sharding=None,
)

# ---- linear algebra ----------------------------------------------------------------

rule("lu", "jax.lax.linalg.lu({0})")
rule(
    "qr",
    "jax.lax.linalg.qr({0}, pivoting={pivoting}, full_matrices={full_matrices}, use_magma={use_magma})",
)
rule(
    "svd",
    "(jax.lax.linalg.svd({0}, full_matrices={full_matrices}, compute_uv=False, subset_by_index={subset_by_index}, algorithm={algorithm}),)",
    compute_uv=False,
)
rule(
    "eig",
    "jax.lax.linalg.eig({0}, compute_left_eigenvectors={compute_left_eigenvectors}, compute_right_eigenvectors={compute_right_eigenvectors}, enable_eigvec_derivs={enable_eigvec_derivs}, implementation={implementation})",
)
rule(
    "schur",
    "jax.lax.linalg.schur({0}, compute_schur_vectors={compute_schur_vectors}, sort_eig_vals={sort_eig_vals}, select_callable={select_callable})",
)
rule("hessenberg", "jax.lax.linalg.hessenberg({0})")
rule("householder_product", "jax.lax.linalg.householder_product({0}, {1})")
rule("ormqr", "jax.lax.linalg.ormqr({0}, {1}, {2}, left={left}, transpose={transpose})")
rule("tridiagonal", "jax.lax.linalg.tridiagonal({0}, lower={lower})")
rule(
    "tridiagonal_solve",
    "jax.lax.linalg.tridiagonal_solve({0}, {1}, {2}, {3})",
    perturb_singular=False,
)
rule(
    "tridiagonal_solve",
    "jax.lax.linalg.tridiagonal_solve({0}, {1}, {2}, {3}, perturb_singular={perturb_singular})",
)
rule(
    "triangular_solve",
    "jax.lax.linalg.triangular_solve({0}, {1}, left_side={left_side}, lower={lower}, transpose_a={transpose_a}, conjugate_a={conjugate_a}, unit_diagonal={unit_diagonal})",
)
rule(
    "lu_pivots_to_permutation",
    "jax.lax.linalg.lu_pivots_to_permutation({0}, {permutation_size})",
)
rule("cholesky_update", "jax.lax.linalg.cholesky_update({0}, {1})")
rule(
    "symmetric_product",
    "jax.lax.linalg.symmetric_product({0}, {1}, alpha={alpha}, beta={beta})",
)

# ---- the rest ----------------------------------------------------------------------

rule("create_token", "jax.lax.create_token()")
rule("after_all", "jax.lax.after_all({operands})")
rule("dce_sink", "jax.lax.dce_sink({0})", prevent_mlir_dce=False)
rule("dim_as_value", "jnp.asarray({dim})")
