"""What only long or failing runs show: memory over thousands of steps, errors that are survived."""

import gc

import pytest

import flambeau as torch
from flambeau import cuda, nn
from flambeau.nn import functional as F

STEPS = 10_000
FEW = 60  # where the host takes the place of a GPU


def steps_of(compiled):
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4)).to("cuda")
    optimizer = torch.optim.Adam(net.parameters())
    target = torch.randint(0, 4, (8,)).to("cuda")

    def step(x):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return torch.compile(step) if compiled else step


@pytest.mark.parametrize("compiled", [False, True])
def test_memory_stays_what_it_is(compiled, cuda):
    count = FEW if cuda.driver.emulated else STEPS
    step, x = steps_of(compiled), torch.randn(8, 16, device="cuda")
    for k in range(30):  # as below: each set of addresses may keep its own small results
        loss = step(x if k % 3 else x.clone())
    del loss
    gc.collect()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    for k in range(count):
        loss = step(x if k % 3 else x.clone())
    assert loss.isfinite().item()
    del loss
    gc.collect()
    assert (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()) == before


def test_no_memory_is_survived():
    x = torch.ones(1 << 20, device="cuda")
    total = cuda.mem_get_info()[1]
    for _ in range(3):
        with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
            torch.empty(total, dtype=torch.uint8, device="cuda")
        assert (x + x).sum().item() == 2 << 20


@pytest.mark.gpu
def test_all_memory_can_be_had_again():
    total, held = cuda.mem_get_info()[1], []
    with pytest.raises(torch.OutOfMemoryError):
        while True:
            held.append(torch.empty(total // 4, dtype=torch.uint8, device="cuda"))
    count = len(held)
    held.clear()
    assert count and torch.empty(total // 4, dtype=torch.uint8, device="cuda").numel()
    cuda.empty_cache()


def test_bad_indices_are_survived():
    table = torch.arange(12.0, device="cuda").view(4, 3)
    good, bad = (torch.tensor(places, device="cuda") for places in ([1, 3], [1, 4]))
    for name, look_up in {
        "embedding": lambda places: F.embedding(places, table),
        "index_select": lambda places: table.index_select(0, places),
        "gather": lambda places: table.gather(0, places[:, None]),
        "index": lambda places: table[places],
    }.items():
        with pytest.raises(IndexError, match=r"index out of range|out of bounds"):
            look_up(bad)
            cuda.synchronize()
        assert look_up(good)[1, 0].item() == 9, name


@pytest.mark.gpu
def test_graphs_on_a_real_driver_do_not_pile_up():
    x = torch.randn(64, device="cuda")
    cuda.synchronize()
    before = cuda.memory_allocated()
    for _ in range(50):
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            y = (x * 2).tanh()
        graph.replay()
        assert torch.equal(y, (x * 2).tanh())
        del y
        graph.reset()
    gc.collect()
    assert cuda.memory_allocated() <= before + (1 << 20)
