"""torch.cuda and what surrounds it: streams, memory, graphs, files, other libraries."""

import copy
import gc
import io
import os
import pickle
import threading

import pytest

import flambeau
from flambeau import cuda


def gpu(*values):
    return flambeau.tensor(values, device="cuda")


# -- devices ---------------------------------------------------------------------------------------


def test_devices():
    assert cuda.is_available() and cuda.device_count() >= 1 and cuda.current_device() == 0
    assert str(flambeau.device(0)) == "cuda:0"
    properties = cuda.get_device_properties(0)
    assert properties.name == cuda.get_device_name() and properties.total_memory > 0
    assert cuda.get_device_capability() >= (7, 0)
    assert cuda.get_arch_list()[0].startswith("sm_")
    x = flambeau.ones(2, device="cuda")
    assert (x.is_cuda, x.get_device(), str(x.device)) == (True, 0, "cuda:0")
    assert x.type() == "torch.cuda.FloatTensor" and isinstance(x, cuda.FloatTensor)
    assert cuda.is_initialized()
    with cuda.device(0), cuda.device_of(x):
        assert cuda.current_device() == 0
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        cuda.set_device(77)
    with pytest.raises(ValueError, match="Expected a cuda device"):
        cuda.set_device("cpu")


def test_default_devices():
    with flambeau.device("cuda"):
        assert str(flambeau.ones(2).device) == "cuda:0"
    flambeau.set_default_device("cuda")
    try:
        assert str(flambeau.zeros(3).device) == "cuda:0"
        assert str(flambeau.nn.Linear(2, 2).weight.device) == "cuda:0"
    finally:
        flambeau.set_default_device(None)
    assert flambeau.ones(2).device.type == "cpu"
    assert str(flambeau.accelerator.current_accelerator()) == "cuda"


def test_devices_do_not_mix():
    with pytest.raises(RuntimeError, match="two devices, cuda:0 and cpu!"):
        gpu(1.0, 2.0) + flambeau.ones(2)


def test_numbers_of_the_host_meet_any_tensor():
    x, two = gpu(1.0, 2.0), flambeau.tensor(2.0)
    assert (x * two).tolist() == [2, 4] and (two - x).tolist() == [1, 0]
    assert (x + flambeau.tensor(3)).tolist() == [4, 5]
    assert x.clone().add_(two).tolist() == [3, 4]


# -- streams and events ----------------------------------------------------------------------------


def test_streams():
    side = cuda.Stream()
    assert cuda.current_stream() == cuda.default_stream() != side
    with cuda.stream(side):
        assert cuda.current_stream() == side
        x = flambeau.ones(1000, device="cuda") * 2
    side.synchronize()
    assert cuda.current_stream() == cuda.default_stream()
    assert side.query() and x.sum().item() == 2000
    x.record_stream(cuda.current_stream())
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    with pytest.raises(ValueError, match="must be recorded"):
        start.elapsed_time(end)
    start.record()
    side.wait_event(start)
    side.wait_stream(cuda.current_stream())
    end.record(side)
    end.synchronize()
    assert end.query() and start.elapsed_time(end) >= 0


def test_blocks_of_a_stream_are_not_given_to_others():
    side = cuda.Stream()
    with cuda.stream(side):
        x = flambeau.ones(777, device="cuda")
        place = x.data_ptr()
        del x
    y = flambeau.ones(777, device="cuda")
    assert y.data_ptr() != place
    with cuda.stream(side):
        assert flambeau.ones(777, device="cuda").data_ptr() == place


# -- memory ----------------------------------------------------------------------------------------


def test_memory_is_counted():
    before = cuda.memory_allocated()
    x = flambeau.empty(1 << 20, device="cuda")
    assert cuda.memory_allocated() - before >= 1 << 22
    del x
    assert cuda.memory_allocated() == before
    assert cuda.max_memory_allocated() >= before + (1 << 22)
    assert cuda.memory_reserved() >= cuda.memory_allocated()
    cuda.reset_peak_memory_stats()
    assert cuda.max_memory_allocated() < before + (1 << 22)
    stats = cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] == cuda.memory_allocated()
    assert "allocated_bytes" in cuda.memory_summary()
    free, total = cuda.mem_get_info()
    assert 0 < free <= total
    address = cuda.caching_allocator_alloc(100)
    cuda.caching_allocator_delete(address)


def test_too_much_is_refused_and_nothing_is_lost():
    before = cuda.memory_allocated()
    with pytest.raises(cuda.OutOfMemoryError, match=r"CUDA out of memory\. Tried to allocate"):
        flambeau.empty(1 << 46, device="cuda")
    assert cuda.memory_allocated() == before and flambeau.ones(3, device="cuda").sum().item() == 3


