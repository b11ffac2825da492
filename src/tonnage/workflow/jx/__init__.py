"""JX, the expression language of Makeflow and related tools: JSON with symbols, operators, functions and loops.

``evaluate`` turns a text into plain values. It is pure: nothing outside the text is read, and what a text can generate
is bounded, so that a small file cannot fill the memory or run for ever.
"""

from tonnage.workflow.jx.evaluator import evaluate
from tonnage.workflow.jx.values import JXError, Value

__all__ = ["JXError", "Value", "evaluate"]
