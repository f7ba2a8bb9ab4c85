"""Printed jaxprs are read as what they say, and the rest is a `ParseError`."""

import itertools
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.corpus import parsed
from tests.readers.mutations import mutated
from tests.readers.pasted import pasted
from tests.readers.printed_texts import RELEASES, strength, texts
from untrace import ParseError, parse
from untrace.verification.compare import compare


def read_back(function, *args):
    """Trace a function, print the jaxpr, read that and compare."""
    jaxpr = jax.make_jaxpr(function)(*args)
    found = parse(str(jaxpr))
    assert compare(jaxpr, found) is None, compare(jaxpr, found)
    return found


def error_of(text):
    with pytest.raises(ParseError) as caught:
        parse(text)
    return caught.value


# -- what is read


@pytest.mark.parametrize(
    "corpus, step, offset, least",
    [("harness", 90, 7, 0.97), ("programs", 700, 11, 0.6)],
    ids=lambda value: str(value),
)
def test_what_jax_prints_of_the_corpora_is_read_back(corpus, step, offset, least):
    outcomes = list(parsed.outcomes(corpus, step, offset))
    faults = [each for each in outcomes if each.verdict in parsed.FAULTS]
    assert not faults
    told = [e for e in outcomes if e.verdict not in ("untraceable", "unprintable")]
    identical = [each for each in told if each.verdict == "identical"]
    assert len(identical) >= least * len(told)


@pytest.mark.parametrize("release", RELEASES)
def test_texts_of_old_releases_are_the_programs_of_today(release):
    found = {name: strength(name, text) for name, text in texts(release)}
    assert len(found) >= 40
    proved = [name for name, how in found.items() if how in ("identical", "equivalent")]
    assert len(proved) >= 29, found


@pytest.mark.parametrize("each", pasted(), ids=lambda p: p.thread.partition(".com/")[2])
def test_jaxprs_as_they_are_pasted_in_issues(each):
    if each.error:
        assert each.error in str(error_of(each.text))
    else:
        jaxpr = parse(each.text)
        assert len(jaxpr.out_avals) > 0


def test_most_pasted_jaxprs_are_read():
    assert sum(not each.error for each in pasted()) >= 25


def test_variables_may_be_called_as_keywords_are():
    def long(x):
        for _ in range(300):
            x = jnp.sin(x)
        return x

    text = str(jax.make_jaxpr(long)(jnp.ones(3)))
    assert "in:f32[3] = " in text
    read_back(long, jnp.ones(3))
    named = "{ lambda ; let:f32[] inf:f32[]. let in:f32[] = add let inf in (in,) }"
    assert parse(named).eqns[0].primitive.name == "add"


def test_numbers_of_all_kinds():
    read_back(lambda x: x * jnp.inf + 1e-5 - (2 + 3j), jnp.ones(3, jnp.complex64))
    read_back(lambda x: jnp.where(x > 0, jnp.nan, -jnp.inf), jnp.ones(3))
    read_back(lambda x: x * np.float32(0.1) + 0.1, jnp.ones(3))
    read_back(lambda b: b & True, jnp.array([True]))


def test_shared_jaxprs_stay_shared():
    @jax.jit
    def twice(x):
        return x * 2

    found = read_back(lambda x: twice(twice(x)), jnp.ones(3))
    first, second = found.eqns
    assert first.params["jaxpr"] is second.params["jaxpr"]


def test_references_are_read_and_written():
    def function(x):
        ref = jax.new_ref(x)
        ref[0] = 2.0
        ref[1:3] += x[1:3]
        return ref[...]

    jaxpr = jax.make_jaxpr(function)(jnp.arange(4.0))
    found = parse(str(jaxpr))
    assert str(found) == str(jaxpr)
    wanted = function(jnp.arange(4.0))
    np.testing.assert_array_equal(untrace.load(found)(jnp.arange(4.0)), wanted)


def test_constants_become_arguments():
    constant = np.arange(3.0, dtype=np.float32)
    text = str(jax.make_jaxpr(lambda x: x + constant)(jnp.ones(3)))
    found = untrace.load(text)(constant, jnp.ones(3))
    np.testing.assert_array_equal(found, constant + 1)


