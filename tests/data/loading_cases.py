# ruff: noqa: E501 (a snippet is one line)
"""Programs about loading data, run under PyTorch and under flambeau (see tests/snippets.py).

Each list is a part of the API. A snippet sees `D` for `torch.utils.data` and the small classes of
`PRELUDE`; `drawn()` shows where the default generator is, so that snippets which end with it check
that both packages drew the same numbers at the same moments.
"""

PRELUDE = """
import collections, random, types
D = torch.utils.data
torch.manual_seed(7)
g = torch.Generator().manual_seed(3)
def drawn(generator=None):
    return torch.randint(0, 1000, (2,), generator=generator).tolist()
class Squares(D.Dataset):
    def __init__(self, n=10): self.n = n
    def __len__(self): return self.n
    def __getitem__(self, i):
        if not -self.n <= i < self.n: raise IndexError(f"no sample {i}")
        return i * i, str(i)
class Batched(Squares):
    def __getitems__(self, indices): return [("batched", self[i][0]) for i in indices]
class Stream(D.IterableDataset):
    def __init__(self, n=7, told=None): self.n, self.told = n, told
    def __iter__(self): return iter(range(self.n))
    def __repr__(self): return "Stream"
class Sized(Stream):
    def __len__(self): return self.told
class Noisy(D.Dataset):
    def __len__(self): return 5
    def __getitem__(self, i): return torch.rand(2), random.random() * 0
Point = collections.namedtuple("Point", "x y")
t = D.TensorDataset(torch.arange(10), torch.arange(20.0).reshape(10, 2))
def all_of(loader, epochs=2):
    return [[batch for batch in loader] + [drawn()] for _ in range(epochs)]
"""


def program(snippet: str) -> str:
    return PRELUDE + snippet


DATASETS = [
    "len(t), t[0], t[-1], t[2:4], t[[1, 3]], t[torch.tensor([0, 9])]",
    "t[10]",
    "len(D.TensorDataset())",
    "D.TensorDataset(torch.ones(2), torch.ones(3))",
    "D.TensorDataset(torch.ones(()))",
    "D.TensorDataset([1, 2])",
    "D.Dataset()[0]",
    "len(D.Dataset())",
    "len(t + Squares()), (t + Squares())[-1], (t + t + t)[25]",
    "s = D.StackDataset(t, Squares()); len(s), s[3], s[-1], s.__getitems__([1, 2])",
    "s = D.StackDataset(a=t, b=Squares()); len(s), s[3], s.__getitems__([1, 2]), s.datasets['b'].n",
    "D.StackDataset(Batched(), x=Squares())",
    "D.StackDataset()",
    "D.StackDataset([1, 2], [1])",
    "D.StackDataset(a=[1, 2], b=[1])",
    "D.StackDataset(Batched(), [*range(10)]).__getitems__([4, 2])",
    "D.StackDataset(a=Batched(), b=[*range(10)]).__getitems__([4, 2])",
    "b = Batched(); b.__getitems__ = lambda i: [1]; D.StackDataset(b).__getitems__([4, 2])",
    "b = Batched(); b.__getitems__ = lambda i: [1]; D.StackDataset(a=b).__getitems__([4, 2])",
    "c = D.ConcatDataset(['ab', 'cde', '', 'f']); len(c), [c[i] for i in range(-6, 6)], c.cumulative_sizes",
    "D.ConcatDataset(['ab', 'c'])[3]",
    "D.ConcatDataset(['ab', 'c'])[-4]",
    "D.ConcatDataset([])",
    "D.ConcatDataset([Stream()])",
    "D.ConcatDataset.cumsum(['ab', 'cde'])",
    "D.ConcatDataset(d for d in ['ab', 'c']).datasets",
    "list(D.ChainDataset([Stream(2), Stream(3)]))",
    "list(Stream(2) + Stream(3) + Stream(1))",
    "len(D.ChainDataset([Sized(2, 2), Sized(3, 3)]))",
    "len(D.ChainDataset([Stream(2)]))",
    "list(D.ChainDataset([[1, 2]]))",
    "len(D.ChainDataset([[1, 2]]))",
    "Stream()[0]",
    "s = D.Subset(t, [4, -1, 0]); len(s), s[0], s[-1], s[[0, 2]], s.__getitems__([1, 2])",
    "D.Subset(t, [4])[1]",
    "D.Subset(Batched(), [4, 2]).__getitems__([1, 0])",
    "D.Subset(D.Subset('abcdef', [5, 4, 3]), [2, 0])[0]",
    "class S(D.Subset):\n    def __getitem__(self, i): return i\nS(t, [1])",
    "class S(D.Subset):\n    def __getitem__(self, i): return i\n    def __getitems__(self, i): return i\nS(t, [1])[5]",
    *(
        f"parts = D.random_split(range({n}), {lengths}); [p.indices for p in parts], drawn()"
        for n, lengths in [
            (10, [3, 7]),
            (10, [0.3, 0.7]),
            (10, [0.33, 0.33, 0.34]),
            (7, [0.5, 0.5]),
            (11, [0.25] * 4),
            (3, [1]),
            (3, [1.0]),
            (0, [0, 0]),
            (1, [1, 0]),
            (5, [0.1, 0.2, 0.7]),
        ]
    ),
    "parts = D.random_split(t, [4, 6], generator=g); parts[0][1], [p.indices for p in parts], drawn(), drawn(g)",
    "parts = D.random_split(t, [0.5, 0.5], torch.Generator().manual_seed(42)); [p.indices for p in parts], drawn()",
    "D.random_split(range(10), [3, 8])",
    "D.random_split(range(10), [0.5, 0.4])",
    "D.random_split(range(10), [1.5, -0.5])",
    "[len(p) for p in D.random_split(range(2), [0.1, 0.1, 0.8])]",
    "[len(p) for p in D.random_split(range(5), [2, 3], generator=None)]",
    "isinstance(Stream(), D.Dataset), isinstance(Stream(), collections.abc.Iterable)",
]

