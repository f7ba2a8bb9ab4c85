"""What a function returns at once gets no name, and what it computes stays the same."""

import pytest

from untrace.reduction.shortening import with_values_returned

STAYS = [
    "def f(x):\n    y = x + 1\n    return y * y\n",
    "def f(x):\n    y = x\n    y = y + 1\n    return y\n",
    "def f(x):\n    y = x\n    # why\n    return y\n",
    "def f(x):\n    a, b = x\n    return a\n",
    "def f(x):\n    y = z = x\n    return y\n",
    "def f():\n    y = 1\n\n    def g():\n        return y\n\n    return g\n",
    "def f(x):\n    y = x\n    z = 2\n    return y\n",
    "def f():\n    a = 1\n    b = 2\n    return dict(b=b, a=a)\n",
    f"def f():\n    a = {'1' * 80}\n    return dict(a=a)\n",
    "def f():\n    a = g(\n        1,\n    )\n    return dict(a=a)\n",
    "def f():\n    a = 1  # one\n    return dict(a=a)\n",
    "def f():\n    a = {}\n    return dict(**a)\n",
    "def f():\n    return dict()\n",
]


@pytest.mark.parametrize("text", STAYS)
def test_what_is_read_elsewhere_or_has_no_room_stays(text):
    assert with_values_returned(text) == text


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("def f(x):\n    y = x + 1\n    return y\n", "def f(x):\n    return x + 1\n"),
        (
            "def f(x):\n    y = g(\n        x,\n        # why\n    )\n    return y\n",
            "def f(x):\n    return g(\n        x,\n        # why\n    )\n",
        ),
        (
            "def f(x):\n    y = (\n        x\n        + 1\n    )\n\n    return y\n",
            "def f(x):\n    return (\n        x\n        + 1\n    )\n",
        ),
        (
            "def f(x):\n    def g(y):\n        z = -y\n        return z\n\n"
            "    w = g(x)\n    return w\n",
            "def f(x):\n    def g(y):\n        return -y\n\n    return g(x)\n",
        ),
        (
            "def f():\n    a = g([\n        1, 2,\n    ], d)  # fmt: skip\n"
            "    return dict(a=a)\n",
            "def f():\n    return dict(a=g([\n        1, 2,\n    ], d))  # fmt: skip\n",
        ),
        (
            "if x:\n    def f():\n        a = 1\n        b = g(2)\n"
            "        return dict(a=a, b=b)\n",
            "if x:\n    def f():\n        return dict(a=1, b=g(2))\n",
        ),
    ],
)
def test_what_is_returned_at_once_has_no_name(text, made):
    assert with_values_returned(text) == made