def test_constants_of_inner_jaxprs_become_arguments():
    text = """
    { lambda ; a:f32[3]. let
        b:f32[3] = pjit[
          name=outer
          jaxpr={ lambda c:f32[3]; d:f32[3]. let
              e:f32[3] = pjit[
                name=inner
                jaxpr={ lambda f:f32[3]; g:f32[3]. let h:f32[3] = mul f g in (h,) }
              ] d
              i:f32[3] = add e c
            in (i,) }
        ] a
      in (b,) }
    """
    found = untrace.load(text)(jnp.full(3, 2.0), jnp.full(3, 3.0), jnp.full(3, 4.0))
    assert found.tolist() == [3.0 * 4.0 + 2.0] * 3


def test_arguments_are_called_as_in_the_text():
    jaxpr = parse("{ lambda ; a:f32[] beta:f32[]. let c:f32[] = add a beta in (c,) }")
    assert jaxpr.jaxpr.debug_info.arg_names == ("a", "beta")


def test_derivative_rules_of_jax_are_known_and_others_say_that_they_are_not():
    text = str(jax.make_jaxpr(jax.nn.silu)(jnp.ones(3)))
    assert compare(jax.make_jaxpr(jax.nn.silu)(jnp.ones(3)), parse(text)) is None
    function = untrace.load(str(jax.make_jaxpr(jax.nn.relu)(jnp.ones(()))))
    assert jax.grad(function)(3.0) == 1.0
    own = next(each.text for each in pasted() if "jvp=f_jvp" in each.text)
    assert untrace.load(own)(1.0, 2.0) == pytest.approx(2 * np.sin(1.0))
    with pytest.raises(untrace.LoadError, match="derivative of `f` is not known"):
        jax.grad(untrace.load(own))(1.0, 2.0)


def test_texts_of_64_bits_are_read_where_jax_computes_in_32():
    text = "{ lambda ; a:f64[2]. let b:f64[2] = mul a 0.1 in (b,) }"
    assert parse(text).out_avals[0].dtype == np.float64
    source = untrace.source(text)
    assert source.report.strength == "identical"


@pytest.mark.parametrize(
    "options",
    [
        {"use_color": True},
        {"source_info": True},
        {"name_stack": True},
        {"print_effects": True},
        {"custom_pp_eqn_rules": False},
    ],
    ids=lambda options: next(iter(options)),
)
def test_jaxprs_are_read_however_they_are_printed(options):
    double = jax.jit(lambda y: y * 2.0)
    jaxpr = jax.make_jaxpr(lambda x: jnp.sin(double(x)))(jnp.ones(3))
    found = parse(jaxpr.pretty_print(**options))
    assert compare(jaxpr, found) is None


def test_what_is_printed_while_a_program_runs_is_read():
    def function(x):
        jax.debug.print("x is {} [{y}] isn't it", x, y=x)
        return x

    jaxpr = jax.make_jaxpr(function)(jnp.ones(3))
    assert compare(jaxpr, parse(str(jaxpr))) is None


# -- text around it


def test_a_jaxpr_is_found_in_text_and_quotations():
    plain = "{ lambda ; a:f32[3]. let\n    b:f32[3] = sin a\n  in (b,) }"
    for mark in ("", "> ", ">> ", "    ", "# ", "E   "):
        lines = "\n".join(mark + line for line in plain.split("\n"))
        found = parse(f"I see\n\n```\n{lines}\n```\nand {{x}} then\n")
        assert str(found) == str(parse(plain)), mark
    assert str(parse(f"jaxpr: {plain}")) == str(parse(plain))


def test_a_jaxpr_that_cannot_be_read_is_not_replaced_by_one_inside_of_it():
    text = """{ lambda ; a:f32[]. let
        b:f32[] = pjit[name=f jaxpr={ lambda ; c:f32[]. let in (c,) }] a
        c:f32[] = unknown_thing b
      in (c,) }"""
    assert "unknown_thing" in str(error_of(text))


# -- errors


