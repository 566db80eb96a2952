"""backend="nccl": collectives of tensors on GPUs, in a world of one.

Where there is no GPU or no NCCL, a stand-in for the library moves the host's memory.
"""

import ctypes
import threading
import time
from types import SimpleNamespace

import pytest

import flambeau as torch
import flambeau.distributed as dist
from flambeau.distributed import gpus
from flambeau.runtime import cuda_driver, nccl
from flambeau.runtime.nccl import SIGNATURES

ITEMSIZE = {0: 1, 1: 1, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2}


class Alone:
    """NCCL for one process: what is sent is what is received."""

    def __init__(self):
        self.calls, self.sent, self.grouped = [], [], 0

    def unique_id(self):
        return bytes(128)

    def join(self, identity, size, rank):
        assert len(identity) == 128 and (size, rank) == (1, 0)
        return 1234

    def call(self, name, *arguments):
        assert len(arguments) == len(SIGNATURES[f"nccl{name}"])
        self.calls.append(name)
        if name in ("GroupStart", "GroupEnd"):
            self.grouped += 1 if name == "GroupStart" else -1
        elif name == "Send":
            self.sent.append(arguments[:3])
        elif name == "Recv":
            source, count, kind = self.sent.pop(0)
            assert self.grouped and (count, kind) == arguments[1:3]
            ctypes.memmove(arguments[0], source, count * ITEMSIZE[kind])
        elif not name.startswith("Comm"):
            source, target, count, kind, *_ = arguments
            if source != target:
                ctypes.memmove(target, source, count * ITEMSIZE[kind])


@pytest.fixture
def group(monkeypatch, cuda):
    if isinstance(cuda.driver, cuda_driver.Emulated) or nccl.find() is None:
        alone = Alone()
        monkeypatch.setattr(nccl, "find", lambda: "libnccl.so.2")
        monkeypatch.setattr(nccl, "library", lambda: alone)
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


def on_gpu(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype, device="cuda")


DTYPES = [torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16, torch.bfloat16]
DTYPES += [torch.float32, torch.float64, torch.bool, torch.complex64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_collective(group, dtype):
    t = on_gpu(1, 0, 1, dtype=dtype)
    expected = t.tolist()
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG) if dtype.is_floating_point else ("SUM",):
        dist.all_reduce(t, getattr(dist.ReduceOp, op) if isinstance(op, str) else op)
    dist.reduce(t, 0)
    dist.broadcast(t, 0)
    out = torch.empty_like(t)
    dist.all_gather_into_tensor(out, t)
    assert out.tolist() == expected
    for call in (
        lambda out: dist.all_gather([out], t),
        lambda out: dist.gather(t, [out]),
        lambda out: dist.scatter(out, [t]),
        lambda out: dist.reduce_scatter(out, [t]),
        lambda out: dist.reduce_scatter_tensor(out, t),
        lambda out: dist.all_to_all([out], [t]),
        lambda out: dist.all_to_all_single(out, t),
    ):
        out = torch.zeros_like(t)
        call(out)
        assert out.tolist() == expected
    dist.barrier()


def test_tensors_with_gaps_and_without_elements(group):
    whole = torch.arange(12.0, device="cuda").view(3, 4)
    out = torch.zeros(3, 4, device="cuda")
    dist.all_gather([out[:, ::2]], whole[:, 1::2])
    assert out.tolist() == [[1, 0, 3, 0], [5, 0, 7, 0], [9, 0, 11, 0]]
    dist.all_reduce(torch.zeros(0, device="cuda"))
    dist.all_to_all_single(torch.zeros(0, device="cuda"), torch.zeros(0, device="cuda"))


def test_works_are_in_the_stream(group):
    t = on_gpu(2.0)
    work = dist.all_reduce(t, async_op=True)
    assert isinstance(work, gpus.StreamWork) and work.wait() and work.result()[0] is t
    torch.cuda.synchronize()
    assert work.is_completed() and work.is_success() and t.item() == 2
    future = dist.all_reduce(t, async_op=True).get_future()
    assert future.then(lambda f: f.value()[0] * 2).wait().item() == 4


def test_host_tensors_and_objects_go_through_the_host(group):
    t = torch.ones(2)
    dist.all_reduce(t)
    box = [None]
    dist.all_gather_object(box, {"a": 1})
    assert t.tolist() == [1, 1] and box == [{"a": 1}]


@pytest.mark.parametrize(
    "call, kind, text",
    [
        (
            lambda: dist.all_reduce(on_gpu(1, dtype=torch.int64), dist.ReduceOp.BAND),
            ValueError,
            "Cannot use ReduceOp.BAND with NCCL",
        ),
        (
            lambda: dist.all_reduce(on_gpu(1, dtype=torch.int16)),
            TypeError,
            "Input tensor data type is not supported for NCCL process group",
        ),
        (lambda: dist.send(on_gpu(1), 0), ValueError, "Invalid destination rank"),
        (lambda: dist.recv(on_gpu(1), 0), ValueError, "Invalid source rank"),
    ],
)
def test_refusals(group, call, kind, text):
    with pytest.raises(kind, match=text):
        call()


def test_ddp_over_one_gpu(group):
    from flambeau.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU())
    model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model).cuda()
    together = DistributedDataParallel(model, device_ids=[0], find_unused_parameters=True)
    x = torch.randn(6, 4)
    together(x).sum().backward()  # inputs move by themselves
    mine = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(x.cuda()).sum().backward()
    for a, p in zip(mine, model.parameters()):
        torch.testing.assert_close(a, p.grad)


def test_without_the_library_or_a_gpu(monkeypatch):
    monkeypatch.setattr(nccl, "find", lambda: None)
    assert not dist.is_nccl_available() and not dist.is_backend_available("nccl")
    with pytest.raises(RuntimeError, match="Distributed package doesn't have NCCL built in"):
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    monkeypatch.setattr(nccl, "find", lambda: "libnccl.so.2")
    assert dist.is_nccl_available()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="ProcessGroupNCCL is only supported with GPUs, no GPUs"):
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)


def engine_of_two(gone, seconds=60.0):
    """An engine with an event that never passes; the other member is rank 1."""
    engine = gpus.GpuEngine.__new__(gpus.GpuEngine)
    world = SimpleNamespace(health=SimpleNamespace(gone=gone))
    engine.group = SimpleNamespace(_world=world, _ranks=[0, 1], _seconds=seconds)
    engine.api, engine.comm, engine.error = Alone(), 1, None
    event = SimpleNamespace(query=lambda: False)
    engine.under_way = [(event, "all_reduce", time.monotonic() + seconds, [])]
    return engine


@pytest.mark.parametrize(
    "gone, seconds, text",
    [
        ({1: "died"}, 60.0, "rank 1 died; all_reduce cannot be completed."),
        ({}, -0.001, "Timed out waiting -1ms for all_reduce operation to complete."),
    ],
)
def test_what_never_ends_is_given_up(gone, seconds, text):
    engine = engine_of_two(gone, seconds)
    watching = threading.Thread(target=engine._watch)
    watching.start()
    watching.join(10)
    assert str(engine.error) == text and engine.api.calls == ["CommAbort"]
    with pytest.raises(dist.DistBackendError, match="this process group is broken since: "):
        next(engine.queued("all_reduce", [], []))