def test_a_part_of_the_memory_may_be_the_limit():
    with pytest.raises(ValueError, match="Invalid fraction"):
        cuda.set_per_process_memory_fraction(1.5)
    try:
        cuda.set_per_process_memory_fraction(0.0)
        with pytest.raises(cuda.OutOfMemoryError):
            flambeau.empty(1 << 24, device="cuda")
    finally:
        cuda.set_per_process_memory_fraction(1.0)


def test_pinned_memory():
    x = flambeau.arange(5.0)
    pinned = x.pin_memory()
    assert pinned.is_pinned() and not x.is_pinned() and pinned.pin_memory() is pinned
    for moved in (pinned.cuda(non_blocking=True), pinned.to("cuda", non_blocking=True)):
        assert moved.tolist() == x.tolist()
    data = flambeau.utils.data.DataLoader(x, batch_size=2, pin_memory=True)
    assert all(batch.is_pinned() for batch in data)


def test_streams_and_devices_belong_to_threads():
    side, told = cuda.Stream(), {}

    def other(name):
        told[name] = cuda.current_stream().cuda_stream, cuda.current_device()
        y = flambeau.ones(100, device="cuda") + 1
        told[name + " sum"] = y.sum().item()
        with cuda.stream(cuda.Stream()):
            told[name + " own"] = cuda.current_stream().cuda_stream
            cuda.set_stream(cuda.Stream())  # and never back

    with cuda.stream(side):
        x = flambeau.ones(100, device="cuda")
        thread = threading.Thread(target=other, args=("first",))
        thread.start()
        thread.join()
        assert cuda.current_stream() == side
        del x
        again = flambeau.ones(100, device="cuda")
    thread = threading.Thread(target=other, args=("second",))
    thread.start()
    thread.join()
    gc.collect()
    assert told["first"] == told["second"] == (0, 0)
    assert told["first sum"] == told["second sum"] == 200 and again.sum().item() == 100
    assert told["first own"] not in (0, side.cuda_stream)
    runtime = again.device.runtime
    assert not runtime.streams and not runtime.allocator.chosen


# -- graphs ----------------------------------------------------------------------------------------


def test_graphs_run_again_with_new_values():
    x = flambeau.ones(5, device="cuda")
    (x * 2 + flambeau.rand(5, device="cuda")).sum()  # kernels are made
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        assert cuda.is_current_stream_capturing()
        y = x * 2
        noise = flambeau.rand(5, device="cuda")
        total = (y + noise).sum()
    x.fill_(3)
    g.replay()
    assert y.tolist() == [6] * 5 and total.item() == pytest.approx((y + noise).sum().item())
    first = noise.clone()
    g.replay()
    assert not flambeau.equal(first, noise)
    flambeau.manual_seed(0)
    g.replay()
    flambeau.manual_seed(0)
    assert flambeau.equal(noise, flambeau.rand(5, device="cuda"))
    taken = {t.data_ptr() for t in [flambeau.ones(5, device="cuda") for _ in range(9)]}
    assert not taken & {y.data_ptr(), noise.data_ptr()}
    g.reset()
    with pytest.raises(RuntimeError, match="non-default stream"):
        cuda.CUDAGraph().capture_begin()


@pytest.mark.parametrize("capturable", [False, True])
def test_steps_with_counts_are_not_captured(capturable):
    w = flambeau.ones(3, device="cuda", requires_grad=True)
    w.grad = flambeau.ones(3, device="cuda")
    optimizer = flambeau.optim.Adam([w], capturable=capturable)
    optimizer.step()
    expected = w.detach().clone()
    word = "counts of steps" if capturable else "capturable is False"
    with pytest.raises(RuntimeError, match=word), cuda.graph(cuda.CUDAGraph()):
        optimizer.step()
    assert flambeau.equal(w, expected)
    optimizer.step()


def test_graphed_modules_train():
    layer, x = flambeau.nn.Linear(3, 2).cuda(), flambeau.randn(4, 3, device="cuda")
    wanted = layer(x)
    graphed = cuda.make_graphed_callables(layer, (flambeau.randn(4, 3, device="cuda"),))
    found = graphed(x)
    assert flambeau.allclose(found, wanted)
    found.sum().backward()
    assert flambeau.allclose(layer.weight.grad, x.sum(0).expand(2, 3))


# -- files, copies, other libraries ----------------------------------------------------------------


def test_files():
    x = flambeau.arange(6.0, device="cuda")
    file = io.BytesIO()
    flambeau.save({"x": x, "part": x[2:]}, file)
    data = file.getvalue()
    assert b"cuda:0" in data
    found = flambeau.load(io.BytesIO(data))
    assert str(found["part"].device) == "cuda:0" and found["part"].tolist() == [2, 3, 4, 5]
    assert found["x"].data_ptr() + 8 == found["part"].data_ptr()
    assert flambeau.load(io.BytesIO(data), map_location="cpu")["x"].device.type == "cpu"
    file = io.BytesIO()
    flambeau.save(flambeau.ones(2), file)
    file.seek(0)
    assert flambeau.load(file, map_location="cuda").is_cuda


