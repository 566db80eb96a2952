"""Expressions with indices and masks, to be evaluated by flambeau and by PyTorch alike.

READS are expressions, WRITES statements that change `a`; `run` gives a result (or a complaint) as
plain values that can be compared and recorded. In scope: torch, np, a (3 by 4) and b (2 by 3 by 4).
"""

import warnings

import numpy as np

READS = """
a[5]
a[0, 0, 0]
a[torch.tensor([5])]
a[torch.tensor([1.0])]
a[1.5]
a['x']
a[::-1]
a[::0]
a[torch.tensor([True, False])]
a[torch.tensor([0, 1]), torch.tensor([0, 1, 2])]
torch.tensor(1.0)[0]
torch.tensor(1.0)[:]
torch.tensor(1.0)[...]
torch.tensor(1.0)[None]
torch.tensor(1.0)[True]
torch.tensor(1.0)[torch.tensor(True)]
torch.tensor(1.0)[torch.tensor(0)]
a[...]
a[..., ...]
a[-4]
a[:, 7]
a[slice('a', None)]
a[0:1.5]
a[:, ::2]
a[5:]
a[2:1]
a[-2:]
a[-100:100]
a[1:3, 1:3].stride()
a[None]
a[None, 0, None, ..., None]
a[True]
a[False]
a[[0, 1]]
a[[[0, 1], [1, 2]]]
a[torch.tensor(1)]
a[torch.tensor(True)]
a[np.int64(1)]
a[np.array([0, 1])]
a[:, [0, 2]]
a[0, [1, 2]]
a[[0, 1], 0]
a[[0, 1], None, [1, 2]]
a[None, [0, 1], :, None]
a[torch.tensor(1, dtype=torch.uint8),]
a[[True, False, True]]
a[[True, False, True], 1:3]
a[True, 0]
a[torch.tensor([], dtype=torch.long)]
a[[]]
a[0:2, torch.tensor(1)]
a[()]
a[range(2)]
a[0, range(2)]
a[np.True_]
a[[[True, False, True]]]
a[a > 3]
a[a > 100]
a[torch.tensor([[0, 1], [2, 0]])]
a[torch.tensor([0, 2]), torch.tensor([[1], [2]])]
a[torch.tensor([1, 0, 1], dtype=torch.uint8)]
a[torch.tensor([0, 1], dtype=torch.int32)]
a[torch.tensor([0, 1], dtype=torch.int16)]
a[torch.tensor([-1, -3])]
a[torch.tensor([-4])]
b[:, [0, 1], :]
b[[0, 1], :, [1, 2]]
b[0, :, [1, 2]]
b[:, 0, [1, 2]]
b[[0, 1], 0, [1, 2]]
b[..., [1, 2]]
b[[1], ...]
b[b > 5]
b[:, b[0] > 5]
b[:, torch.tensor([True, False, True])]
b[torch.tensor([[True, False, True], [False, True, True]])]
b[torch.tensor([[True, False, True], [False, True, True]]), [0, 1, 2, 3]]
b[None, [1], None, :, None]
b[..., None, 0]
b[:, :, 9]
b[[0], :, [9]]
a.gather(0, torch.tensor([[5]]))
a.gather(0, torch.tensor([[-1]]))
a.gather(0, torch.tensor([1]))
a.gather(0, torch.tensor([[1.0]]))
a.gather(0, torch.tensor([[1]], dtype=torch.int32))
a.gather(1, torch.zeros(4, 1, dtype=torch.long))
a.gather(1, torch.tensor([[3, 2, 1, 0, 0], [0, 1, 2, 3, 3]]))
a.gather(0, torch.zeros(0, dtype=torch.long))
a.gather(2, torch.tensor([[1]]))
a.t().gather(0, torch.tensor([[3, 2, 1], [0, 1, 2]]))
torch.tensor(3.0).gather(0, torch.tensor(0))
torch.tensor(3.0).gather(0, torch.tensor([0, 0]))
a.index_select(0, torch.tensor([5]))
a.index_select(0, torch.tensor([-1]))
a.index_select(0, torch.tensor([[1]]))
a.index_select(0, torch.tensor([1.0]))
a.index_select(3, torch.tensor([1]))
a.index_select(0, torch.tensor(1))
a.index_select(1, torch.tensor([1, 1, 0], dtype=torch.int32))
a.t().index_select(0, torch.tensor([1, 3]))
b.index_select(1, torch.tensor([2, 0]))
torch.tensor(3.0).index_select(0, torch.tensor([0, 0]))
torch.tensor(3.0).index_select(0, torch.tensor([1]))
torch.tensor(3.0).index_select(0, torch.tensor([0]))
a.take(torch.tensor([50]))
a.take(torch.tensor([-1]))
a.take(torch.tensor([1.0]))
a.t().take(torch.tensor([[1, 2], [3, -4]]))
torch.empty(0).take(torch.tensor([0]))
a.scatter(0, torch.tensor([[5]]), a)
a.scatter(0, torch.tensor([[1]]), 1.0)
a.scatter(0, torch.tensor([[1]]), value=1.0)
a.scatter(0, torch.tensor([[1]]), a.double())
a.scatter(0, torch.tensor([1]), a)
a.scatter(0, torch.tensor([[1.0]]), a)
a.scatter(0, torch.tensor([[1]]), a[0])
a.scatter(0, torch.zeros(1, 9, dtype=torch.long), 1.0)
a.scatter(0, torch.tensor([[1]]), 2.0, reduce='multiply')
a.scatter(0, torch.tensor([[1, 0], [1, 0]]), a, reduce='add')
a.scatter(0, torch.tensor([[1, 0], [1, 0]]), a)
a.scatter(0, torch.tensor([[1]]), a, reduce='foo')
a.scatter(dim=1, index=torch.tensor([[1]]), src=a)
a.scatter_add(0, torch.tensor([[-1]]), a)
a.scatter_add(0, torch.zeros(4, 4, dtype=torch.long), a)
a.scatter_add(1, torch.tensor([[0, 0, 1, 1], [3, 3, 3, 3]]), a)
a.scatter_add(0, torch.tensor([[1]]), a.double())
a.scatter_reduce(0, torch.tensor([[1]]), a, reduce='foo')
a.scatter_reduce(0, torch.tensor([[1, 0], [1, 2]]), a, 'prod')
a.scatter_reduce(0, torch.tensor([[1, 0], [1, 2]]), a, 'sum', include_self=False)
a.scatter_reduce(0, torch.tensor([[1, 0], [1, 2]]), a, 'mean', include_self=False)
a.scatter_reduce(0, torch.tensor([[1, 0], [1, 2]]), a, 'mean')
a.scatter_reduce(1, torch.tensor([[1, 0], [1, 2]]), a, 'amax')
a.scatter_reduce(1, torch.tensor([[1, 0], [1, 2]]), a * torch.nan, 'amax')
a.scatter_reduce(1, torch.tensor([[1, 0], [1, 2]]), a, 'amin', include_self=False)
a.long().scatter_reduce(0, torch.tensor([[1], [1]]), -a.long(), 'mean')
a.long().scatter_reduce(0, torch.tensor([[1], [1]]), -a.long(), 'amin', include_self=False)
(a > 1).scatter_reduce(0, torch.tensor([[1]]), a > 1, 'sum')
(a + 0j).scatter_reduce(0, torch.tensor([[1]]), a + 0j, 'amax')
(a + 1j).scatter_add(0, torch.tensor([[1, 0, 1, 1]]), a + 1j)
(a + 1j).scatter_reduce(0, torch.tensor([[1, 0, 1, 1]]), a + 1j, 'prod')
a.half().scatter_add(0, torch.tensor([[1, 0, 1, 1]]), a.half() / 3)
a.bfloat16().scatter_add(0, torch.tensor([[1, 0, 1, 1], [1, 1, 1, 1]]), a.bfloat16() / 3)
a.bfloat16().scatter(0, torch.tensor([[1, 0, 1, 1], [1, 1, 1, 1]]), a.bfloat16() / 3, reduce='add')
a.bfloat16().index_add(0, torch.tensor([1, 1, 1]), a.bfloat16() / 3)
a[0].bfloat16().index_add(0, torch.tensor([2, 2, 2, 2]), a[0].bfloat16() / 3)
a.bfloat16().index_put((torch.tensor([1, 1, 1]),), a.bfloat16() / 3, accumulate=True)
a.index_add(0, torch.tensor([5]), a[:1])
a.index_add(0, torch.tensor([-1]), a[:1])
a.index_add(0, torch.tensor([0]), a)
a.index_add(0, torch.tensor([[1]]), a)
a.index_add(0, torch.tensor([1.0]), a)
a.index_add(0, torch.tensor([1]), a.double())
a.index_add(0, torch.tensor([1]), a[:1, :2])
a.index_add(0, torch.tensor([1]), a[0])
a[0].index_add(0, torch.tensor([9]), a[0, :1])
a.index_add(1, torch.tensor([9]), a[:, :1])
a.long().index_add(0, torch.tensor([0]), a[:1].long(), alpha=1.5)
a.index_add(1, torch.tensor([0, 0, 3]), a[:, :3], alpha=0.5)
(a > 1).index_add(0, torch.tensor([0, 1]), (a > 1)[:2])
a.index_copy(0, torch.tensor([5]), a[:1])
a.index_copy(0, torch.tensor([-1]), a[:1])
a.index_copy(0, torch.tensor([[1]]), a)
a.index_copy(0, torch.tensor([1.0]), a[:1])
a.index_copy(0, torch.tensor([1]), a.double()[:1])
a.index_copy(0, torch.tensor([1]), a[:1, :2])
a.index_copy(0, torch.tensor([1]), a)
a.index_copy(0, torch.tensor([1]), a[0])
a.index_copy(1, torch.tensor([1, 3]), a[:, :2])
a[0].index_copy(0, torch.tensor([1]), a[0, 0])
a[0].index_copy(0, torch.tensor([0, 1]), a[0, 0])
a.index_fill(0, torch.tensor([5]), 1)
a.index_fill(0, torch.tensor([-1]), 1)
a.index_fill(1, torch.tensor([-1, 0]), 1.5)
a.index_fill(0, torch.tensor([1.0]), 1)
a.index_fill(0, torch.tensor([1], dtype=torch.int32), 1)
a.index_fill(0, torch.tensor([[1]]), 1)
a.index_fill(0, torch.tensor([1]), torch.ones(1))
a.index_fill(0, torch.tensor([1]), torch.tensor(2.0))
a.index_fill(0, torch.tensor([1]), 1j)
a.index_fill(1, torch.tensor([-7]), 1)
a.index_reduce(0, torch.tensor([0, 1]), a[:2], 'foo')
a.index_reduce(0, torch.tensor([0, 0]), a[:2], 'mean')
a.index_reduce(0, torch.tensor([0, 0]), a[:2], 'prod', include_self=False)
a.index_reduce(0, torch.tensor([0, 5]), a[:2], 'amax')
a.index_reduce(0, torch.tensor([0, 1]), a, 'mean')
a.index_reduce(0, torch.tensor([0, 1]), a[:2, :2], 'mean')
a.index_reduce(0, torch.tensor([0, 1]), a[:2].double(), 'mean')
(a + 0j).index_reduce(0, torch.tensor([0, 1]), (a + 0j)[:2], 'amax')
a.masked_fill(torch.tensor([1]), 1)
a.masked_fill(a > 1, torch.ones(1))
a.long().masked_fill(a > 1, 1.5)
a.masked_fill(a > 1, torch.tensor(2.0))
a.masked_fill(torch.ones(2, dtype=torch.bool), 1)
a.masked_fill(torch.ones(2, 1, 1, dtype=torch.bool), 1)
a.masked_fill(a > 1, -float('inf'))
a.half().masked_fill(a > 1, -float('inf'))
a.half().masked_fill(a > 1, 1e6)
a.masked_fill((a > 1).byte(), 1)
a.masked_fill(a > 1, 1j)
a.byte().masked_fill(a > 1, 300)
a.byte().masked_fill(a > 1, -1)
a.clone().masked_fill_(torch.ones(2, 3, 4, dtype=torch.bool), 1)
a.long().masked_fill(a > 1, torch.tensor(1.5))
a.masked_fill(a > 1, torch.tensor(1j))
a.bool().masked_fill(a > 1, 5)
a.masked_select(torch.ones(2, dtype=torch.bool))
a.masked_select(a)
a.masked_select(a > 4)
a.masked_select(torch.tensor([True, False, True, False]))
a[0].masked_select(a > 4)
a.masked_scatter(a > 1, torch.ones(2))
a.masked_scatter(a > 1, torch.ones(20).double())
a.masked_scatter(a > 3, -a)
a.masked_scatter(torch.tensor([0, 1]), a)
a.masked_scatter(torch.ones(2, 1, 1, dtype=torch.bool), torch.arange(24.0))
a.masked_scatter(torch.tensor([True, False, True, False]), torch.arange(24.0))
a.put(torch.tensor([50]), torch.ones(1))
a.put(torch.tensor([0]), torch.ones(2))
a.put(torch.tensor([0]), torch.ones(1).double())
a.put(torch.tensor([1.0]), torch.ones(1))
a.put(torch.tensor([-1, -1]), torch.ones(2), accumulate=True)
a.t().put(torch.tensor([[1, 2]]), torch.ones(2))
a.index_put((torch.tensor([5]),), torch.ones(1))
a.index_put((torch.tensor([0]),), torch.ones(1).double())
a.index_put((torch.tensor([0]),), torch.ones(5))
a.index_put((torch.tensor([0, 0]),), torch.ones(1), accumulate=True)
a.index_put((torch.tensor([0, 1]), torch.tensor([0, 1]), torch.tensor([0, 1])), torch.ones(2))
a.index_put((torch.tensor([1.0]),), torch.ones(1))
a.index_put((a > 3,), torch.tensor(9.0))
a.index_put((a > 3,), torch.arange(8.0))
a.index_put((a > 3,), torch.arange(8.0), accumulate=True)
torch.take_along_dim(a, torch.tensor([[5]]), 1)
torch.take_along_dim(a, torch.tensor([5]))
torch.take_along_dim(a, torch.tensor([5]), 0)
torch.take_along_dim(a, torch.tensor([[5.0]]), 0)
torch.take_along_dim(a, torch.tensor([[-1]]), 1)
torch.repeat_interleave(a, torch.tensor([-1, 1, 1]), 0)
torch.repeat_interleave(a, torch.tensor([1, 1]), 0)
torch.repeat_interleave(a, torch.tensor([1.0, 1, 1]), 0)
torch.repeat_interleave(torch.tensor([1, 2]))
torch.repeat_interleave(torch.tensor([1, 2], dtype=torch.int32))
torch.repeat_interleave(a, torch.tensor([1, 1, 1]), 0, output_size=5)
torch.repeat_interleave(a[0], 2)
torch.repeat_interleave(a[0], -2)
torch.repeat_interleave(a, torch.tensor([[1, 1, 1]]), 0)
torch.repeat_interleave(a, torch.tensor([2]), 0)
torch.repeat_interleave(a, 2)
torch.repeat_interleave(a, 3, 1)
a.repeat_interleave(torch.tensor([0, 3, 1, 0]), dim=1)
torch.tensor(3.0).nonzero()
torch.tensor(3.0).nonzero(as_tuple=True)
a.nonzero(as_tuple=True)
a.nonzero().stride()
torch.argwhere(a > 4)
torch.argwhere(torch.tensor(3.0))
a.count_nonzero(1)
a.count_nonzero((0, 1))
a.count_nonzero()
torch.zeros(0, 3).nonzero()
torch.zeros(0, 3)[torch.zeros(0, dtype=torch.long)]
torch.zeros(0, 3)[torch.zeros(1, dtype=torch.long)]
torch.zeros(2, 0)[torch.tensor([1])]
torch.zeros(2, 0)[torch.tensor([3])]
torch.zeros(2, 0)[:, torch.tensor([0])]
a.to('meta')[torch.tensor([0, 1], device='meta')].shape
a.to('meta')[0, 1:].shape
a.to('meta').gather(0, torch.zeros(2, 2, dtype=torch.long, device='meta')).shape
a.expand(2, 3, 4)[:, torch.tensor([0, 1])]
"""

