"""Microseconds per small op: what a call costs when there is next to nothing to compute.

Usage: python benchmarks/overhead.py [--threads 1,2] [--only PATTERN] [--seconds 1]
"""

from timing import Case, main

SMALL = "a = torch.randn(16)\nb = torch.randn(16)"
GRAD = "a = torch.randn(16, requires_grad=True)\nb = torch.randn(16, requires_grad=True)"
MATRIX = "a = torch.randn(8, 8)"
CHAIN = """
x = torch.randn(10, requires_grad=True)
def chain():
    y = x
    for _ in range(50):
        y = y * 0.5 + x
    return y.sum()
"""

CASES = [
    Case("a + b, 16 floats", "a + b", SMALL),
    Case("a + b, 16 floats, grad", "a + b", GRAD),
    Case("a.mul_(1.0), 16 floats", "a.mul_(1.0)", SMALL),
    # Multiplying by one changes nothing, so a shortcut for it would pass unseen; not so here.
    Case("a.mul_(-1.0), 16 floats", "a.mul_(-1.0)", SMALL),
    Case("a[3, 2:5]", "a[3, 2:5]", MATRIX),
    Case("a.t().unsqueeze(0).permute(2, 0, 1)", "a.t().unsqueeze(0).permute(2, 0, 1)", MATRIX),
    Case(
        "(a*a + a).sum().backward(), 10 floats",
        "(a*a + a).sum().backward()\nout = a.grad\na.grad = None",
        "a = torch.randn(10, requires_grad=True)",
        minimum=1.5,
    ),
    Case(
        "chain of 100 ops, forward and backward",
        "chain().backward()\nout = x.grad\nx.grad = None",
        CHAIN,
        minimum=1.5,
    ),
    Case(
        "chain of 100 ops, backward",
        "y.backward(retain_graph=True)\nout = x.grad\nx.grad = None",
        CHAIN + "y = chain()",
        minimum=1.5,
    ),
]

if __name__ == "__main__":
    main("Microseconds per small op, flambeau against PyTorch.", CASES)
