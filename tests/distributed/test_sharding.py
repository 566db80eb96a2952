"""Tensors and models that are spread over processes."""

import importlib.util
import json

import pytest

import flambeau.multiprocessing as mp
from tests.distributed import dtensor_cases, fsdp_cases, pipeline_cases
from tests.distributed.cases import PATIENCE
from tests.distributed.test_processes import ROOT, launched, limited, world  # noqa: F401

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None, reason="flambeau[distributed] is not installed"
)


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_dtensors(tmp_path, size):
    world(dtensor_cases.dtensors, size, tmp_path)


def test_dtensors_on_a_plane(tmp_path):
    world(dtensor_cases.plane, 4, tmp_path)


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_sharded_models_train_as_one(tmp_path, size):
    world(fsdp_cases.sharded, size, tmp_path)


@pytest.mark.parametrize("size", [3, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", ["corners", "wrapped"])
def test_options_of_sharding(tmp_path, case, size):
    world(getattr(fsdp_cases, case), size, tmp_path)


def test_replicas_of_shards(tmp_path):
    world(fsdp_cases.hybrid, 4, tmp_path)


def test_death_while_gathering_is_told(tmp_path):
    context = mp.get_context("spawn")
    path = str(tmp_path / "store")
    processes = [context.Process(target=fsdp_cases.dies, args=(r, 2, path)) for r in range(2)]
    for p in processes:
        p.start()
    for p in processes:
        p.join(PATIENCE)
    assert [p.exitcode for p in processes] == [0, -9]


@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_pipelines_train_as_one(tmp_path, size):
    world(pipeline_cases.pipelines, size, tmp_path)


def test_orders_of_pipelines_fit_together():
    pipeline_cases.check_orders()


def flat(value):
    return [x for item in value for x in flat(item)] if isinstance(value, list) else [value]


@pytest.mark.slow
@pytest.mark.oracle
def test_the_same_program_as_with_pytorch(tmp_path):
    pytest.importorskip("torch")
    found = []
    for words in (["torch.distributed.run"], ["flambeau", "torchrun"]):
        folder = tmp_path / words[0]
        folder.mkdir()
        program = str(ROOT / "tests/distributed/sharding_program.py")
        options = ["--standalone", "--nproc-per-node=2", program, str(folder)]
        done = launched(["-m", *words, *options])
        assert done.returncode == 0, done.stderr
        found.append([json.loads((folder / f"{r}.json").read_text()) for r in (0, 1)])
    for theirs, ours in zip(*[[row for rank in each for row in rank] for each in found]):
        for a, b in zip(flat(ours), flat(theirs), strict=True):
            near = pytest.approx(b, rel=1e-9, abs=1e-9) if isinstance(b, float) else b
            assert a == near, theirs[:2]