WRITES = """
a[0] = [1, 2, 3, 4]
a[0] = np.ones(4)
a[0] = torch.ones(5)
a[torch.tensor([0, 1])] = torch.ones(5)
a[0] = torch.ones(1, 1, 4)
a[0] = torch.ones(2, 1, 4)
a[0] = 1j
a[a > 3] = torch.ones(2)
a[a > 3] = torch.arange(8.0)
a[a > 3] = 7
a[a > 3] = torch.tensor(7)
a[a > 3] = torch.ones(1)
a[0] = 's'
a[:] = 300
a[torch.tensor([0, 1])] = torch.ones(4, dtype=torch.long)
a[torch.tensor([0, 1])] = torch.tensor(3)
a[0] = torch.ones(4, dtype=torch.long)
a[0] = None
a[True] = 1
a[False] = torch.ones(3)
a[...] = 2
a[()] = 2
a[None] = 2
a[1:, ::2] = torch.tensor([1.0, 2.0])
a[1:] = a[:-1]
a[[0, 0]] = torch.arange(8.0).reshape(2, 4)
a[[0, 2], [1, 1]] = torch.tensor([5.0, 6.0])
a[:, [0, 1]] = torch.tensor([[5.0], [6.0], [7.0]])
a[5] = 1
a[0, 0, 0] = 1
a[1.5] = 1
a[torch.tensor([True, False, True])] = 0
a[torch.tensor([True, False, True])] = torch.arange(8.0).reshape(2, 4)
a[torch.tensor([True, False, True]), 1] = 9
a[torch.tensor(1)] = 5
a[np.array([0, 1])] = np.float64(3)
a[0] = np.int64(3)
a[:, 1] = True
a[0].scatter_(0, torch.tensor([1]), 5.0)
a.t().index_put_((torch.tensor([1, 2]),), torch.tensor(5.0))
a.t().masked_scatter_(a.t() > 3, torch.arange(12.0))
a.t().put_(torch.tensor([1, 2]), torch.tensor([5.0, 6.0]))
a.expand(2, 3, 4)[0] = 1
a[None].expand(2, 3, 4).scatter_(0, torch.zeros(1, 1, 1, dtype=torch.long), 1.0)
a.index_add_(0, torch.tensor([0, 0, 1]), a.clone())
a.index_add_(0, torch.tensor([0]), a[1:2])
a.index_add_(0, torch.tensor([0]), a[:1])
a.scatter_(0, torch.tensor([[1]]), a)
a[0:2].index_fill_(1, torch.tensor([0]), 9)
a.masked_fill_(a > 5, 0)
"""

READS, WRITES = (text.strip().splitlines() for text in (READS, WRITES))


def plain(result):
    """A result as values that JSON can hold."""
    if isinstance(result, (tuple, list)):
        return [plain(r) for r in result]
    if hasattr(result, "dtype") and hasattr(result, "tolist"):
        return [
            str(result.dtype).replace("flambeau", "torch"),
            list(result.shape),
            repr(result.tolist()),
        ]
    return repr(result)


def run(torch, text):
    """What an expression gives, or what a statement makes of a; complaints by their first line."""
    space = {
        "torch": torch,
        "np": np,
        "a": torch.arange(12.0).reshape(3, 4),
        "b": torch.arange(24.0).reshape(2, 3, 4),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if text in WRITES:
                exec(text, space)
                return plain(space["a"])
            return plain(eval(text, space))
        except Exception as error:
            return f"{type(error).__name__}: {str(error).splitlines()[0].strip()}"
