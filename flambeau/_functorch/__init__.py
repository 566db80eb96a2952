"""`torch._functorch`, by name; transforms are in func/ and transforms/."""
