"""What kernels say of their addresses is true: nothing changes that they only read."""

import ctypes

import pytest

import flambeau as torch
from flambeau.compiler import accesses, recording
from flambeau.compiler.recording import ARENA, Recording, base_of
from flambeau.eager.updating import update
from flambeau.nn.utils import clip_grads_with_norm_, get_total_norm
from flambeau.runtime import cpu, tapes

F = torch.nn.functional
GARBAGE = 0x5A


def _rows(x):
    g = torch.ones_like(x)
    norms = F.layer_norm(x, x.shape[-1:], x[0], x[1]), F.rms_norm(x, x.shape[-1:])
    return *norms, torch.softmax(x, -1), F.log_softmax(x, 0), torch.logsumexp(x, 1), g


def _norms(x):
    image = x.view(x.shape[0], 4, -1)
    mean, var = torch.zeros(4), torch.ones(4)
    return (
        F.batch_norm(image, mean, var, training=True),
        F.batch_norm(image, mean, var),
        F.group_norm(image, 2),
        mean,
    )


def _reductions(x):
    wide = x.repeat(300, 40)
    return x.sum(), x.mean(0), x.amax(1), *torch.var_mean(x), wide.sum(), wide.sum(0)


def _convolutions(x):
    image, narrow = x.view(4, 6, 12, -1), x.view(4, 6, 12, -1)[:, :3].contiguous()
    taps, last = x.flatten(), image.contiguous(memory_format=torch.channels_last)
    return (
        F.conv2d(image, taps[: 8 * 54].view(8, 6, 3, 3), taps[:8]),
        F.conv2d(image, taps[: 16 * 150].view(16, 6, 5, 5), stride=2),
        F.conv2d(narrow, taps[:24].view(8, 3, 1, 1)),
        F.conv2d(image, taps[:54].view(6, 1, 3, 3), taps[:6], groups=6),
        F.max_pool2d(image, 2),
        F.max_pool2d(image, 5, stride=4),
        F.max_pool2d(last, 2),
        F.avg_pool2d(image, 2),
        F.avg_pool2d(last, 3),
        F.adaptive_avg_pool2d(image, 3),
    )


def _products(x):
    y = F.dropout(x, 0.5)
    return x @ y.mT, torch.addmm(x, x @ x.mT, x), F.embedding(torch.arange(3), y)


def _attention(x):
    q = x.view(1, 2, -1, 18)
    return (F.scaled_dot_product_attention(q, q, q),)


def _losses(x):
    classes, chances = torch.arange(x.shape[0]), x.sigmoid()
    return (
        F.cross_entropy(x, classes),
        F.cross_entropy(x, x.softmax(1)),
        F.nll_loss(x, classes),
        F.mse_loss(x, torch.ones_like(x)),
        F.binary_cross_entropy(chances, chances.detach()),
    )


def _moved(x):
    rows = torch.arange(5)
    return (
        x[rows],
        x.gather(0, rows.view(-1, 1)),
        x.index_select(1, rows),
        x.index_add(0, rows, x[:5] * 2),
        x.amax(1),
        x.max(1)[0],
        F.pad(x, (1, 2)),
        torch.cat([x, x * 2], 1),
        torch.stack([x, x * 2]),
        x.cumsum(0),
        x.cumsum(1),
        x.cummax(1)[0],
    )


def _drawn(x):
    few = torch.empty(72).bernoulli_(0.3)
    return x * torch.rand(7, 1, 1), x + torch.randn(72), x * torch.bernoulli(x.sigmoid()), x * few


def _updated(x):
    y, held = x * 2, torch.zeros(x.shape)
    held.grad = y.detach()
    update("moved", [[held.grad], [x.detach()]], [0.5, 0.25])
    clip_grads_with_norm_(held, 0.1, get_total_norm(held.grad))
    return (y,)


def _large(x):
    wide = x.repeat(64, 1)
    image, taps = wide.view(12, 32, 24, 24), wide.flatten()[: 32 * 288].view(32, 32, 3, 3)
    loss = F.cross_entropy(wide, torch.zeros(wide.shape[0], dtype=torch.int64))
    return F.conv2d(image, taps, padding=1), loss, F.layer_norm(wide, (72,), x[0], x[1])


PROGRAMS = [_large, _rows, _norms, _reductions, _convolutions, _products, _attention]
PROGRAMS += [_losses, _moved, _drawn, _updated]


def both_ways(program, x):
    """A program, then its way back."""
    outs = [o for o in program(x) if o.requires_grad]
    grads = [torch.full_like(o, 0.3) for o in outs]
    return outs, torch.autograd.grad(outs, x, grads, retain_graph=True)


def recorded(program, x):
    """What a program launches, both ways, and the pieces of memory it is given."""
    both_ways(program, x)  # what is made once
    run = Recording([base_of(x)])
    run.run(lambda: both_ways(program, x))
    pieces = [(first, size) for _, first, size in run.bases]
    return run, pieces + [tuple(b) for b in (*run.fresh, *run.temporary)]


def changes(launch, pieces):
    """Pieces of memory that a launch changes."""
    before = [bytes(cpu.buffer_at(start, size)) for start, size in pieces]
    tape = tapes.Tape(ARENA.native("replay"), ARENA.busy, [launch], [], 0)
    assert tape.replay() is None
    after = [bytes(cpu.buffer_at(start, size)) for start, size in pieces]
    return {k for k, (a, b) in enumerate(zip(before, after)) if a != b}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__[1:])
def test_nothing_else_is_written(program):
    torch.manual_seed(0)
    x = torch.randn(48, 72).requires_grad_()
    run, pieces = recorded(program, x)
    for start, size in pieces[len(run.bases) :]:  # so that what is written makes a difference
        ctypes.memset(start, GARBAGE, size)
    assert check_launches(run, pieces)


def check_launches(run, pieces):
    """Make the launches of a recording one by one; how many of them only read something."""
    checked = 0
    for launch in run.launches:
        only_read = accesses.only_read(launch)
        given, written = set(), set()
        for k, value in enumerate(launch.arguments):
            words = cpu.words_of(value) if type(value) is bytes else [value]
            for word in words:
                if type(word) is int and word >= recording.LOWEST and run.place_of(word):
                    given.add(run.place_of(word)[0])
                    if k not in only_read:
                        written.add(run.place_of(word)[0])
        place = {which: pieces[which] for which in given}
        found = changes(launch, list(place.values()))
        changed = {which for k, which in enumerate(place) if k in found}
        assert changed <= written, (cpu.name_of(launch.definition), changed, written)
        checked += bool(given - written)
    return checked


def test_all_kinds_are_met():
    """Every line of the table is looked at above."""
    x = torch.randn(48, 72).requires_grad_()
    met = set()
    for program in PROGRAMS:
        run, _ = recorded(program, x)
        met |= {accesses.builder_of(launch.definition) for launch in run.launches}
    assert set(accesses.READS) - met == set()
