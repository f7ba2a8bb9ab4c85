"""Programs that use primitives which neither the harness nor a pair uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np
from jax import lax
from jax._src.state.discharge import run_state
from jax.experimental import pallas as pl
from jax.experimental import sparse
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.random import threefry_2x32

from tests.verification.attacks.pairs import I, M, S, X, Y

V = np.ones(3, np.float32)
U = np.arange(4, dtype=np.uint32)
COO = lambda x: sparse.COO.fromdense(x, nse=4)
CSR = lambda x: sparse.CSR.fromdense(x, nse=4)
BCOO = lambda x: sparse.BCOO.fromdense(x, nse=4)
BCSR = lambda x: sparse.BCSR.fromdense(x, nse=4)


def scoped(x_ref: Any, o_ref: Any) -> None:
    def body(s_ref: Any) -> None:
        s_ref[...] = x_ref[...]
        o_ref[...] = s_ref[...]

    pl.run_scoped(body, pl.MemoryRef(jax.core.ShapedArray((4,), np.float32), pl.ANY))


def kernel(body: Any) -> Any:
    return lambda x: pl.pallas_call(
        body, jax.ShapeDtypeStruct((4,), np.float32), interpret=True
    )(x)


def adding(x: Any) -> Any:
    ref = jax.new_ref(x)
    jax.ref.addupdate(ref, 0, 1.0)
    return ref[...]


def selecting(x: Any) -> Any:
    return jax.grad(
        lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 2), (1, 1), "VALID").sum()
    )(x)


def stateful(x: Any) -> Any:
    def body(refs: Any) -> None:
        refs[0][...] = refs[1][...] * 2.0

    return run_state(body)((x, x))


def tokens(x: Any) -> Any:
    return lax.after_all(lax.create_token(x), lax.create_token(x))


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "cholesky_update": (lax.linalg.cholesky_update, (S, V)),
    "hessenberg": (lax.linalg.hessenberg, (S,)),
    "householder_product": (lax.linalg.householder_product, (S, V)),
    "lu_pivots_to_permutation": (
        lambda i: lax.linalg.lu_pivots_to_permutation(i, 4),
        (I,),
    ),
    "schur": (lax.linalg.schur, (S,)),
    "symmetric_product": (lax.linalg.symmetric_product, (S, S)),
    "tridiagonal": (lax.linalg.tridiagonal, (S,)),
    "ormqr": (lambda a, t: lax.linalg.ormqr(a, t, a), (S, V)),
    "geqrf": (lambda a: jnp.linalg.qr(a, mode="raw"), (S,)),
    "zeta": (jax.scipy.special.zeta, (Y, Y)),
    "polygamma": (lambda x: jax.scipy.special.polygamma(1, x), (Y,)),
    "igamma_grad_a": (jax.grad(lambda a, x: lax.igamma(a, x).sum()), (Y, Y)),
    "clz": (lax.clz, (I,)),
    "exp2": (lax.exp2, (X,)),
    "mulhi": (lambda x: lax.mulhi(x, x), (I,)),
    "select_and_scatter": (selecting, (M,)),
    "reduce_xor": (lambda x: lax.reduce_xor(x, (0,)), (I,)),
    "scatter-sub": (lambda x, i: x.at[i].subtract(1.0), (X, I)),
    "eq_to": (lambda x: lax.eq_to_p.bind(x, x), (X,)),
    "le_to": (lambda x: lax.le_to_p.bind(x, x), (X,)),
    "run_scoped": (kernel(scoped), (X,)),
    "addupdate": (adding, (X,)),
    "run_state": (stateful, (X,)),
    "tokens": (tokens, (X,)),
    "free_ref": (lambda x: jax.free_ref(jax.new_ref(x)), (X,)),
    "unstack": (lambda x: jnp.unstack(x), (X,)),
    "tile": (lambda x: lax.tile(x, (2,)), (X,)),
    "threefry2x32": (lambda u: threefry_2x32(u[:2], u), (U,)),
    "inspect_sharding": (
        lambda x: jax.debug.inspect_array_sharding(x, callback=print),
        (X,),
    ),
    "coo": (lambda x, v: (COO(x) @ v, COO(x) @ x, COO(x).todense()), (S, V)),
    "csr": (lambda x, v: (CSR(x) @ v, CSR(x) @ x, CSR(x).todense()), (S, V)),
    "bcoo": (
        lambda x, v: (
            BCOO(x).T,
            BCOO(x).sort_indices(),
            BCOO(x).sum_duplicates(nse=4),
            BCOO(x) @ BCOO(x),
        ),
        (S, V),
    ),
    "bcoo_extract": (lambda x: sparse.bcoo_extract(BCOO(x), x), (S,)),
    "bcoo_dot_general_sampled": (
        lambda x: sparse.bcoo_dot_general_sampled(
            x, x, BCOO(x).indices, dimension_numbers=(((1,), (0,)), ((), ()))
        ),
        (S,),
    ),
    "bcsr": (
        lambda x, v: (
            BCSR(x) @ x,
            BCSR(x).todense(),
            sparse.bcsr_extract(BCSR(x).indices, BCSR(x).indptr, x),
        ),
        (S, V),
    ),
    "todense": (lambda x: sparse.todense(x), (S,)),
    "spsolve": (
        lambda d, i, p, b: sparse.linalg.spsolve(d, i, p, b),
        (V, np.arange(3, dtype=np.int32), np.arange(4, dtype=np.int32), V),
    ),
    "symbolic": (
        lambda x: (jnp.arange(x.shape[0]), x.sum() / x.shape[0]),
        (jax.ShapeDtypeStruct(jax.export.symbolic_shape("n"), np.float32),),
    ),
    "scaled_matmul": (
        lambda a: jax.nn.scaled_matmul(
            a,
            a,
            a[..., :1].astype(jnp.float8_e8m0fnu),
            a[..., :1].astype(jnp.float8_e8m0fnu),
        ),
        (jnp.ones((1, 32, 32), jnp.float8_e4m3fn),),
    ),
    "xla_metadata_value": (lambda x: set_xla_metadata(x * 2, a=1), (X,)),
    "custom_lin": (lambda x: jax.linearize(_ruled, x)[1](x), (X,)),
    "linearized": (
        lambda x: jax.linearize(
            lambda x: lax.custom_root(
                lambda v: v**2 - x, x, lambda f, x: x, lambda g, y: y
            ),
            x,
        )[1](x),
        (1.0,),
    ),
    "remat_opt": (jax.grad(lambda x: jax.checkpoint(_optimized)(x).sum()), (X,)),
    "psum_invariant": (
        lambda x: jax.shard_map(
            lambda x: lax.psum(x, "a"),
            mesh=_MESH,
            in_specs=jax.P("a"),
            out_specs=jax.P(),
        )(x),
        (X,),
    ),
}
_MESH = jax.make_mesh(
    (2,), ("a",), (jax.sharding.AxisType.Auto,), devices=jax.devices()[:2]
)


@jax.custom_vjp
def _ruled(x: Any) -> Any:
    return x


_ruled.defvjp(lambda x: (x, None), lambda r, ct: (ct,))


@jax.custom_vjp
def _optimized(x: Any) -> Any:
    return jnp.sin(x)


_optimized.defvjp(
    lambda x: (jnp.sin(x), jnp.cos(x)), lambda r, ct: (ct * r,), optimize_remat=True
)
