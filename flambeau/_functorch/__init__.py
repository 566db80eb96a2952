"""`torch._functorch`: vmap and names of older homes; the rest is in func/ and transforms/."""
