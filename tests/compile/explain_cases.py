"""Programs with the number of graphs that they become, for either library."""

PROGRAMS = {}


def program(graphs):
    """Put a function that makes (function, arguments) on the list, with its number of graphs."""

    def declare(make):
        PROGRAMS[make.__name__] = make, graphs
        return make

    return declare


@program(1)
def pointwise(torch):
    return lambda x: torch.sin(x) + x.cos() * 2, (torch.ones(3),)


@program(1)
def loop_over_a_range(torch):
    def f(x):
        for k in range(4):
            x = x * k + 1
        return x

    return f, (torch.ones(3),)


@program(1)
def branch_on_a_shape(torch):
    def f(x):
        if x.shape[0] > 2:
            return x + 1
        return x - 1

    return f, (torch.ones(3),)


@program(1)
def lists_and_dictionaries(torch):
    def f(x):
        parts = [x + k for k in range(3)]
        table = {"a": parts[0], "b": sum(parts)}
        return torch.stack(parts), table

    return f, (torch.ones(3),)


@program(1)
def helper(torch):
    def inner(x, by=2):
        return x * by

    def f(x):
        return inner(inner(x, 3)) + 1

    return f, (torch.ones(3),)


@program(1)
def closure_with_a_tensor(torch):
    w = torch.ones(3)
    return lambda x: x @ w, (torch.ones(2, 3),)


@program(1)
def without_gradients(torch):
    def f(x):
        with torch.no_grad():
            y = x * 2
        return y + x

    return f, (torch.ones(3, requires_grad=True),)


@program(1)
def in_place(torch):
    def f(x):
        y = x.clone()
        y.add_(1)
        y[0] = 5
        return y

    return f, (torch.ones(3),)


@program(1)
def several_results(torch):
    def f(x):
        values, places = x.max(dim=0)
        a, b = x.chunk(2)
        return values, places, a + b

    return f, (torch.ones(4, 2),)


@program(1)
def linear_layers(torch):
    nn = torch.nn
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), (torch.ones(3, 4),)


@program(1)
def convolutions(torch):
    nn = torch.nn
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2))
    return net, (torch.ones(2, 1, 8, 8),)


@program(1)
def residual_module(torch):
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(4, 4)
            self.scale = 0.5

        def forward(self, x):
            return x + self.inner(x) * self.scale

    return torch.nn.Sequential(Block(), Block()), (torch.ones(3, 4),)


@program(1)
def embedding_and_attention(torch):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(10, 8)
            self.norm = torch.nn.LayerNorm(8)

        def forward(self, ids):
            h = self.norm(self.table(ids))
            q = h.view(*ids.shape, 2, 4).transpose(1, 2)
            return torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)

    return Model(), (torch.zeros(2, 5, dtype=torch.int64),)


@program(2)
def prints_between(torch):
    def f(x):
        y = x + 1
        print(end="")
        return y * 2

    return f, (torch.ones(3),)


@program(1)
def prints_at_the_end(torch):
    def f(x):
        y = x + 1
        print(end="")
        return y

    return f, (torch.ones(3),)


@program(3)
def prints_twice(torch):
    def f(x):
        y = x + 1
        print(end="")
        z = y * 2
        print(end="")
        return z - 1

    return f, (torch.ones(3),)


@program(2)
def explicit_break(torch):
    def f(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    return f, (torch.ones(3),)


@program(2)
def branch_on_data(torch):
    def f(x):
        y = x + 1
        if y.sum() > 0:
            return y * 2
        return y * 3

    return f, (torch.ones(3),)


@program(2)
def branch_on_data_either_way(torch):
    def f(x):
        y = x.sum()
        if y > 0:
            z = x * 2
        else:
            z = x - 2
        return z + 1

    return f, (-torch.ones(3),)


@program(3)
def two_branches_on_data(torch):
    def f(x):
        if x.sum() > 0:
            x = x * 2
        if x.max() > 10:
            x = x / 2
        return x + 1

    return f, (torch.ones(3),)


@program(2)
def disabled_helper(torch):
    @torch._dynamo.disable
    def hidden(x):
        return x * 2

    def f(x):
        y = x + 1
        z = hidden(y)
        return z - 1

    return f, (torch.ones(3),)


@program(2)
def breaks_in_a_module(torch):
    class Loud(torch.nn.Module):
        def forward(self, x):
            x = x + 1
            print(end="")
            return x * 2

    return Loud(), (torch.ones(3),)


@program(2)
def file_is_written(torch):
    import io

    stream = io.StringIO()

    def f(x):
        y = x * 2
        stream.write("a")
        return y + 1

    return f, (torch.ones(3),)


@program(0)
def nothing_to_compute(torch):
    return lambda x: x, (torch.ones(3),)


@program(1)
def sizes_as_numbers(torch):
    def f(x):
        n, m = x.shape
        return x.reshape(m, n) * (n + m) + x.numel()

    return f, (torch.ones(2, 3),)


@program(1)
def random_numbers(torch):
    def f(x):
        return torch.nn.functional.dropout(x, 0.5) + torch.rand(3)

    return f, (torch.ones(3),)


@program(1)
def classes(torch):
    class State:
        def __init__(self, h):
            self.h = h

        def step(self, x):
            self.h = self.h * 2 + x

    def f(x):
        state = State(x)
        for _ in range(2):
            state.step(x)
        return state.h

    return f, (torch.ones(3),)


@program(1)
def type_conversions(torch):
    return lambda x: (x.double() + x.to(torch.int64)).float(), (torch.ones(3),)


@program(1)
def einsum_and_views(torch):
    def f(x):
        return torch.einsum("ij,kj->ik", x, x).permute(1, 0).flatten()

    return f, (torch.ones(2, 3),)


@program(1)
def recurrent_cell(torch):
    def f(x, h):
        for t in range(x.shape[0]):
            h = torch.tanh(x[t] + h)
        return h

    return f, (torch.ones(4, 3), torch.zeros(3))
