"""Axes: which axes of a program are one, and edits that shrink or remove them."""

from untrace.reduction.axes.finding import Axes as Axes
from untrace.reduction.axes.finding import Axis as Axis
from untrace.reduction.axes.finding import find_axes as find_axes
from untrace.reduction.axes.removing import all_removed as all_removed
from untrace.reduction.axes.removing import without_axis as without_axis
from untrace.reduction.axes.resizing import all_resized as all_resized
from untrace.reduction.axes.resizing import resized as resized
from untrace.reduction.axes.resizing import resized_together as resized_together
from untrace.reduction.axes.resizing import where_it_is as where_it_is