@pytest.mark.parametrize(
    "text, line, column, said",
    [
        ("{ lambda ; a:f32[]. let b:f32[] = sine a in (b,) }", 1, 35, "Is it `sin`"),
        ("{ lambda ; a:f32[]. let\n  b:f32[3] = sin a\n in (b,) }", 2, 3, "is f32[]"),
        ("{ lambda ; a:f32[]. let b:f32[] = sin c in (b,) }", 1, 39, "not defined"),
        ("{ lambda ; a:f32[]. let b:f32[] = sin a", 1, 40, "ends"),
        ("{ lambda ; a. let b = sin a in (b,) }", 1, 12, "type of `a`"),
        ("{ lambda ; a:f32[]. let b:f32[] = sin a a in (b,) }", 1, 35, "not possible"),
        ("{ lambda ; a:q32[]. let in (a,) }", 1, 12, "no type of elements"),
        ("say\n{ lambda x: 1 }", 2, 11, "`;` is expected"),
        ("no program\nat all", 1, 1, "no jaxpr in this text"),
        ("{ lambda ; a:f32[2@x]. let in (a,) }", 1, 12, "sharded"),
    ],
)
def test_errors_show_the_place_and_what_to_do(text, line, column, said):
    error = error_of(text)
    assert (error.line, error.column) == (line, column), str(error)
    assert said in str(error)
    shown = str(error).split("\n")
    assert shown[2].index("^") - 4 == min(column - 1, 60)


def test_a_jaxpr_that_is_used_in_its_own_definition_is_refused():
    text = """let f = { lambda ; a:f32[]. let b:f32[] = jit[name=f jaxpr=f] a in (b,) } in
    { lambda ; a:f32[]. let b:f32[] = jit[name=f jaxpr=f] a in (b,) }"""
    assert "its own definition" in str(error_of(text))


def test_deep_nesting_is_refused():
    deep = "{ lambda ; a:f32[]. let b:f32[] = jit[name=f jaxpr=" * 5000
    assert "nests deeper" in str(error_of(deep))
    values = f"{{ lambda ; a:f32[]. let b:f32[] = sin[x={'(' * 50000}"
    assert "end" in str(error_of(values)) or "deeper" in str(error_of(values))


def test_mutated_texts_give_jaxprs_or_errors():
    start = time.perf_counter()
    for text, _ in itertools.islice(mutated(seed=1), 400):
        try:
            parse(text)
        except ParseError as error:
            assert error.line >= 1
    assert time.perf_counter() - start < 60


@pytest.mark.parametrize(
    "text",
    [
        "{ lambda" * 20000,
        "let " * 20000,
        "{ lambda ; a:f32[]. let b:f32[] = sin[" + "x=(" * 20000,
        "{ lambda ; a:f32[]. let b:f32[] = sin[x=" + "<" * 50000,
        "{ lambda ; a:f32[]. let b:f32[] = sin[x='" + "\\" * 50000,
        "{ lambda ; " + "a:f32[] " * 20000,
        "{ lambda ; a:f32[]. let" + "\n" * 50000,
        "{ lambda ; a:f32[]. let b:f32[] = add a 1" + "0" * 50000 + " in (b,) }",
    ],
    ids=lambda text: text[-12:],
)
def test_hostile_texts_are_refused_soon(text):
    start = time.perf_counter()
    error_of(text)
    assert time.perf_counter() - start < 3


def test_a_result_that_is_dropped_further_out_is_called_so_inside() -> None:
    text = """
{ lambda ; a:f32[3]. let
    b:f32[3] _:f32[3] = jit[
      name=f
      jaxpr={ lambda ; a:f32[3]. let _:f32[3] = sin a; b:f32[3] = mul _ 2.0:f32[] in (b, _) }
    ] a
  in (b,) }
"""
    jaxpr = untrace.parse(text)
    (inner,) = jaxpr.eqns
    sine, product = inner.params["jaxpr"].eqns
    assert product.invars[0] is sine.outvars[0]
    with pytest.raises(untrace.ParseError, match="which of 2 variables"):
        untrace.parse(
            text.replace("_:f32[3] = sin a;", "_:f32[3] = sin a; _:f32[3] = cos a;")
        )


def test_an_arrow_is_no_number():
    with pytest.raises(ParseError, match="line 1"):
        parse("{ lambda ; a:f32[]. let b:f32[] = mul a -> in (b,) }")


@pytest.mark.parametrize(
    "precision",
    [
        jax.lax.Precision.HIGHEST,
        jax.lax.DotAlgorithmPreset.BF16_BF16_F32_X3,
        jax.lax.DotAlgorithmPreset.DEFAULT,
        jax.lax.DotAlgorithm(jnp.float32, jnp.float32, jnp.float32),
    ],
    ids=str,
)
def test_precisions_of_products_are_read(precision):
    x = jax.ShapeDtypeStruct((2, 2), jnp.float32)
    read_back(lambda a, b: jnp.matmul(a, b, precision=precision), x, x)
