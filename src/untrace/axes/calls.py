"""Which axes are equal between an equation and the sub-programs it calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from untrace import jaxapi
from untrace.axes.factors import Dims, Factor, equate, keep
from untrace.axes.sites import Site
from untrace.ir import Block


def _call(*params: str) -> Callable[[Site], None]:
    """Relate a call to its body, which is in one of these params."""

    def rule(site: Site) -> None:
        param = next(param for param in params if param in site.params)
        _inside(site, site.params[param], site.operands, site.results)

    return rule


def _inside(
    site: Site, block: Block, operands: Sequence[Dims], results: Sequence[Dims]
) -> None:
    """Relate what goes into a sub-program and what comes out of it."""
    _equal(operands, site.input_dims(block))
    _equal(results, site.output_dims(block))


def _cond(site: Site) -> None:
    for branch in site.params["branches"]:
        _inside(site, branch, site.operands[1:], site.results)


def _while(site: Site) -> None:
    params, operands = site.params, site.operands
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    carry = operands[n_cond + n_body :]
    asked = params["cond_jaxpr"]
    _equal([*operands[:n_cond], *carry], site.input_dims(asked))
    body = params["body_jaxpr"]
    _inside(site, body, [*operands[n_cond : n_cond + n_body], *carry], site.results)
    _equal(carry, site.results)


def _scan(site: Site) -> None:
    n_consts, n_carry = jaxapi.scan_sizes(site.params)
    n_kept = n_consts + n_carry
    length = site.sizes["length"] = Factor(site.params["length"], is_kept=True)
    stacked = [*site.operands[n_kept:], *site.results[n_carry:]]
    _equal([dims[:1] for dims in stacked], [(length,)] * len(stacked))
    _equal(site.operands[n_consts:n_kept], site.results[:n_carry])
    _inside(
        site,
        site.params["jaxpr"],
        [*site.operands[:n_kept], *(dims[1:] for dims in site.operands[n_kept:])],
        [*site.results[:n_carry], *(dims[1:] for dims in site.results[n_carry:])],
    )


def _custom_linear_solve(site: Site) -> None:
    lengths, blocks = site.params["const_lengths"], site.params["jaxprs"]
    constants, before = list[Sequence[Dims]](), 0
    for length in lengths:
        constants.append(site.operands[before : before + length])
        before += length
    unknowns = site.operands[before:]
    _equal(unknowns, site.results)
    for block, given in zip(blocks, constants):
        if block is not None:
            _inside(site, block, [*given, *unknowns], site.results)


def _equal(left: Iterable[Dims], right: Iterable[Dims]) -> None:
    for mine, theirs in zip(left, right):
        for a, b in zip(mine, theirs):
            if a.size == b.size:
                equate([a], [b])
            else:
                keep((a, b))


CALL_LINKS: dict[str, Callable[[Site], None]] = {
    "jit": _call("jaxpr"),
    "pjit": _call("jaxpr"),
    "closed_call": _call("call_jaxpr"),
    "core_call": _call("call_jaxpr"),
    "remat2": _call("jaxpr"),
    "checkpoint": _call("jaxpr"),
    "custom_jvp_call": _call("call_jaxpr"),
    "custom_vjp_call": _call("call_jaxpr"),
    "custom_vmap_call": _call("call"),
    "composite": _call("jaxpr", "call_jaxpr"),
    "cond": _cond,
    "while": _while,
    "scan": _scan,
    "custom_linear_solve": _custom_linear_solve,
}