@pytest.mark.oracle
def test_files_are_read_by_pytorch():
    torch = pytest.importorskip("torch")
    file = io.BytesIO()
    flambeau.save([flambeau.arange(6.0, device="cuda")], file)
    file.seek(0)
    assert torch.load(file, map_location="cpu")[0].tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_stay_where_they_are(copied):
    found = copied(gpu(1.0, 2.0))
    assert str(found.device) == "cuda:0" and found.tolist() == [1, 2]


def test_other_libraries():
    x = flambeau.arange(6, device="cuda").view(2, 3)
    assert x.__dlpack_device__() == (2, 0)
    shared = flambeau.from_dlpack(x)
    assert shared.data_ptr() == x.data_ptr() and flambeau.equal(shared, x)
    facts = x.T.__cuda_array_interface__
    assert (facts["shape"], facts["typestr"], facts["strides"]) == ((3, 2), "<i8", (8, 24))

    class Array:
        __cuda_array_interface__ = facts
        keeps = x

    found = flambeau.as_tensor(Array(), device="cuda")
    assert found.data_ptr() == x.data_ptr() and flambeau.equal(found, x.T)
    with pytest.raises(AttributeError, match="non-CUDA tensor"):
        _ = flambeau.ones(1).__cuda_array_interface__


# -- mixed precision -------------------------------------------------------------------------------

CASTS = {
    "x @ x": "float16",
    "x.softmax(0)": "float32",
    "(x @ x).softmax(0)": "float32",
    "(x @ x).exp()": "float32",
    "(x @ x) + 1": "float16",
    "F.layer_norm(x @ x, (2,))": "float32",
    "F.mse_loss(x @ x, x)": "float32",
    "torch.cat([x @ x, x])": "float32",
    "(x @ x).sum()": "float32",
    "2 ** (x @ x)": "float32",
    "c @ c": "float32",
}


@pytest.mark.parametrize("text", CASTS)
def test_autocast(text):
    x = flambeau.ones(2, 2, device="cuda")
    names = {"x": x, "c": x.cpu(), "F": flambeau.nn.functional, "torch": flambeau}
    with flambeau.autocast("cuda"):
        assert flambeau.is_autocast_enabled("cuda")
        assert eval(text, names).dtype is getattr(flambeau, CASTS[text])
    with flambeau.autocast("cuda", dtype=flambeau.bfloat16):
        assert (x @ x).dtype is flambeau.bfloat16


def test_scaled_gradients():
    layer = flambeau.nn.Linear(2, 2).cuda()
    optimizer = flambeau.optim.SGD(layer.parameters(), lr=0.1)
    scaler = flambeau.amp.GradScaler("cuda", init_scale=4.0)
    before = layer.weight.detach().clone()
    scaler.scale(layer(flambeau.ones(1, 2, device="cuda")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert flambeau.allclose(layer.weight, before - 0.1) and scaler.get_scale() == 4
    layer.weight.grad.fill_(float("inf"))
    scaler.step(optimizer)
    scaler.update()
    assert flambeau.allclose(layer.weight, before - 0.1) and scaler.get_scale() == 2


# -- processes -------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_copies_of_a_process_are_told():
    flambeau.ones(1, device="cuda")
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            flambeau.ones(1, device="cuda")
        except RuntimeError as error:
            os.write(writing, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    found = os.read(reading, 1000).decode()
    os.close(reading)
    assert found.startswith("Cannot re-initialize CUDA in forked subprocess. To use CUDA with")


def test_marks_are_harmless():
    with cuda.nvtx.range("step"):
        cuda.nvtx.mark("here")
    assert cuda.nvtx.range_push("a") == 0 and cuda.nvtx.range_pop() == 0


def test_checkpoints_draw_the_same_numbers():
    x = flambeau.ones(500, device="cuda", requires_grad=True)

    def noisy(x):
        return flambeau.nn.functional.dropout(x, 0.5)

    y = flambeau.utils.checkpoint.checkpoint(noisy, x, use_reentrant=False)
    flambeau.rand(3, device="cuda")
    y.sum().backward()
    assert flambeau.equal(x.grad, y.detach())


def test_launchers_and_the_runtime_mean_the_same_words():
    from flambeau.codegen import llvm_gpu
    from flambeau.runtime import cuda as runtime

    names = "STREAMS RING RING_SIZE RING_AT LAUNCH COPY WAIT ERRORS BLOCKING LAUNCHES CONTEXT ENTER"
    for name in (*names.split(), "STATE_WORDS"):
        assert getattr(llvm_gpu, name) == getattr(runtime, name)
