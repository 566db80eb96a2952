"""torch.distributed.checkpoint: folders, planners, names of states; one process and several."""

import copy
import importlib.util
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

import flambeau as torch
import flambeau.distributed.checkpoint as dcp
import flambeau.multiprocessing as mp
from flambeau import nn
from flambeau.distributed.checkpoint import format_utils
from flambeau.distributed.checkpoint import state_dict as states
from flambeau.serialization.unrestricted import find_here
from tests.data.worker_cases import limit
from tests.distributed import checkpoint_cases as cases
from tests.distributed.cases import PATIENCE

ROOT = Path(__file__).parent.parent.parent
GOLDEN = ROOT / "tests/golden/checkpoint"  # two processes of PyTorch have written it
pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
several = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None, reason="flambeau[distributed] is not installed"
)


def state(value=0):
    return {
        "model": {"w": torch.full((2, 3), value), "half": torch.full((3,), value).bfloat16()},
        "list": [value, {"deep": torch.full((1,), value)}],
        "plain": [value, "text"],
        "tuple": (value, torch.full((2,), value)),
        "none": None,
        7: {8: torch.full((2,), value)},
        "view": torch.full((4, 4), value)[1:, ::2],
    }


def same(a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype is b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a == b


@pytest.mark.parametrize(
    "options", [{}, {"single_file_per_rank": False}, {"thread_count": 3}, {"sync_files": False}]
)
def test_what_is_saved_is_loaded(tmp_path, options):
    writer = dcp.FileSystemWriter(tmp_path, **options)
    described = dcp.save(state(5), storage_writer=writer)
    assert described.state_dict_metadata["model.w"].size == (2, 3)
    loaded = state(0)
    kept = loaded["model"]["w"]
    dcp.load(loaded, checkpoint_id=tmp_path)
    assert same(loaded, state(5)) and loaded["model"]["w"] is kept
    before = set(os.listdir(tmp_path))
    dcp.save(state(6), checkpoint_id=tmp_path)
    assert not (before - {".metadata"}) & set(os.listdir(tmp_path))  # nothing old is left
    dcp.load(loaded, storage_reader=dcp.FileSystemReader(tmp_path))
    assert same(loaded, state(6))


@pytest.mark.parametrize(
    "wanted, planner, kind, text",
    [
        ({"other": 1}, {}, RuntimeError, "Missing key in checkpoint state_dict: other."),
        ({"other": 1}, {"allow_partial_load": True}, None, None),
        (
            {"model": {"w": torch.zeros(3)}},
            {},
            ValueError,
            "Size mismatch between saved torch.Size([2, 3]) and current: torch.Size([3]) for "
            "model.w",
        ),
        ({"model": {"w": 1}}, {}, ValueError, "Invalid checkpoint metadata for model.w, expected"),
    ],
)
def test_refusals_of_loading(tmp_path, wanted, planner, kind, text):
    dcp.save(state(5), checkpoint_id=tmp_path)
    plan = dcp.DefaultLoadPlanner(**planner)
    if kind is None:
        dcp.load(wanted, checkpoint_id=tmp_path, planner=plan)
        return
    with pytest.raises(dcp.CheckpointException) as caught:
        dcp.load(wanted, checkpoint_id=tmp_path, planner=plan)
    error, _ = caught.value.failures[0]
    assert type(error) is kind and str(error).startswith(text)
    assert f"{kind.__name__}: {text}" in str(caught.value) and "(RANK 0)" in str(caught.value)


def test_refusals_of_saving(tmp_path):
    with pytest.raises(RuntimeError, match="`checkpoint_id` must be specified if"):
        dcp.save({"a": 1})
    with pytest.raises(dcp.CheckpointException, match=r"ValueError: duplicated flatten key a\.b"):
        dcp.save({"a": {"b": 1}, "a.b": 2}, checkpoint_id=tmp_path)
    dcp.save({"a": 1}, checkpoint_id=tmp_path)
    with pytest.raises(dcp.CheckpointException, match=r"already exists and self.overwrite=False\."):
        dcp.save({"a": 1}, storage_writer=dcp.FileSystemWriter(tmp_path, overwrite=False))


class App:
    def __init__(self):
        self.weights, self.count = torch.zeros(2), 0

    def state_dict(self):
        return {"weights": self.weights, "count": self.count}

    def load_state_dict(self, given):
        self.weights, self.count = given["weights"], given["count"]


def test_objects_with_a_state(tmp_path):
    app = App()
    app.weights, app.count = torch.ones(2), 3
    dcp.save({"app": app}, checkpoint_id=tmp_path)
    other = App()
    dcp.load({"app": other}, checkpoint_id=tmp_path)
    assert other.weights.tolist() == [1, 1] and other.count == 3


def test_a_copy_is_saved_while_the_program_goes_on(tmp_path):
    t = torch.ones(1000)
    futures = []
    for k in range(3):
        futures.append(dcp.async_save({"t": t, "k": k}, checkpoint_id=tmp_path / str(k)))
        t += 1
    for k, future in enumerate(futures):
        assert "t" in future.result(30).state_dict_metadata
        loaded = {"t": torch.zeros(1000), "k": -1}
        dcp.load(loaded, checkpoint_id=tmp_path / str(k))
        assert loaded["t"][0].item() == k + 1 and loaded["k"] == k


class Renaming(dcp.DefaultLoadPlanner):
    """Loads what was saved as w into v."""

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        self.given = state_dict
        super().set_up_planner(
            {"model": {"w": state_dict["v"]}}, metadata=metadata, is_coordinator=is_coordinator
        )


class Doubling(dcp.DefaultSavePlanner):
    def transform_object(self, write_item, object):
        value = super().transform_object(write_item, object)
        return value * 2 if isinstance(value, torch.Tensor) else value


def test_planners_of_ones_own(tmp_path):
    dcp.save(state(5), checkpoint_id=tmp_path, planner=Doubling())
    loaded = {"v": torch.zeros(2, 3, dtype=torch.int64)}
    dcp.load(loaded, checkpoint_id=tmp_path, planner=Renaming())
    assert loaded["v"].tolist() == [[10] * 3] * 2


def test_files_of_torch_save(tmp_path):
    torch.save(state(5), tmp_path / "a.pt")
    format_utils.torch_save_to_dcp(tmp_path / "a.pt", tmp_path / "folder")
    format_utils.dcp_to_torch_save(tmp_path / "folder", tmp_path / "b.pt")
    expected = state(5)
    expected["7"] = {"8": expected.pop(7)[8]}  # keys of a checkpoint are text
    assert same(torch.load(tmp_path / "b.pt", weights_only=False), expected)
    loaded = {"model": {"w": torch.zeros(2, 3, dtype=torch.int64)}}
    dcp.load(
        loaded,
        checkpoint_id=tmp_path / "a.pt",
        storage_reader=format_utils.BroadcastingTorchSaveReader(),
        planner=format_utils.DynamicMetaLoadPlanner(),
    )
    assert loaded["model"]["w"].tolist() == [[5] * 3] * 2


# -- PyTorch's files -------------------------------------------------------------------------------


def golden_state():
    return {
        "rows": torch.zeros(5, 2),
        "columns": torch.zeros(2, 3, dtype=torch.int64),
        "same": {"w": torch.zeros(2, dtype=torch.bfloat16)},
        "epoch": 0,
        "list": None,
    }


def test_a_checkpoint_of_pytorch_is_read():
    loaded = golden_state()
    dcp.load(loaded, checkpoint_id=GOLDEN)
    assert torch.equal(loaded["rows"], torch.arange(10.0).view(5, 2))
    assert torch.equal(loaded["columns"], torch.arange(6).view(2, 3))
    assert loaded["same"]["w"].tolist() == [1.5, 2.5]
    assert loaded["epoch"] == 3 and loaded["list"] == [1, "two"]


def names_in(path):
    """What a pickle imports."""
    names = set()

    class Listening(pickle.Unpickler):
        def find_class(self, module, name):
            names.add(f"{module}.{name}")
            return find_here(module, name) or super().find_class(module, name)

    with open(path, "rb") as file:
        Listening(file).load()
    return names


def test_the_pickle_says_what_pytorch_says(tmp_path):
    loaded = golden_state()
    dcp.load(loaded, checkpoint_id=GOLDEN)
    dcp.save(loaded, checkpoint_id=tmp_path)
    assert names_in(tmp_path / ".metadata") == names_in(GOLDEN / ".metadata")


@pytest.mark.oracle
def test_pytorch_reads_our_checkpoint(tmp_path):
    import torch as oracle
    from torch.distributed.checkpoint import format_utils as oracle_utils

    dcp.save(state(5), checkpoint_id=tmp_path / "folder")
    oracle_utils.dcp_to_torch_save(tmp_path / "folder", tmp_path / "a.pt")
    loaded = oracle.load(tmp_path / "a.pt", weights_only=False)
    assert loaded["model"]["w"].tolist() == [[5] * 3] * 2 and loaded["plain"] == [5, "text"]
    assert loaded["model"]["half"].dtype is oracle.bfloat16 and loaded["7"]["8"].tolist() == [5, 5]
    assert loaded["view"].tolist() == [[5, 5]] * 3 and loaded["none"] is None


# -- names of states -------------------------------------------------------------------------------


def trained(seed, wrap=lambda m: m):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    model = wrap(model)
    first, *rest = model.parameters()
    optimizer = torch.optim.AdamW([{"params": [first], "lr": 0.2}, {"params": rest}])
    model(torch.randn(4, 2)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    return model, optimizer


FLAT = states.StateDictOptions(flatten_optimizer_state_dict=True)


@pytest.mark.parametrize("options", [None, FLAT])
def test_states_go_through_a_checkpoint(tmp_path, options):
    model, optimizer = trained(0)
    saved, moments = states.get_state_dict(model, optimizer, options=options)
    expected = copy.deepcopy(optimizer.state_dict())
    if options is None:
        assert list(moments["state"]) == [n for n, _ in model.named_parameters()]
        assert moments["param_groups"][0]["params"] == ["0.weight"]
    dcp.save({"model": saved, "optimizer": moments}, checkpoint_id=tmp_path)
    model, optimizer = trained(1)
    optimizer = torch.optim.AdamW(
        [{"params": list(model.parameters())[:1]}, {"params": list(model.parameters())[1:]}]
    )
    saved, moments = states.get_state_dict(model, optimizer, options=options)
    loaded = {"model": saved, "optimizer": moments}
    dcp.load(loaded, checkpoint_id=tmp_path)
    states.set_state_dict(
        model,
        optimizer,
        model_state_dict=loaded["model"],
        optim_state_dict=loaded["optimizer"],
        options=options,
    )
    reference, _ = trained(0)
    assert same(dict(model.state_dict()), dict(reference.state_dict()))
    assert same(optimizer.state_dict()["state"], expected["state"])
    assert optimizer.param_groups[0]["lr"] == 0.2


def test_names_of_wrapped_and_chosen_models():
    model, _ = trained(0)
    names = list(model.state_dict())
    assert list(states.get_model_state_dict(nn.DataParallel(model))) == names
    model[0].bias.requires_grad_(False)
    options = states.StateDictOptions
    frozen = states.get_model_state_dict(model, options=options(ignore_frozen_params=True))
    assert list(frozen) == [n for n in names if n != "0.bias"]
    part = states.get_model_state_dict(model, submodules={model[2]})
    assert list(part) == ["2.weight", "2.bias"]
    short = options(keep_submodule_prefixes=False)
    part = states.get_model_state_dict(model, submodules={model[2]}, options=short)
    assert list(part) == ["weight", "bias"]
    loose = options(strict=False)
    found = states.set_model_state_dict(model, {model[2]: part}, options=loose)
    assert "0.weight" in found.missing_keys and not found.unexpected_keys
    with pytest.raises(RuntimeError, match="Missing key"):
        states.set_model_state_dict(model, {"2.bias": torch.zeros(1)})


# -- several processes -----------------------------------------------------------------------------


@several
@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_processes_save_and_load_together(tmp_path, size):
    with limit(PATIENCE):
        mp.spawn(cases.together, (size, str(tmp_path)), nprocs=size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = {"same": torch.zeros(3), **{f"rank{r}": torch.zeros(2) for r in range(size)}}
        dcp.load(loaded, checkpoint_id=tmp_path / "sync")
    assert loaded["same"].tolist() == [4, 4, 4]
    assert all(loaded[f"rank{r}"].tolist() == [r, r] for r in range(size))


def check_whole(folder):
    """One process reads what several have written."""
    expected = torch.arange(42.0).view(7, 6)
    loaded = {"rows": torch.zeros(7, 6), "columns": torch.zeros(7, 6), "few": torch.zeros(2, 6)}
    dcp.load(loaded, checkpoint_id=folder)
    assert torch.equal(loaded["rows"], expected) and torch.equal(loaded["columns"], expected)
    assert torch.equal(loaded["few"], expected[:2])


@several
def test_other_numbers_of_processes_load_cut_tensors(tmp_path):
    with limit(PATIENCE):
        mp.spawn(cases.spread_save, (2, str(tmp_path)), nprocs=2)
        mp.spawn(cases.spread_load, (3, str(tmp_path)), nprocs=3)
    check_whole(tmp_path / "spread")


@several
@pytest.mark.parametrize(
    "saved, loaded",
    [
        ("fully_shard", "fully_shard"),
        pytest.param("fully_shard", "fsdp", marks=pytest.mark.slow),
        pytest.param("fsdp", "fully_shard", marks=pytest.mark.slow),
        pytest.param("fsdp", "plain", marks=pytest.mark.slow),
        pytest.param("plain", "fully_shard", marks=pytest.mark.slow),
    ],
)
def test_training_goes_on_with_other_shards(tmp_path, saved, loaded):
    with limit(PATIENCE):
        mp.spawn(cases.sharded_save, (2, str(tmp_path), saved), nprocs=2)
        mp.spawn(cases.sharded_load, (3, str(tmp_path), loaded), nprocs=3)


@pytest.mark.oracle
@several
def test_pytorch_loads_our_cut_tensors(tmp_path):
    import torch as oracle
    import torch.distributed.checkpoint as oracle_dcp

    with limit(PATIENCE):
        mp.spawn(cases.spread_save, (2, str(tmp_path)), nprocs=2)
    loaded = {"rows": oracle.zeros(7, 6), "few": oracle.zeros(2, 6), "epoch": 0}
    oracle_dcp.load(loaded, checkpoint_id=tmp_path / "spread")
    assert oracle.equal(loaded["rows"], oracle.arange(42.0).view(7, 6)) and loaded["epoch"] == 3


@pytest.mark.parametrize("delay", [0.0, 0.03, 0.1])
def test_a_kill_leaves_the_older_checkpoint(tmp_path, delay):
    program = [sys.executable, "-c", cases.SAVES_FOR_EVER, str(tmp_path)]
    child = subprocess.Popen(
        program, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE
    )
    child.stdout.readline()  # the first one is there
    time.sleep(delay)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    loaded = {"a": torch.zeros(200_000), "b": torch.zeros(200_000), "count": -1}
    dcp.load(loaded, checkpoint_id=tmp_path)
    count = loaded["count"]
    assert count >= 0 and loaded["a"].eq(count).all() and loaded["b"].eq(count).all()
    dcp.save(loaded, checkpoint_id=tmp_path)
    assert len([name for name in os.listdir(tmp_path) if name.endswith(".distcp")]) == 1
    shutil.rmtree(tmp_path)


FOLDERS = [
    ({}, ["model-00001-of-00001.safetensors", "model.safetensors.index.json"]),
    ({"save_distributed": True}, ["shard-00001-model-00001-of-00001.safetensors"]),
    (
        {"fqn_to_index_mapping": {"a": 1, "b": 2}},
        [
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            "model.safetensors.index.json",
        ],
    ),
]


@pytest.mark.parametrize("options, files", FOLDERS)
def test_folders_of_safetensors(tmp_path, options, files):
    from flambeau.distributed.checkpoint.hf_storage import (
        HuggingFaceStorageReader,
        HuggingFaceStorageWriter,
    )

    saved = {"a": torch.arange(6.0).view(2, 3), "b": torch.ones(2, dtype=torch.bfloat16)}
    dcp.save(saved, storage_writer=HuggingFaceStorageWriter(str(tmp_path), **options))
    assert sorted(p.name for p in tmp_path.iterdir()) == files
    loaded = {k: torch.zeros_like(v) for k, v in saved.items()}
    dcp.load(loaded, storage_reader=HuggingFaceStorageReader(str(tmp_path)))
    assert all(torch.equal(loaded[k], saved[k]) for k in saved)
    found = HuggingFaceStorageReader(str(tmp_path)).read_metadata()
    assert found.state_dict_metadata["a"].size == (2, 3)
    with pytest.raises(dcp.CheckpointException, match="tensors only: c"):
        dcp.save({"c": "text"}, storage_writer=HuggingFaceStorageWriter(str(tmp_path)))


def test_parts_of_a_tensor_in_several_files(tmp_path):
    import json

    from flambeau.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from flambeau.serialization.safetensors import save_file

    whole = torch.arange(12.0).view(4, 3)
    for k in range(2):
        shards = json.dumps({"w": {"saved_offsets": [2 * k, 0]}})
        name = f"shard-0000{k + 1}-model-00001-of-00001.safetensors"
        save_file({"w": whole[2 * k : 2 * k + 2]}, tmp_path / name, {"DCP_SHARDING_INFO": shards})
    loaded = {"w": torch.zeros(4, 3)}
    dcp.load(loaded, storage_reader=HuggingFaceStorageReader(str(tmp_path)))
    assert torch.equal(loaded["w"], whole)
