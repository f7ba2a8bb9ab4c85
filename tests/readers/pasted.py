"""Jaxprs as they are pasted in issues and pull requests of JAX, typed again.

Where a thread shows some equations of a jaxpr, the lines around them are ours.
"""

from __future__ import annotations

from typing import NamedTuple

JAX = "https://github.com/jax-ml/jax"


class Pasted(NamedTuple):
    """A thread and what it shows; `error` is what is said if it cannot be read."""

    thread: str
    text: str
    error: str = ""


PASTED = [
    Pasted(
        f"{JAX}/pull/21415",
        """
        { lambda ; a:i32[]. let
            b:f32[] = convert_element_type[new_dtype=float32 weak_type=True] a
            c:f32[] = sin b
            d:f32[] = sin c
            e:f32[] = add d 2.0
          in (e,) }
        """,
    ),
    Pasted(
        f"{JAX}/pull/21415",
        """
        { lambda ; a:i32[]. let
            b:f32[] = convert_element_type[new_dtype=float32 weak_type=True] a
            c:f32[] = sin b
            d:f32[] = sin c
            e:f32[] = add d 2.0:f32[]
          in (e,) }
        """,
    ),
    Pasted(
        f"{JAX}/pull/30205",
        """
        Previous output:
        ```
        { lambda ; a:i32[10] b:i32[2]. let
            c:bool[2] = lt b 0
            d:i32[2] = add b 10
            e:i32[2] = select_n c b d
            f:i32[2,1] = broadcast_in_dim[
              broadcast_dimensions=(0,)
              shape=(2, 1)
              sharding=None
            ] e
            g:i32[2] = gather[
              dimension_numbers=GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,), operand_batching_dims=(), start_indices_batching_dims=())
              fill_value=None
              indices_are_sorted=False
              mode=GatherScatterMode.PROMISE_IN_BOUNDS
              slice_sizes=(1,)
              unique_indices=False
            ] a f
          in (g,) }
        ```
        """,
    ),
    Pasted(
        f"{JAX}/pull/30205",
        """
        { lambda ; a:i32[10] b:i32[2]. let
            c:i32[2,1] = broadcast_in_dim[
              broadcast_dimensions=(0,)
              shape=(2, 1)
              sharding=None
            ] b
            d:i32[2] = gather[
              dimension_numbers=GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,), operand_batching_dims=(), start_indices_batching_dims=())
              fill_value=None
              indices_are_sorted=False
              mode=GatherScatterMode.PROMISE_IN_BOUNDS
              slice_sizes=(1,)
              unique_indices=False
              wrap_negative_indices=True
            ] a c
          in (d,) }
        """,
        "wrap_negative_indices",
    ),
    Pasted(
        f"{JAX}/issues/3103",
        """
        Both print this:
        ```
        { lambda ; a:f32[10]. let
            b:bool[10] = gt a 0.0
            c:i32[10] = convert_element_type[new_dtype=int32 weak_type=False] b
            d:bool[10] = eq c 0
            e:f32[10] = stop_gradient a
            _:f32[10] = select_n d e a
            f:f32[10] = broadcast_in_dim[broadcast_dimensions=() shape=(10,)] 0.0
            g:bool[10] = eq c 1
            h:f32[10] = stop_gradient a
            i:f32[10] = select_n g h a
            j:f32[10] = sin i
            k:f32[10] = select_n c f j
          in (k,) }
        ```
        """,
    ),
    Pasted(
        f"{JAX}/pull/20017",
        """
        { lambda ; b:bool[]. let
            h:f32[] i:f32[] = pjit[
              name=_where
              jaxpr={ lambda ; j:bool[] k:f32[]. let
                  l:f32[] = select_n j k 0.0
                  m:f32[] = select_n j 0.0 k
                in (m, l) }
            ] b 1.0
          in (h, i) }
        """,
    ),
    Pasted(
        f"{JAX}/pull/20017",
        """
        { lambda ; b:bool[]. let
            h:f32[] i:f32[] = pjit[
              name=_where
              jaxpr={ lambda ; j:bool[] k:f32[]. let
                  l:bool[] = eq j False
                  m:f32[] = select_n l 0.0 k
                  n:bool[] = eq j True
                  o:f32[] = select_n n 0.0 k
                in (o, m) }
            ] b 1.0
          in (h, i) }
        """,
    ),
    Pasted(
        f"{JAX}/pull/22669",
        """
        In [2]: jax.make_jaxpr(lambda x: jnp.repeat(x, 3, axis=-1))(jnp.arange(12).reshape(3, 4))
        Out[2]:
        { lambda ; a:i32[3,4]. let
            b:i32[3,4,1] = broadcast_in_dim[broadcast_dimensions=(0, 1) shape=(3, 4, 1)] a
            c:i32[1,3,1,4,1,1] = reshape[dimensions=None new_sizes=(1, 3, 1, 4, 1, 1)] b
            d:i32[1,3,1,4,3,1] = broadcast_in_dim[
              broadcast_dimensions=(0, 1, 2, 3, 4, 5)
              shape=(1, 3, 1, 4, 3, 1)
            ] c
            e:i32[3,4,3] = reshape[dimensions=None new_sizes=(3, 4, 3)] d
            f:i32[3,12] = reshape[dimensions=None new_sizes=(3, 12)] e
          in (f,) }
        """,
    ),
    Pasted(
        f"{JAX}/pull/22669",
        """
        { lambda ; a:i32[3,4]. let
            b:i32[3,4,3] = broadcast_in_dim[broadcast_dimensions=(0, 1) shape=(3, 4, 3)] a
            c:i32[3,12] = reshape[dimensions=None new_sizes=(3, 12)] b
          in (c,) }
        """,
    ),
    Pasted(
        f"{JAX}/issues/15736",
        """
        Now I do `jax.make_jaxpr(fnc_jax)(1.0,1.0)`, which gives me the following output:

        ```
        { lambda ; a:f32[] b:f32[]. let
            c:f32[] = div a b
            d:f32[] = exp b
            e:f32[] = sub c d
            f:f32[] = div a b
            g:f32[] = sin f
            h:f32[] = div a b
            i:f32[] = add g h
            j:f32[] = exp b
            k:f32[] = sub i j
            l:f32[] = mul e k
          in (l,) }
        ```
        """,
    ),
    Pasted(
        f"{JAX}/pull/8667",
        """
        { lambda ; a:f32[]. let
            b:f32[] = xla_call[
              backend=None
              call_jaxpr={ lambda ; c:f32[]. let  in (c,) }
              device=None
              donated_invars=(False,)
              inline=False
              name=<lambda>
            ] a
          in (b,) }
        """,
    ),
    Pasted(
        f"{JAX}/pull/8667",
        """
        { lambda ; a:f32[]. let
            b:f32[] = xla_call[
              call_jaxpr={ lambda ; c:f32[]. let  in (c,) }
              name=<lambda>
            ] a
          in (b,) }
        """,
    ),
    Pasted(
        f"{JAX}/pull/26697",
        """
        { lambda ; a:f32[]. let
            b:f32[] = pjit[
                  name=<lambda>
                  jaxpr={ lambda ; a:f32[]. let b:f32[] = add a 1.0 in (b,) }
                  ] a
            in (b,) }
        """,
    ),
    Pasted(
        f"{JAX}/pull/26697",
        """
        { lambda ; a:f32[]. let
            b:f32[] = pjit[
                  name=<lambda>
                  jaxpr={ lambda ; c:f32[]. let d:f32[] = add c 1.0 in (d,) }
                  ] a
            in (b,) }
        """,
    ),
    Pasted(
        f"{JAX}/pull/18888",
        """
        { lambda ; a:f32[1]. let
            b:f32[1] = pjit[name=<lambda> jaxpr={ lambda ; c:f32[1]. let  in (c,) }] a
          in (b,) }
        """,
    ),
    Pasted(
        f"{JAX}/issues/11373",
        "{ lambda ; a:f32[]. let b:f32[] = mul a 1.0 in (b,) }",
    ),
    Pasted(
        f"{JAX}/pull/10573",
        """
        print(jaxpr)
        # { lambda ; a:f32[]. let
        #     b:f32[] = sin a
        #     c:f32[] = sin b
        #     d:f32[] = sin c
        #   in (d,) }
        """,
    ),
    Pasted(
        f"{JAX}/pull/12091",
        """
        In [4]: jax.make_jaxpr(lambda x: x[0, 1, 1:3])(x)
        { lambda ; a:i32[2,3,4]. let
            b:i32[1,1,2] = slice[
              limit_indices=(1, 2, 3)
              start_indices=(0, 1, 1)
              strides=(1, 1, 1)
            ] a
            c:i32[2] = squeeze[dimensions=(0, 1)] b
          in (c,) }
        """,
    ),
    Pasted(
        f"{JAX}/pull/12091",
        """
        { lambda ; a:i32[2,3,4]. let
            b:i32[1] = broadcast_in_dim[broadcast_dimensions=() shape=(1,)] 0
            c:i32[1] = broadcast_in_dim[broadcast_dimensions=() shape=(1,)] 1
            d:i32[1] = broadcast_in_dim[broadcast_dimensions=() shape=(1,)] 1
            e:i32[3] = concatenate[dimension=0] b c d
            f:i32[2] = gather[
              dimension_numbers=GatherDimensionNumbers(offset_dims=(0,), collapsed_slice_dims=(0, 1), start_index_map=(0, 1, 2))
              fill_value=None
              indices_are_sorted=True
              mode=GatherScatterMode.PROMISE_IN_BOUNDS
              slice_sizes=(1, 1, 2)
              unique_indices=True
            ] a e
          in (f,) }
        """,
    ),
    Pasted(
        f"{JAX}/pull/15347",
        """
        Out[4]: 
        { lambda ; a:i32[2,3,4]. let
            b:i32[1] = broadcast_in_dim[broadcast_dimensions=() shape=(1,)] 1
            c:i32[1] = broadcast_in_dim[broadcast_dimensions=() shape=(1,)] 0
            d:i32[2] = concatenate[dimension=0] b c
            e:i32[3,2] = gather[
              dimension_numbers=GatherDimensionNumbers(offset_dims=(0, 1), collapsed_slice_dims=(0,), start_index_map=(0, 2))
              fill_value=None
              indices_are_sorted=True
              mode=GatherScatterMode.PROMISE_IN_BOUNDS
              slice_sizes=(1, 3, 2)
              unique_indices=True
            ] a d
          in (e,) }
        """,
    ),
    Pasted(
        f"{JAX}/pull/15347",
        """
        { lambda ; a:i32[2,3,4]. let
            b:i32[1,3,2] = slice[
              limit_indices=(2, 3, 2)
              start_indices=(1, 0, 0)
              strides=(1, 1, 1)
            ] a
            c:i32[3,2] = squeeze[dimensions=(0,)] b
          in (c,) }
        """,
    ),
    Pasted(
        f"{JAX}/pull/28715",
        """
        { lambda ; a:f32[1]. let
            b:f32[1] = custom_vjp_call[
              bwd=Wrapped function:
        0   : _flatten_bwd   (PyTreeDef((*,)), [ShapedArray(float32[1])], <function transformation_with_aux2.<locals>.<lambda> at 0x1079a93a0>)
        1   : _get_result_paths_thunk   ()
        Core: f_bwd

              call_jaxpr={ lambda ; c:f32[1]. let d:f32[1] = add c 1.0:f32[] in (d,) }
              fwd_jaxpr_thunk=Wrapped function:

        Core: memoized

              num_consts=0
              out_trees=<function transformation_with_aux2.<locals>.<lambda> at 0x1079a93a0>
              symbolic_zeros=False
            ] a
          in (b,) }
        """,
    ),
    Pasted(
        f"{JAX}/pull/28715",
        """
        { lambda ; a:f32[1]. let
            b:f32[1] = custom_vjp_call[
              name=f
              bwd=f_bwd
              call_jaxpr={ lambda ; c:f32[1]. let d:f32[1] = add c 1.0:f32[] in (d,) }
              fwd=f_fwd
              symbolic_zeros=False
            ] a
          in (b,) }
        """,
    ),
    Pasted(
        f"{JAX}/pull/28608",
        """
        { lambda ; a:f32[] b:f32[]. let
            c:f32[] = custom_jvp_call[
              call_jaxpr={ lambda ; d:f32[] e:f32[]. let
                  f:f32[] = sin d
                  g:f32[] = mul f e
                in (g,) }
              jvp_jaxpr_fun=Wrapped function:

        Core: memoized

              symbolic_zeros=False
            ] a b
          in (c,) }
        """,
    ),
    Pasted(
        f"{JAX}/pull/28608",
        """
        { lambda ; a:f32[] b:f32[]. let
            c:f32[] = custom_jvp_call[
              name=f
              call_jaxpr={ lambda ; d:f32[] e:f32[]. let
                  f:f32[] = sin d
                  g:f32[] = mul f e
                in (g,) }
              jvp=f_jvp
              symbolic_zeros=False
            ] a b
          in (c,) }
        """,
    ),
    Pasted(
        f"{JAX}/issues/8025",
        """
        # gives
        # { lambda ; a:f64[]. let b:f64[] = sin a; c:f64[] = mul a b in (c,) }
        """,
    ),
    Pasted(
        f"{JAX}/issues/13600",
        """
        { lambda ; ij:f64[2] bv:f64[1]. let
            ip:f64[] = reduce_max[axes=(0,)] ij
            iq:f64[1] = broadcast_in_dim[broadcast_dimensions=() shape=(1,)] ip
            ir:f64[1] = stop_gradient iq
            is:f64[2] = sub ij ir
            it:f64[2] = exp is
            iu:f64[] = reduce_sum[axes=(0,)] it
            iv:f64[1] = broadcast_in_dim[broadcast_dimensions=() shape=(1,)] iu
            iw:f64[2] = div it iv
            ix:f64[1] = slice[limit_indices=(1,) start_indices=(0,) strides=(1,)] iw
            iy:f64[] = squeeze[dimensions=(0,)] ix
            jb:f64[2] = xla_call[
              call_jaxpr={ lambda ; jc:f64[1] jd:i64[]. let
                  je:i64[1] = reshape[dimensions=None new_sizes=(1,)] jd
                  jf:f64[1] = convert_element_type[new_dtype=float64 weak_type=False] je
                  jg:f64[2] = concatenate[dimension=0] jc jf
                in (jg,) }
              name=append
            ] bv 0
          in (iy, jb) }
        """,
    ),
    Pasted(
        f"{JAX}/issues/5460",
        """
        { lambda e:int32[3,3,2,2] ; f:float32[2,2,2].
          let g:float32[4,2] = reshape[ dimensions=None
                                        new_sizes=(4, 2) ] f
              h:float32[2,4] = transpose[ permutation=(1, 0) ] g
              i:int32[3,3,4] = reshape[ dimensions=None
                                        new_sizes=(3, 3, 4) ] e
          in (h, i) }
        """,
    ),
    Pasted(
        f"{JAX}/pull/18845",
        """
        { lambda ; a:i32[]. let
            debug_callback[
              callback=<function debug_callback.<locals>._flat_callback at 0x126cc7790>
              effect=Debug
            ] a
          in (a,) }
        """,
        "what `callback=<function",
    ),
    Pasted(
        f"{JAX}/issues/18802",
        """
        { lambda ; a:i32[]. let
             = debug_callback[
              callback=<function debug_callback.<locals>._flat_callback at 0x7c30cf833ac0>
              effect=Debug
            ] a
          in (a,) }
        """,
        "what `callback=<function",
    ),
    Pasted(
        f"{JAX}/pull/29169",
        """
        { lambda ; a:f32[1]. let
            b:f32[1] = custom_lin[
              bwd=f_bwd
              in_zeros=[False]
              num_res=0
              symbolic_zeros=False
            ] a
          in (b,) }
        """,
        "what `bwd=f_bwd`",
    ),
    Pasted(
        f"{JAX}/pull/3522",
        """
        { lambda  ; a b.
          let c = xla_call[ backend=None
                            call_jaxpr={ lambda  ; a.
                                         let b = sin a
                                         in (b,) }
                            device=None
                            donated_invars=(False,)
                            name=sin ] a
              d = sin c
              e = cos b
              f = add d e
          in (f,) }
        """,
        "the type of `a` is not printed",
    ),
]