SAMPLERS = [
    "list(D.SequentialSampler('abc')), len(D.SequentialSampler('abc'))",
    *(
        f"s = D.RandomSampler(range({n}), {options}); list(s), len(s), drawn(), list(s), drawn(), s.num_samples, s.replacement"
        for n in (1, 10)
        for options in (
            "",
            "replacement=True",
            "num_samples=3",
            "num_samples=25",
            "num_samples=20",
            "True, 70",
            "replacement=True, num_samples=64",
        )
    ),
    *(
        f"s = D.RandomSampler(range(10), generator=g, {options}); i = iter(s); a = [next(i) for _ in range(3)]; a, drawn(g), list(i), drawn(g), drawn()"
        for options in ("", "replacement=True, num_samples=70", "num_samples=12", "num_samples=30")
    ),
    "s = D.RandomSampler(range(2**33), replacement=True, num_samples=40); list(s), drawn()",
    "s = D.RandomSampler(range(10)); iter(s); drawn()",
    "s = D.RandomSampler(range(10)); i = iter(s); next(i); drawn()",
    "D.RandomSampler([])",
    "D.RandomSampler([1], num_samples=0)",
    "D.RandomSampler([1], num_samples=1.5)",
    "D.RandomSampler([1], replacement=1)",
    "D.RandomSampler(3)",
    "s = D.RandomSampler([1], num_samples=2); s.data_source = []; list(s)",
    "s = D.SubsetRandomSampler([4, 'b', 6]); list(s), len(s), drawn()",
    "s = D.SubsetRandomSampler(range(5), generator=g); list(s), drawn(), drawn(g)",
    "s = D.WeightedRandomSampler([0.1, 0.9, 0.4], 8); list(s), len(s), drawn(), s.weights",
    "s = D.WeightedRandomSampler([0.1, 0.9, 0.4], 3, replacement=False); list(s), drawn()",
    "s = D.WeightedRandomSampler(torch.tensor([1, 2, 3]), 5, generator=g); list(s), drawn(), drawn(g)",
    "list(D.WeightedRandomSampler([0.5, 0.5], 3, replacement=False))",
    "D.WeightedRandomSampler([1.0], 0)",
    "D.WeightedRandomSampler([1.0], True)",
    "D.WeightedRandomSampler([1.0], 2.0)",
    "D.WeightedRandomSampler([1.0], 1, 1)",
    "D.WeightedRandomSampler([[1.0]], 1)",
    "list(D.WeightedRandomSampler([-1.0], 1))",
    *(
        f"b = D.BatchSampler(range({n}), {size}, {drop}); list(b), len(b)"
        for n in (0, 1, 7, 9)
        for size in (1, 3, 10)
        for drop in (True, False)
    ),
    "D.BatchSampler(range(3), 0, False)",
    "D.BatchSampler(range(3), True, False)",
    "D.BatchSampler(range(3), 1.0, False)",
    "D.BatchSampler(range(3), 1, 0)",
    "len(D.BatchSampler(iter([1, 2]), 1, True))",
    "list(D.BatchSampler('abcde', 2, False))",
    "list(D.Sampler())",
    "len(D.Sampler())",
    "D.Sampler('abc')",
    *(
        f"s = D.DistributedSampler(range({n}), {replicas}, {rank}, shuffle={shuffle}, seed=5, drop_last={drop}); a = list(s); s.set_epoch(3); a, list(s), len(s), s.total_size, drawn()"
        for n, replicas in ((10, 3), (9, 3), (2, 5), (1, 4), (7, 1))
        for rank in {0, replicas - 1}
        for shuffle in (True, False)
        for drop in (True, False)
        if not (n < replicas and drop)
    ),
    "D.DistributedSampler(range(5), 2, 2)",
    "D.DistributedSampler(range(5), num_replicas=2, rank=-1)",
    "s = D.DistributedSampler(range(5), 2, 1); s.epoch, s.rank, s.num_replicas, s.shuffle, s.seed, s.drop_last",
]

