"""Transforms of functions: what stands behind `torch.func`, `torch.vmap` and forward mode.

A transform that runs is a level (levels.py). Tensors inside of it are wrapped: they know their
level and hold a value of the levels below. A handler (handling.py) sees every op with a wrapped
argument, has the highest level among them work it out on values, and wraps what comes. Two kinds of
level do that: batching*.py (vmap) and duals*.py (jvp). Reverse mode needs none: a wrapped tensor is
a tensor and has a history of its own (history.py), which is that of the levels above.
docs/design/020-transforms.md says why.
"""
