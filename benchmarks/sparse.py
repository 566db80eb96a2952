"""Sparse products and sparse gradients, flambeau against PyTorch: `python benchmarks/sparse.py`.

The matrix is that of a random graph: n nodes with a number of edges each.
"""

import textwrap

from timing import Case, arguments, packages, run_cases, select


def _graph(n, edges, width):
    return textwrap.dedent(f"""
        rows = torch.arange({n}).repeat_interleave({edges})
        columns = torch.randint(0, {n}, ({n} * {edges},))
        places = torch.stack([rows, columns])
        s = torch.sparse_coo_tensor(places, torch.rand({n} * {edges}), ({n}, {n})).coalesce()
        c = s.to_sparse_csr()
        x = torch.randn({n}, {width}, requires_grad=True)
        y = x.detach()
        v = y[:, 0].contiguous()
    """)


CASES = [
    Case(f"{name}, {n} nodes, {edges} edges, {width} wide", run, _graph(n, edges, width))
    for n, edges, width in ((2708, 4, 16), (20000, 10, 64))
    for name, run in (
        ("coo @ dense", "torch.sparse.mm(s, y)"),
        ("csr @ dense", "c @ y"),
        ("csr @ vector", "c @ v"),
        ("forward and back", "torch.sparse.mm(s, x).sum().backward()"),
    )
]
CASES += [
    Case(
        "embedding with sparse gradient, SparseAdam",
        "optimizer.zero_grad(); table(places).sum().backward(); optimizer.step()",
        textwrap.dedent("""
        table = torch.nn.Embedding(100000, 64, sparse=True)
        optimizer = torch.optim.SparseAdam(table.parameters())
        places = torch.randint(0, 100000, (32, 64))
        """),
    ),
]


if __name__ == "__main__":
    options = arguments("Sparse tensors, flambeau against PyTorch.").parse_args()
    packages()
    results = list(run_cases(select(CASES, options.only), options.threads, options.seconds))
    met = sum(result.met for result in results)
    print(f"\n{met} of {len(results)} reach the ratio asked for")
