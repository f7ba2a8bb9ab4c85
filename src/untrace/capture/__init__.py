"""From a function and its arguments, or a jaxpr, to a program with a signature."""

from untrace.capture.capture import Captured, capture
from untrace.capture.trees import Leaf, Node, Tree

__all__ = ["Captured", "Leaf", "Node", "Tree", "capture"]
