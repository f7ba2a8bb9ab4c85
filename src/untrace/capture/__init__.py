"""From a function and its arguments, or a jaxpr, to a program with a signature."""

from untrace.capture.capture import capture
from untrace.capture.captured import Captured
from untrace.capture.trees import Leaf, Node, Tree

__all__ = ["Captured", "Leaf", "Node", "Tree", "capture"]
