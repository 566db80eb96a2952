"""Image classification in the shape of PyTorch's ImageNet example, with made-up images.

Two machines of one process each:
python -m flambeau imagenet.py --dummy --multiprocessing-distributed --world-size 2 --rank 0
    --dist-url tcp://127.0.0.1:23456 --dist-backend gloo (and the same with --rank 1)
"""

import argparse
import enum
import os
import random
import time

import torch
import torch.backends.cudnn as cudnn
import torch.distributed as dist
import torch.multiprocessing as mp
import torchvision.models as models
import torchvision.transforms as transforms
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Subset
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets

names = sorted(
    name
    for name in models.__dict__
    if name.islower() and not name.startswith("__") and callable(models.__dict__[name])
)

parser = argparse.ArgumentParser(description="Training on (made-up) images")
parser.add_argument("data", nargs="?", default="images", help="a folder of images")
parser.add_argument("-a", "--arch", default="resnet18", choices=names)
parser.add_argument("-j", "--workers", default=0, type=int)
parser.add_argument("--epochs", default=1, type=int)
parser.add_argument("-b", "--batch-size", default=4, type=int)
parser.add_argument("--lr", default=0.01, type=float)
parser.add_argument("-p", "--print-freq", default=1, type=int)
parser.add_argument("--resume", default="", type=str)
parser.add_argument("-e", "--evaluate", action="store_true")
parser.add_argument("--world-size", default=-1, type=int, help="number of machines")
parser.add_argument("--rank", default=-1, type=int, help="rank of this machine")
parser.add_argument("--dist-url", default="tcp://127.0.0.1:23456")
parser.add_argument("--dist-backend", default="gloo")
parser.add_argument("--seed", default=None, type=int)
parser.add_argument("--gpu", default=None, type=int)
parser.add_argument("--multiprocessing-distributed", action="store_true")
parser.add_argument("--dummy", action="store_true", help="use made-up data")
parser.add_argument("--images", default=21, type=int, help="how many of them")


class Summary(enum.Enum):
    NONE, AVERAGE = range(2)


class AverageMeter:
    """A running average, of one process or of all."""

    def __init__(self, name, fmt=":f", summary=Summary.AVERAGE):
        self.name, self.fmt, self.summary = name, fmt, summary
        self.val = self.sum = self.count = self.avg = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def all_reduce(self, device):
        total = torch.tensor([self.sum, self.count], dtype=torch.float32, device=device)
        dist.all_reduce(total, dist.ReduceOp.SUM, async_op=False)
        self.sum, self.count = total.tolist()
        self.avg = self.sum / self.count

    def __str__(self):
        return ("{name} {val" + self.fmt + "} ({avg" + self.fmt + "})").format(**self.__dict__)


def main():
    args = parser.parse_args()
    if args.seed is not None:
        random.seed(args.seed)
        torch.manual_seed(args.seed)
        cudnn.deterministic = True
        cudnn.benchmark = False
    if args.dist_url == "env://" and args.world_size == -1:
        args.world_size = int(os.environ["WORLD_SIZE"])
    args.distributed = args.world_size > 1 or args.multiprocessing_distributed
    per_machine = torch.cuda.device_count() if torch.cuda.is_available() else 1
    if args.multiprocessing_distributed:
        args.world_size *= per_machine
        mp.spawn(main_worker, nprocs=per_machine, args=(per_machine, args))
    else:
        main_worker(args.gpu, per_machine, args)


def main_worker(gpu, per_machine, args):
    args.gpu = gpu
    if args.distributed:
        if args.dist_url == "env://" and args.rank == -1:
            args.rank = int(os.environ["RANK"])
        if args.multiprocessing_distributed:
            args.rank = args.rank * per_machine + gpu
        dist.init_process_group(
            backend=args.dist_backend,
            init_method=args.dist_url,
            world_size=args.world_size,
            rank=args.rank,
        )
    if args.seed is not None:
        torch.manual_seed(args.seed)  # spawned processes begin anew
    model = models.__dict__[args.arch](num_classes=10)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = model.to(device)
    if args.distributed:
        model = nn.parallel.DistributedDataParallel(model)
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)
    scheduler = StepLR(optimizer, step_size=30, gamma=0.1)
    if args.resume:
        state = torch.load(args.resume, map_location=device)
        model.load_state_dict(state["state_dict"])
    training = datasets.FakeData(args.images, (3, 32, 32), 10, transforms.ToTensor())
    testing = datasets.FakeData(args.images, (3, 32, 32), 10, transforms.ToTensor())
    sampler = DistributedSampler(training) if args.distributed else None
    test_sampler = None
    if args.distributed:
        test_sampler = DistributedSampler(testing, shuffle=False, drop_last=True)
    loader = DataLoader(
        training,
        batch_size=args.batch_size,
        shuffle=sampler is None,
        num_workers=args.workers,
        pin_memory=torch.cuda.is_available(),
        sampler=sampler,
    )
    test_loader = DataLoader(testing, batch_size=args.batch_size, sampler=test_sampler)
    if args.evaluate:
        validate(test_loader, model, criterion, device, args)
        return
    for epoch in range(args.epochs):
        if args.distributed:
            sampler.set_epoch(epoch)
        train(loader, model, criterion, optimizer, epoch, device, args)
        validate(test_loader, model, criterion, device, args)
        scheduler.step()
        if not args.multiprocessing_distributed or args.rank % per_machine == 0:
            state = {"epoch": epoch + 1, "arch": args.arch, "state_dict": model.state_dict()}
            torch.save(state, f"checkpoint{args.rank}.pth.tar")
    if args.distributed:
        dist.destroy_process_group()


def train(loader, model, criterion, optimizer, epoch, device, args):
    losses, took = AverageMeter("Loss", ":.4e"), AverageMeter("Time", ":6.3f", Summary.NONE)
    model.train()
    end = time.time()
    for i, (images, target) in enumerate(loader):
        images = images.to(device, non_blocking=True)
        target = target.to(device, non_blocking=True)
        loss = criterion(model(images), target)
        losses.update(loss.item(), images.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        took.update(time.time() - end)
        end = time.time()
        if i % args.print_freq == 0:
            print(f"Epoch: [{epoch}][{i}/{len(loader)}] {losses}", flush=True)


def validate(loader, model, criterion, device, args):
    losses, top1 = AverageMeter("Loss", ":.4e"), AverageMeter("Acc@1", ":6.2f")

    def run(batches):
        with torch.no_grad():
            for images, target in batches:
                output = model(images.to(device))
                losses.update(criterion(output, target.to(device)).item(), images.size(0))
                top1.update(accuracy(output, target.to(device))[0].item(), images.size(0))

    model.eval()
    run(loader)
    if args.distributed:
        losses.all_reduce(device)
        top1.all_reduce(device)
        seen = len(loader.sampler) * args.world_size
        if seen < len(loader.dataset):  # what the sampler has left out
            rest = Subset(loader.dataset, range(seen, len(loader.dataset)))
            run(DataLoader(rest, batch_size=args.batch_size))
    print(f" * Loss {losses.avg:.4f} Acc@1 {top1.avg:.3f} of {top1.count:.0f}", flush=True)


def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        _, found = output.topk(max(topk), 1, True, True)
        correct = found.t().eq(target.view(1, -1).expand_as(found.t()))
        return [correct[:k].reshape(-1).float().sum(0) * (100.0 / target.size(0)) for k in topk]


if __name__ == "__main__":
    main()
