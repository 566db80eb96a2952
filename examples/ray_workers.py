"""Workers of a Ray cluster that train together.

Ray starts the workers, on whatever machines it has, and tells them where the first one is; from
there on it is `init_process_group`, as anywhere else.

pip install 'flambeau[distributed,ray]'
python examples/ray_workers.py [--workers 2] [--address auto]
"""

import argparse
import socket

import ray

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.nn.parallel import DistributedDataParallel
from flambeau.utils.data import DataLoader, TensorDataset
from flambeau.utils.data.distributed import DistributedSampler


def points():
    """Points in the plane, and which of two rings they lie in."""
    x = torch.randn(1024, 2, generator=torch.Generator().manual_seed(0))
    return TensorDataset(x, (x.norm(dim=1) > 1.2).long())


@ray.remote(num_cpus=1)
class Worker:
    """One process of the world."""

    def address(self):
        """Where the others find this one: its host, and a port that is free."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            return f"{ray.util.get_node_ip_address()}:{probe.getsockname()[1]}"

    def train(self, rank, size, address, epochs):
        """Learn the rings with the others; the share of points that is told right."""
        torch.set_num_threads(1)
        dist.init_process_group("gloo", f"tcp://{address}", rank=rank, world_size=size)
        dataset = points()
        sampler = DistributedSampler(dataset, seed=1)
        loader = DataLoader(dataset, 32, sampler=sampler)
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
        model = DistributedDataParallel(model)
        optimizer = torch.optim.Adam(model.parameters(), 0.02)
        for epoch in range(epochs):
            sampler.set_epoch(epoch)
            for x, y in loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
        x, y = dataset.tensors
        mine = slice(rank, None, size)
        right = (model(x[mine]).argmax(1) == y[mine]).sum()
        dist.all_reduce(right)
        dist.destroy_process_group()
        return right.item() / len(y)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--address", default=None, help="of a cluster; this machine by default")
    options = parser.parse_args()
    if options.address is None:
        ray.init(num_cpus=options.workers, include_dashboard=False)
    else:
        ray.init(options.address)
    workers = [Worker.remote() for _ in range(options.workers)]
    address = ray.get(workers[0].address.remote())
    shares = ray.get(
        [
            worker.train.remote(rank, options.workers, address, options.epochs)
            for rank, worker in enumerate(workers)
        ]
    )
    assert len(set(shares)) == 1  # all of them have the same model
    print(f"{options.workers} workers, accuracy {shares[0]:.3f}")


if __name__ == "__main__":
    main()
