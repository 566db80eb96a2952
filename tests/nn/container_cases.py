"""Lines about containers."""

SETUP = """
s = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
named = nn.Sequential(__import__("collections").OrderedDict(a=nn.ReLU(), b=nn.Tanh()))
ml = nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh()])
md = nn.ModuleDict({"b": nn.ReLU(), "a": nn.Tanh()})
pl = nn.ParameterList([x(2, 3), 3, p(1), "text", 5.0])
pd = nn.ParameterDict({"b": x(2, 3), "a": 4, "c": p(1)})
"""

LINES = """
s
len(s), list(s._modules)
s[0], s[-1], s[1:]
s[2]
s[-3]
s["a"]
s[1.5]
named.a, named[1], named[:1]
named["a"]
s + named
s + nn.ReLU()
s += named; s
s += 3
s * 2
2 * s
s *= 2; s
s * 0
s * 1.5
s.__imul__("a")
(s * 2)[0] is (s * 2)[2]
s.insert(1, nn.Tanh())
s.insert(-1, nn.Tanh())
s.insert(2, nn.Tanh())
s.insert(5, nn.ReLU())
s.insert(0, 3)
s.append(nn.Tanh())
s.append(3)
s.extend([nn.Tanh(), nn.GELU()])
s.extend(3)
s.extend([3])
s.pop(0), s
s.pop(-1), s
s.pop(7)
s.pop(slice(0, 1)), s
del s[0]; s
del named[0]; named
del s[0:1]; s
del s[9]
s[0] = nn.Tanh(); s
named[1] = nn.Sigmoid(); named
s[9] = nn.Tanh()
s[0] = 5
nn.Sequential(3)
nn.Sequential()
nn.Sequential()(x(2))
nn.Sequential({"a": nn.ReLU()})
nn.Sequential(s, named)
[n for n, _ in nn.Sequential(s, named).named_modules()]
"0" in dir(s), "a" in dir(named)
type(s[:1]).__name__
ml
len(ml), list(ml._modules)
nn.ModuleList([])
nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 3)])
nn.ModuleList([nn.Linear(2, 2), nn.Sequential(nn.ReLU(), nn.Tanh()), nn.Sequential(nn.ReLU(), nn.Tanh())])
ml[3]
ml[-4]
ml["0"]
ml[0:2], ml[-1]
ml + [nn.ReLU()]
ml + nn.ReLU()
ml += [nn.GELU()]; ml
ml += 3
ml.append(nn.GELU())
ml.append(3)
ml.extend([nn.GELU()])
ml.extend(3)
ml.extend(nn.ReLU())
ml.insert(1, nn.Sigmoid()); ml
ml.pop(-1), ml
ml.pop(0), ml
ml.pop(5)
ml[1] = nn.GELU(); ml
ml[0] = 3
del ml[1]; ml
del ml[0:2]; ml
ml(3)
nn.ModuleList(3)
nn.ModuleList({"a": nn.ReLU()})
nn.ModuleList(nn.ModuleList([nn.ReLU()]))
list(ml), [m is n for m, n in zip(ml, ml[:])]
md
list(md), list(md.keys()), list(md.values()), list(md.items()), len(md), "a" in md, "z" in md
md["z"]
md["z"] = nn.GELU(); md
md["z"] = 3
md[1] = nn.ReLU()
del md["a"]; md
del md["z"]
md.pop("a"), md
md.pop("z")
md.clear(); md
md.update({"c": nn.GELU(), "b": nn.Sigmoid()}); md
md.update(nn.ModuleDict({"z": nn.ReLU(), "y": nn.ReLU()})); md
md.update([("z", nn.ReLU())]); md
md.update([["z", nn.ReLU()]]); md
md.update([("a",)])
md.update(3)
md.update([3])
md.update([("a", 1)])
nn.ModuleDict({"keys": nn.ReLU()})
nn.ModuleDict({"a.b": nn.ReLU()})
nn.ModuleDict({"": nn.ReLU()})
md(3)
pl
pl[0].shape, pl[1], pl[-1], pl[1:4], len(pl)
pl[7]
pl[-6]
pl[0] = x(4); pl
pl[1] = p(2); pl
pl[0] = None; pl[0]
pl[9] = x(3)
pl.append(3)
pl.append([1])
pl.append(x(2)), [type(v).__name__ for v in pl]
pl.extend([x(1)])
pl.extend(3)
pl.extend(x(2))
pl += [x(2)]; pl
pl + [3]
nn.ParameterList(3)
nn.ParameterList()
nn.ParameterList([x(2).double(), x(2, 2).half()])
nn.ParameterList([lib.zeros(2, dtype=lib.int64)])
nn.ParameterList([[1, 2], nn.ParameterList([x(2)]), x(2)])
pl(3)
[n for n, _ in pl.named_parameters()], list(pl.state_dict())
pd
[n for n, _ in pd.named_parameters()], list(pd.state_dict()), list(pd), len(pd)
pd["z"]
pd["b"].shape, pd.b.shape, pd["a"]
pd["z"] = x(3); pd
pd["b"] = x(3); pd
pd[1] = x(2)
del pd["a"]; pd
pd.update(3)
pd.update([3])
pd.update([("a", 1, 2)])
pd.update(("a", 1))
pd.update({"z": x(2), "y": 3}); pd
pd.update([("z", x(2)), ("y", 3)]); pd
pd.pop("b").shape, pd
pd.pop("z")
pd.popitem()[0], pd
pd | nn.ParameterDict({"q": x(2)})
pd | {"q": x(2)}
list({"q": x(2)} | pd)
pd |= {"q": x(2)}; pd
pd(1)
pd.fromkeys(["r", "s"], 0.5)
pd.fromkeys("rs")
pd.get("zz", 5), pd.get("zz"), pd.get("a")
pd.setdefault("y", x(2)), pd
pd.setdefault("a", 9)
list(reversed(pd)), list(pd.keys()), [k for k, _ in pd.items()], len(list(pd.values()))
pd.copy()
pd.clear(); len(pd), pd
"a" in pd, "z" in pd
nn.ParameterDict({1: x(2)})
nn.ParameterDict({"keys": x(2)})
nn.ParameterDict([("b", x(1)), ("a", x(1))])
nn.ParameterDict({"b": x(1), "a": x(1)})
nn.ParameterDict(nn.ParameterDict([("b", x(1)), ("a", x(1))]))
nn.ParameterDict({"q": nn.ParameterDict({"z": x(2)}), "w": [1]})
nn.Container(a=nn.ReLU())
nn.Container(a=3)
__import__("copy").deepcopy(s)
__import__("copy").deepcopy(pl)
__import__("pickle").loads(__import__("pickle").dumps(pd))
__import__("pickle").loads(__import__("pickle").dumps(ml))
nn.Sequential(nn.Identity())(lib.ones(2)).tolist()
""".strip().splitlines()  # noqa: E501
