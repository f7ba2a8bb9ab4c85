"""Options of `untrace.source`, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked for.

    Attributes:
      level: "api": calls as they were written; "lax": one statement per equation.
      verify: Execute, re-trace and compare the generated source.
      isolated: Verify once more, in a fresh process.
      types: Write the type of every result as a trailing comment.
      scopes: Write `jax.named_scope` where it names equations in compiled programs.
      name: Name of the generated function, if not that of the original.
      keep_types: Import classes that can be imported, the user's and libraries'.
      comments: "docstrings", "user" (those, and the comments and annotations that the
        user wrote), "origin" (docstrings, and file, line and text of the user's
        statement), "types" (docstrings, and the types of results), "both" of these, or
        "none".
      reroll: Which statements that repeat are a loop: "auto", those that were one;
        "for", all; "none". "scan" writes a scan over stacked parameters.
      annotate: "jaxtyping" annotates the signatures of functions; "none" does not.
      expand: Transformations whose calls are written as what JAX makes of them.
      quotes: Write the user's lines over the equations that come from them.
      symbolic: Sizes that the program is written for any value of have names.
      anonymous: Nothing is to have the name that it has in the original.
    """

    level: str = "lax"
    verify: bool = True
    types: bool = False
    scopes: bool = False
    name: str | None = None
    keep_types: bool = False
    comments: str = "docstrings"
    reroll: str = "auto"
    annotate: str = "none"
    expand: frozenset[str] = frozenset()
    quotes: bool = False
    symbolic: bool = False
    anonymous: bool = False
    isolated: bool = False

    @property
    def shows_docstrings(self) -> bool:
        """Whether the user's functions have their docstrings."""
        return self.comments != "none" and not self.anonymous

    @property
    def shows_comments(self) -> bool:
        """Whether the user's comments and annotations are written."""
        return self.comments == "user" and not self.anonymous

    @property
    def shows_origins(self) -> bool:
        """Whether the user's lines are written beside statements."""
        return self.comments in ("origin", "both")