COLLATE = [
    *(
        f"D.default_collate({batch})"
        for batch in (
            "[1, 2]",
            "[1.5, 2]",
            "[1, 2.5]",
            "[True, False]",
            "['a', 'b']",
            "[b'a', b'b']",
            "(1, 2)",
            "[(1, 'a'), (2, 'b')]",
            "[[1, 2.0], [3, 4.0]]",
            "[[], []]",
            "[{'a': 1, 'b': [2, 3]}, {'a': 4, 'b': [5, 6]}]",
            "[{'a': 1}, {'a': 2, 'b': 3}]",
            "[{'a': 1, 'b': 2}, {'a': 2}]",
            "[Point(1, (2, 3)), Point(4, (5, 6))]",
            "[torch.ones(2), torch.zeros(2)]",
            "[torch.ones(()), torch.zeros(())]",
            "[torch.ones(2), torch.zeros(3)]",
            "[torch.ones(2, dtype=torch.bfloat16)] * 2",
            "[torch.ones(2, dtype=torch.float64), torch.ones(2)]",
            "[torch.ones(2, 3).T, torch.zeros(3, 2)]",
            "[torch.ones(2, requires_grad=True), torch.zeros(2)]",
            "[torch.nn.Parameter(torch.ones(2))] * 2",
            "[np.arange(3), np.arange(3)]",
            "[np.ones((2, 2), 'float32')[::2], np.ones((1, 2), 'float32')]",
            "[np.ones(2, 'float32'), np.ones(2, 'float64')]",
            "[np.arange(2), np.ones(2, 'float32')]",
            "[np.ones(2, 'float32'), torch.ones(2)]",
            "[torch.ones(2), np.ones(2, 'float32')]",
            "[np.arange(3), np.arange(3)[::-1]]",
            "[np.arange(3)[::-1], np.arange(3)]",
            "[np.arange(3, dtype='>i4')] * 2",
            "[np.asfortranarray(np.ones((2, 3)))] * 2",
            "[np.ones((3, 0)), np.ones((3, 0))]",
            "[np.ones((2, 3), 'bool'), np.zeros((2, 3), 'bool')]",
            "[np.ma.masked_array([1, 2]), np.ma.masked_array([3, 4])]",
            "[np.float32(1), np.float32(2)]",
            "[np.float64(1), np.float64(2)]",
            "[np.int16(1), np.int16(2)]",
            "[np.uint8(1), np.uint8(2)]",
            "[np.bool_(True), np.bool_(False)]",
            "[np.array(1.5), np.array(2.5)]",
            "[np.array(['a']), np.array(['b'])]",
            "[np.array([None]), np.array([None])]",
            "[np.array([b'a'])]",
            "[np.datetime64('2020-01-01')]",
            "[np.array([1, 2]), np.array([1, 2, 3])]",
            "[np.str_('a'), np.str_('b')]",
            "[(np.float64(1), 2), (np.float64(3), 4)]",
            "[np.complex64(1j), np.complex64(2)]",
            "[1j, 2j]",
            "[None, None]",
            "[{1, 2}]",
            "[{'a': {1}}, {'a': {2}}]",
            "[(1, None), (2, None)]",
            "[range(2), range(3, 5)]",
            "[(1, 2), (3,)]",
            "[[1], [2, 3]]",
            "[]",
            "[1, 'a']",
            "['a', 1]",
            "[torch.Size([1, 2]), torch.Size([3, 4])]",
            "[collections.OrderedDict(a=1), collections.OrderedDict(a=2)]",
            "[collections.defaultdict(list, a=1), collections.defaultdict(list, a=2)]",
            "[types.MappingProxyType({'a': 1}), types.MappingProxyType({'a': 2})]",
            "[collections.deque([1, 2]), collections.deque([3, 4])]",
            "[2**40, 1]",
            "[2**70, 1]",
            "[{'a': {'b': (torch.ones(1), 'x')}}] * 2",
            "torch.arange(3)",
            "np.arange(3)",
            "'ab'",
            "5",
        )
    ),
    "torch.set_default_device('meta'); D.default_collate([np.ones(2), np.ones(2)])",
    "torch.set_default_device('meta'); D.default_collate([1, 2]), D.default_convert(np.ones(2))",
    "torch.set_default_dtype(torch.float64); D.default_collate([1.5, 2]), D.default_collate([np.float32(1)])",
    "type(D.default_collate([collections.OrderedDict(a=1)] * 2))",
    "d = D.default_collate([collections.defaultdict(list, a=1)] * 2); type(d), d.default_factory, d['new']",
    "type(D.default_collate([types.MappingProxyType({'a': 1})] * 2))",
    "u = D.default_collate([collections.UserList([1, 2]), collections.UserList([3, 4])]); type(u), u.data",
    "q = D.default_collate([collections.deque([1, 2]), collections.deque([3, 4])]); type(q), list(q)",
    "p = D.default_collate([Point(1, 2), Point(3, 4)]); type(p), p.x, p.y",
    "class L(list): pass\nl = L([1, 2]); l.note = 'kept'; r = D.default_collate([l, L([3, 4])]); type(r), r.note, list(r)",
    "class M(dict): pass\nm = M(a=1); m.note = 'kept'; r = D.default_collate([m, M(a=2)]); type(r), r.note, m['a'], r['a']",
    "a = [1, 2]; r = D.default_collate([a, [3, 4]]); a, r is a",
    *(
        f"D.default_convert({data})"
        for data in (
            "1",
            "1.5",
            "'a'",
            "b'a'",
            "None",
            "torch.ones(2)",
            "np.arange(3)",
            "np.float32(2)",
            "np.int64(2)",
            "np.bool_(True)",
            "np.array(['a'])",
            "np.array([None])",
            "np.str_('a')",
            "np.array(2.5)",
            "(1, np.arange(2))",
            "[1, np.arange(2)]",
            "{'a': np.arange(2), 'b': (1, [np.float64(2)])}",
            "Point(np.arange(2), 1)",
            "range(3)",
            "{1, 2}",
            "torch.nn.Parameter(torch.ones(1))",
        )
    ),
    "type(D.default_convert(Point(np.arange(2), 1)))",
    "type(D.default_convert(collections.OrderedDict(a=np.arange(2))))",
    "type(D.default_convert(range(3)))",
    "c = D._utils.collate; c.collate([1, 2], collate_fn_map={int: lambda b, *, collate_fn_map=None: sum(b)})",
    "c = D._utils.collate; c.collate([(True, 'a'), (False, 'b')], collate_fn_map={int: lambda b, *, collate_fn_map=None: sum(b), str: c.collate_str_fn})",
    "c = D._utils.collate; c.collate([1, 2])",
    "c = D._utils.collate; c.collate([{'a': 1}], collate_fn_map={(dict, int): lambda b, *, collate_fn_map=None: 'both'})",
    "c = D._utils.collate; c.collate_float_fn([1, 2]), c.collate_int_fn([1, 2]), c.collate_str_fn('ab'), c.collate_tensor_fn([torch.ones(1)])",
    "c = D._utils.collate; c.collate_numpy_array_fn([np.ones(1)] * 2, collate_fn_map={torch.Tensor: lambda b, *, collate_fn_map=None: 'mine'})",
    "c = D._utils.collate; c.collate_numpy_scalar_fn([np.int8(3)] * 2)",
]

