"""torchdata: loaders that tell their state and go on from it, here and in workers."""

import warnings

import torch
from showing import show
from torchdata.stateful_dataloader import StatefulDataLoader

warnings.simplefilter("ignore")


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, index):
        worker = torch.utils.data.get_worker_info()
        return torch.tensor([index, -1 if worker is None else worker.id]), torch.rand(()).item()


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for number in range(first, 12, step):
            yield torch.tensor(float(number))


class Broken(Numbers):
    def __getitem__(self, index):
        raise ValueError("no")


def main():
    for workers in (0, 2):
        torch.manual_seed(3)
        settings = dict(batch_size=2, shuffle=True, num_workers=workers)
        loader = StatefulDataLoader(Numbers(), **settings)
        batches = iter(loader)
        show("first", workers, next(batches), next(batches))
        state = loader.state_dict()
        rest = [batch[0].tolist() for batch in batches]
        again = StatefulDataLoader(Numbers(), **settings)
        again.load_state_dict(state)
        show("rest", rest, [batch[0].tolist() for batch in again] == rest)
        streamed = StatefulDataLoader(Stream(), batch_size=3, num_workers=workers)
        show("stream", [batch.tolist() for batch in streamed])
    try:
        list(StatefulDataLoader(Broken(), num_workers=1))
    except ValueError as error:
        show("error", str(error).splitlines()[0])


if __name__ == "__main__":
    main()
