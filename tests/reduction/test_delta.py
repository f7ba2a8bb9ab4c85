"""Delta debugging keeps what is needed, whatever that is, and asks rarely."""

from hypothesis import given
from hypothesis import strategies as st

from untrace.reduction.delta import minimize


@given(st.integers(1, 200), st.data())
def test_finds_exactly_what_is_needed(n, data):
    needed = data.draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=5))
    found = minimize(range(n), lambda part: needed <= set(part))
    assert set(found) == needed


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30))
def test_no_single_item_can_be_spared(items):
    def suffices(part):
        return sum(part) * 2 >= sum(items)

    found = minimize(items, suffices)
    assert suffices(found)
    if len(found) > 1:
        rests = [found[:i] + found[i + 1 :] for i in range(len(found))]
        assert not any(suffices(rest) for rest in rests)


def test_one_needed_item_is_found_by_bisection():
    asked = []
    minimize(range(1024), lambda part: asked.append(part) or 700 in part)
    assert len(asked) <= 2 * 10 + 2
