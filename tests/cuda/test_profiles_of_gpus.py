"""Profiles of work on a GPU: kernels' own times in tables and traces."""

import json

import pytest

import flambeau as torch
from flambeau.profiler import DeviceType, ProfilerActivity, profile, supported_activities

BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]


@pytest.fixture(scope="module")
def profiled():
    x = torch.randn(64, 64, device="cuda", requires_grad=True)

    def work():
        (torch.softmax(x @ x, -1) * 2).sum().backward()

    work()
    torch.ones(3, device="cuda")
    with profile(activities=BOTH) as found:
        work()
        y = torch.ones(3) + 1
    assert y.tolist() == [2, 2, 2]
    return found


def test_kernels_are_events_of_the_gpu(profiled):
    assert supported_activities() == set(BOTH)
    kernels = [e for e in profiled.events() if e.device_type is DeviceType.CUDA]
    assert {"softmax", "sum"} <= {e.name for e in kernels}
    assert all(e.device_time_total > 0 and e.cpu_time_total == 0 for e in kernels)
    starts = [e.time_range.start for e in kernels]
    assert starts == sorted(starts)


def test_calls_know_what_they_launched(profiled):
    rows = {e.key: e for e in profiled.key_averages() if e.device_type is DeviceType.CPU}
    for name, inner in {"aten::softmax": "aten::_softmax", "aten::matmul": "aten::mm"}.items():
        assert rows[name].device_time_total > 0 == rows[name].self_device_time_total
        assert rows[inner].self_cuda_time_total > 0
    assert rows["MmBackward0"].cuda_time_total > 0
    of_kernels = sum(
        e.device_time_total for e in profiled.events() if e.device_type is DeviceType.CUDA
    )
    of_calls = sum(e.self_device_time_total for e in rows.values())
    assert 0.9 * of_kernels < of_calls < of_kernels * 1.001  # what backward starts with is nobody's


def test_tables_have_columns_for_it(profiled):
    table = profiled.key_averages().table(sort_by="cuda_time_total", row_limit=5)
    for word in ("Self CUDA %", "CUDA time avg", "Self CUDA time total:"):
        assert word in table
    with profile(activities=BOTH) as host:
        torch.ones(2) + 1
    assert "CUDA" not in host.key_averages().table()


def test_traces_have_rows_for_it(profiled, tmp_path):
    profiled.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    kernels = [e for e in events if e.get("cat") == "kernel" and e["pid"] == 0]
    launches = [e for e in events if e.get("cat") == "cuda_runtime"]
    assert len(kernels) == len(launches) > 5
    by_number = {e["args"]["correlation"]: e for e in launches}
    for kernel in kernels:
        assert kernel["ts"] >= by_number[kernel["args"]["correlation"]]["ts"] - 5
    assert any(e["name"] == "process_labels" and e["args"]["labels"] == "GPU 0" for e in events)


def test_the_older_profiler():
    x = torch.ones(8, device="cuda")
    with torch.autograd.profiler.profile(use_cuda=True) as found:
        x.exp()
    assert any(e.cuda_time_total > 0 for e in found.function_events)
