"""Ctrl-C: wherever it strikes, it is answered, and what was found is written."""

import signal

import jax.numpy as jnp
import pytest
from click.testing import CliRunner

import untrace
from untrace import reducing
from untrace.cli import main
from untrace.reduction.interrupts import MAX_HELD, Interrupts


@pytest.fixture(autouse=True)
def _interrupts_are_raised():
    """What a shell starts in the background ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def failing(x):
    return jnp.sum(jnp.log(jnp.tanh(x) * 2.0 - 1.0) * 3.0)


class Striking:
    """Sends interrupts at the first event of a kind and name."""

    def __init__(self, kind, name=None, times=1):
        self.wanted, self.times, self.kinds = (kind, name), times, []

    def __call__(self, kind, facts):
        self.kinds.append(kind)
        if self.times and (kind, facts.get("name")) == self.wanted:
            times, self.times = self.times, 0
            for i in range(times):
                try:
                    signal.raise_signal(signal.SIGINT)
                except KeyboardInterrupt:
                    if i == times - 1:
                        raise


def reduced(notify):
    shrink = untrace.reduce(failing, keep="nan()", notify=notify)
    try:
        return shrink(jnp.zeros(3))
    finally:
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("stage", "look for inputs with which it is fine"),
        ("pinned", None),
        ("pass", "open calls"),
        ("accepted", None),
    ],
)
def test_the_first_ends_the_search_and_the_best_is_run_once_more(kind, name):
    striking = Striking(kind, name)
    reduction = reduced(striking)
    assert "it was interrupted" in reduction.summary()
    assert striking.kinds.count("interrupted") == 1
    assert "hurried" not in striking.kinds
    assert "not run once more" not in reduction.summary()
    assert "Fails on: jax" in str(reduction.source)


@pytest.mark.parametrize(
    ("kind", "name", "times"),
    [
        ("stage", "look for inputs with which it is fine", 2),
        ("pinned", None, 2),
        ("accepted", None, 2),
        ("interrupted", None, 1),
        ("pass", "run it once more", 1),
        ("pass", "say why it fails", 1),
        ("pass", "write it", 1),
        ("hurried", None, 1),
    ],
)
def test_a_second_one_has_the_best_written_at_once(kind, name, times):
    first = Striking("pass", "open calls", kind in ("interrupted", "hurried"))
    second = Striking(kind, name, times)
    third = Striking("interrupted", None, kind == "hurried")

    def notify(kind, facts):
        for striking in (second, third, first):
            striking(kind, facts)

    reduction = reduced(notify)
    assert "hurried" in second.kinds
    assert "not run once more" in reduction.summary()
    assert "def failing(" in str(reduction.source)


def test_while_the_original_is_run_there_is_nothing_to_write():
    with pytest.raises(KeyboardInterrupt):
        reduced(Striking("stage", "run the original"))


def test_whoever_insists_is_heard():
    with Interrupts() as interrupts:
        for _ in range(MAX_HELD):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert interrupts.count == MAX_HELD + 1


def test_another_handler_stays():
    def handler(number, frame):
        raise AssertionError

    signal.signal(signal.SIGINT, handler)
    try:
        with Interrupts():
            assert signal.getsignal(signal.SIGINT) is handler
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(
        "import jax.numpy as jnp\ndef f(x):\n    return jnp.log(x - 2.0)\n"
    )
    return ["reduce", "model.py", "f(1.0)"]


def interrupt(*arguments, **options):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("untrace.cli.reducing.taken", "while the program was read"),
        ("untrace.reducing.pin", 'before a failure was found, at "run the original"'),
        ("untrace.reducing.search_and_confirm", "so far is in model-reduction"),
        ("untrace.reduction.result.Reduction.report", "repro.py is written, and"),
    ],
)
def test_the_command_says_what_it_was_doing(model, monkeypatch, where, told):
    monkeypatch.setattr(where, interrupt)
    done = CliRunner().invoke(main, [*model, "--report", "issue.md"])
    assert done.exit_code == 130, done.output
    assert "interrupted" in done.stderr and told in done.stderr.replace("\n", " ")


def test_the_command_says_that_it_was_interrupted(model, monkeypatch):
    monkeypatch.setattr("untrace.reduction.driver.run_all", interrupt)
    monkeypatch.setattr(reducing, "with_needed", interrupt)
    done = CliRunner().invoke(main, model)
    assert done.exit_code == 0, done.output
    assert "run once more, and written" in done.stderr
    assert "nothing more is run" in done.stderr


def test_imports_are_interrupted_at_once_and_work_is_not(monkeypatch):
    from untrace import __main__

    seen = []
    monkeypatch.setattr(
        "untrace.cli.main",
        lambda **_: seen.append(signal.getsignal(signal.SIGINT)),
    )
    __main__.run()
    assert seen == [signal.default_int_handler]