LOADER = [
    *(
        f"all_of(D.DataLoader({dataset}, {options}))"
        for dataset in ("t", "Squares()", "Batched()", "[*range(10)]", "torch.arange(10)")
        for options in (
            "",
            "4",
            "4, True",
            "batch_size=4, shuffle=True, drop_last=True",
            "batch_size=5, drop_last=True",
            "batch_size=20",
            "batch_size=20, drop_last=True",
            "batch_size=3, shuffle=True, generator=g",
            "batch_size=5, shuffle=True, generator=g",
            "batch_size=3, generator=g",
            "batch_size=None",
            "batch_size=None, shuffle=True",
            "batch_size=None, sampler=[3, 1]",
            "sampler=[3, 1, 4], batch_size=2",
            "batch_size=2, sampler=D.SubsetRandomSampler([3, 1, 4])",
            "batch_size=3, sampler=D.WeightedRandomSampler([1.0, 2.0] * 5, 7)",
            "batch_size=7, sampler=D.RandomSampler(range(10), replacement=True, num_samples=40)",
            "batch_size=7, sampler=D.RandomSampler(range(10), replacement=True, num_samples=40, generator=g), generator=g",
            "batch_size=7, sampler=D.RandomSampler(range(10), num_samples=24, generator=g)",
            "batch_size=50, sampler=D.RandomSampler(range(10), replacement=True, num_samples=120, generator=g)",
            "batch_size=4, sampler=D.DistributedSampler(range(10), 2, 1)",
            "batch_sampler=[[0, 1], [5], [9, 8, 7]]",
            "batch_sampler=D.BatchSampler(D.SequentialSampler(range(10)), 4, False)",
            "batch_size=2, collate_fn=len",
            "batch_size=None, collate_fn=lambda s: s",
        )
        if not ("num_samples" in options and dataset not in ("t", "Squares()"))
    ),
    *(
        f"all_of(D.DataLoader({dataset}, batch_size=4, shuffle=True))"
        for dataset in (
            "D.Subset(t, [1, -2, 3, 3, 0, 9])",
            "D.Subset(t, range(2, 9))",
            "D.Subset(t, np.arange(3, 8))",
            "D.Subset(t, torch.tensor([3, 1, 2]))",
            "D.Subset(D.Subset(t, [1, 2, 3, 4, 5]), [4, 3, -1])",
            "D.random_split(t, [0.7, 0.3])[0]",
            "D.StackDataset(t, torch.arange(10))",
            "D.StackDataset(a=t, b=D.Subset(t, [*range(9, -1, -1)]))",
            "D.StackDataset(t, Squares())",
            "D.ConcatDataset([t, t])",
            "D.TensorDataset(torch.arange(3.0, requires_grad=True))",
            "D.TensorDataset(torch.ones(5, 2, 3).transpose(0, 2))",
            "D.TensorDataset(torch.ones(5, 0), torch.ones(5, dtype=torch.complex64))",
            "D.TensorDataset(torch.ones(3, 1).expand(3, 4), torch.ones(4, 4)[:3, ::2])",
            "D.TensorDataset(torch.nn.Parameter(torch.ones(3)))",
            "Noisy()",
            "np.arange(12).reshape(6, 2)",
            "'abcdef'",
        )
    ),
    *(
        f"all_of(D.DataLoader({dataset}, {options}))"
        for dataset in (
            "Stream()",
            "Sized(7, 7)",
            "Stream(3) + Stream(4)",
            "Stream(0)",
            "Sized(7, 3)",
        )
        for options in (
            "",
            "3",
            "3, drop_last=True",
            "None",
            "batch_size=7",
            "batch_size=2, generator=g",
        )
    ),
    *(
        f"l = D.DataLoader({dataset}, {options}); len(l), len(iter(l)) if l._dataset_kind == 0 else None"
        for dataset in ("t", "Sized(7, 7)")
        for options in (
            "",
            "3",
            "batch_size=3, drop_last=True",
            "batch_size=None",
            "batch_size=20",
            "batch_size=20, drop_last=True",
        )
    ),
    "l = D.DataLoader(Sized(7, 2), batch_size=None); len(l), list(l)",
    "l = D.DataLoader(Sized(7, 2), batch_size=3); len(l), list(l)",
    "l = D.DataLoader(Sized(3, 4), batch_size=1); len(l), list(l)",
    "len(D.DataLoader(Stream()))",
    "len(D.DataLoader(t, sampler=iter([1])))",
    "len(D.DataLoader(t, batch_sampler=[[1], [2]]))",
    "i = iter(D.DataLoader(t, 4, True)); a = drawn(); next(i), drawn(), iter(i) is i, next(i), next(i), drawn(), a",
    "i = iter(D.DataLoader(t, 4, True)); next(i); del i; drawn()",
    "i = iter(D.DataLoader(t, 20)); next(i); next(i)",
    "l = D.DataLoader(t, 4); a = iter(l); b = iter(l); next(a), next(b), next(a), next(b), drawn()",
    *(
        f"D.DataLoader(t, {options})"
        for options in (
            "num_workers=-1",
            "timeout=-1",
            "prefetch_factor=2",
            "num_workers=1, prefetch_factor=-1",
            "persistent_workers=True",
            "sampler=[1], shuffle=True",
            "batch_sampler=[[1]], batch_size=2",
            "batch_sampler=[[1]], shuffle=True",
            "batch_sampler=[[1]], sampler=[1]",
            "batch_sampler=[[1]], drop_last=True",
            "batch_sampler=[[1]], batch_size=None",
            "batch_size=None, drop_last=True",
            "batch_size=0",
            "batch_size=-1",
            "batch_size=2.0",
            "batch_size=True",
            "drop_last=1",
            "multiprocessing_context='fork'",
            "num_workers=1, multiprocessing_context='quick'",
            "num_workers=1, multiprocessing_context=5",
            "4, prefetch_factor=3, in_order=False, nonsense=1",
        )
    ),
    "D.DataLoader(Stream(), shuffle=True)",
    "D.DataLoader(Stream(), sampler=[1])",
    "D.DataLoader(Stream(), batch_sampler=[[1]])",
    "l = D.DataLoader(Stream(), shuffle=False); type(l.sampler), type(l.batch_sampler)",
    "D.DataLoader([], shuffle=True)",
    "list(D.DataLoader([]))",
    "list(D.DataLoader(5))",
    "list(D.DataLoader(iter([1])))",
    "list(D.DataLoader(iter([1]), shuffle=True))",
    "list(iter(D.DataLoader(t, timeout=1)))",
    *(
        f"l = D.DataLoader(t); l.{name} = None"
        for name in "batch_size batch_sampler sampler drop_last dataset persistent_workers".split()
    ),
    "class L(D.DataLoader): pass\nl = L(t); l.batch_size = 5",
    "l = D.DataLoader(t); l.num_workers = 2; l.collate_fn = len; l.generator = g; l.timeout = 3; l.num_workers",
    "l = D.DataLoader(t); l.multiprocessing_context = 'fork'",
    "l = D.DataLoader(t, 3, True); l.batch_size, l.drop_last, l.num_workers, l.pin_memory, l.pin_memory_device, l.timeout, l.worker_init_fn, l.multiprocessing_context, l.generator, l.prefetch_factor, l.persistent_workers, l.in_order, l._dataset_kind, l._auto_collation, type(l.sampler), type(l.batch_sampler), l._index_sampler is l.batch_sampler, l._iterator, l.collate_fn.__name__",
    "l = D.DataLoader(t, None); l.batch_size, l.batch_sampler, l._auto_collation, l._index_sampler is l.sampler, l.collate_fn.__name__",
    "l = D.DataLoader(t, batch_sampler=[[1]]); l.batch_size, l.drop_last, type(l.sampler), l._auto_collation",
    "l = D.DataLoader(t, num_workers=2); l.prefetch_factor, l.num_workers",
    "D._DatasetKind.Map, D._DatasetKind.Iterable",
    "f = D._DatasetKind.create_fetcher(0, Squares(), True, list, False); f.fetch([2, 3])",
    "f = D._DatasetKind.create_fetcher(1, Stream(4), True, list, True); f.fetch([0] * 3), f.ended",
    "f = D._DatasetKind.create_fetcher(1, Stream(4), False, str, False); f.fetch(None), f.fetch(None)",
    "list(D.DataLoader(t, sampler=[3, 10], batch_size=2))",
    "list(D.DataLoader(t, sampler=[-11], batch_size=2))",
    "list(D.DataLoader(t, sampler=[-1, -10], batch_size=2))",
    "list(D.DataLoader(t, sampler=[True, 2], batch_size=2))",
    "list(D.DataLoader(t, sampler=[1.0], batch_size=2))",
    "list(D.DataLoader(t, sampler=torch.tensor([3, 1]), batch_size=2))",
    "list(D.DataLoader(t, sampler=np.array([3, 1]), batch_size=2))",
    "list(D.DataLoader(t, batch_sampler=[(1, 2), [3]]))",
    "list(D.DataLoader(t, batch_sampler=[torch.tensor([1, 2])]))",
    "list(D.DataLoader(t, batch_sampler=[[]]))",
    "list(D.DataLoader(t, batch_sampler=[5]))",
    "list(D.DataLoader(t, batch_size=2, sampler=D.SequentialSampler(range(12))))[-1]",
    "list(D.DataLoader(t, batch_size=12, sampler=D.RandomSampler(range(12))))",
    "list(D.DataLoader(Squares(3), sampler=[1, 7], batch_size=2))",
    "list(D.DataLoader([1, None], batch_size=2))",
    "list(D.DataLoader(torch.arange(4), batch_size=2, collate_fn=torch.stack))",
    "list(D.DataLoader(t, batch_size=4, pin_memory=True))",
    "list(D.DataLoader(t, batch_size=4, pin_memory=True, pin_memory_device='cuda'))",
    "D.dataloader.default_collate is D.default_collate, D.dataset.random_split is D.random_split, D.sampler.BatchSampler is D.BatchSampler, D.distributed.DistributedSampler is D.DistributedSampler, D.dataloader._DatasetKind is D._DatasetKind",
    "type(next(iter(D.dataloader._InfiniteConstantSampler())))",
    "p = D._utils.pin_memory.pin_memory; p('a'), p(b'b'), p(3), p([1, (2,)]), p({'a': 1}), p(Point(1, 2))",
]

ALL = {"datasets": DATASETS, "samplers": SAMPLERS, "collate": COLLATE, "loader": LOADER}
