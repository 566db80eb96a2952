"""Questions to torch.utils._pytree, as text; `P` is the module, `torch` its package."""

import collections
import dataclasses
import enum
import time
import warnings

NT = collections.namedtuple("NT", "a b")
NT.__module__ = "cases"


@dataclasses.dataclass
class Point:
    x: int
    y: object


class Pair:
    def __init__(self, first, second):
        self.first, self.second = first, second

    def __repr__(self):
        return f"Pair({self.first}, {self.second})"


class Color(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Data:
    a: int
    b: str = "moo"
    c: object = None
    d: str = dataclasses.field(init=False, default="")


class Plain:
    def __init__(self, x, y=2):
        self.x, self.y = x, y

    def __repr__(self):
        return f"Plain({self.x}, {self.y})"


@dataclasses.dataclass(frozen=True)
class Norm:
    kind: str


def both_ways(pytree, tree):
    """Text of a structure, and the structure that it gives."""
    text = pytree.treespec_dumps(pytree.tree_structure(tree))
    return text, pytree.treespec_loads(text)


TREE = {
    "b": [1, (2, None)],
    "a": NT(3, 4),
    "c": collections.OrderedDict(z=1, y=2),
    "d": collections.deque([1, 2], maxlen=3),
    "e": collections.defaultdict(list, q=5),
}

CASES = [
    "P.tree_flatten(TREE)",
    "P.tree_unflatten(range(10), P.tree_structure(TREE))",
    "[(s.num_leaves, s.num_nodes, s.num_children) for s in [P.tree_structure(TREE)]]",
    "[(P.keystr(k), v) for k, v in P.tree_leaves_with_path(TREE)]",
    "P.tree_flatten_with_path(TREE)[0][1]",
    "P.tree_structure(1), P.tree_structure([]), P.tree_structure(None)",
    "P.tree_structure([1, 2]) == P.tree_structure([3, 4])",
    "P.tree_structure([1]) == P.tree_structure((1,))",
    "hash(P.tree_structure([1, 2])) == hash(P.tree_structure([3, 4]))",
    "P.tree_unflatten([1, 2, 3], P.tree_structure([1, 2]))",
    "P.tree_unflatten([1, 2], 3)",
    "P.tree_map(lambda a, b: a + b, [1, 2], [1, 2, 3])",
    "P.tree_map(lambda a, b: a + b, [1, 2], (1, 2))",
    "P.tree_map(lambda a, b: a + b, {'a': 1}, {'b': 2})",
    "P.tree_map(lambda a, b: a + b, {'a': 1}, {'a': 2, 'b': 2})",
    "P.tree_map(lambda a, b: a + b, {'a': 1, 'b': 2}, {'b': 10, 'a': 20})",
    "P.tree_map(lambda a, b: a + b, {'a': 1, 'b': 2}, collections.OrderedDict(b=10, a=20))",
    "P.tree_map(lambda a, b: a + b, TREE['e'], {'q': 1})",
    "P.tree_map(lambda a, b: (a, b), [1, 2], [[3, 4], 5])",
    "P.tree_map(lambda a: a * 2, [1, [2]], is_leaf=lambda q: q == [2])",
    "P.tree_map_(lambda a: None, [1, (2,)])",
    "P.tree_map_only(int, lambda a: a + 1, [1, 'a', 2.0])",
    "P.tree_map_only((int, float), lambda a: a + 1, [1, 'a', 2.0])",
    "P.tree_map_only(int | str, lambda a: a * 2, [1, 'a', 2.0])",
    "P.tree_map_only(lambda q: isinstance(q, str), lambda a: a + '!', [1, 'a', 2.0])",
    "P.tree_map_only('x', lambda a: a, [1])",
    "P.tree_map_only_(int, lambda a: None, [1])",
    "P.tree_any(lambda a: a > 1, [1, 2]), P.tree_all(lambda a: a > 1, [1, 2])",
    "P.tree_any_only(int, lambda a: a > 1, [1, 'x']), P.tree_all_only(int, bool, [1, 'x'])",
    "P.tree_leaves(torch.max(torch.ones(1, 2), 1))",
    "P.tree_map(lambda a: a + 1, torch.max(torch.ones(2, 2), 1))",
    "P.tree_structure(torch.max(torch.ones(2, 2), 1))",
    "P.tree_leaves(torch.Size([1, 2])), P.tree_map(lambda v: v + 1, torch.Size([1, 2]))",
    "P.tree_structure(range(2)), P.tree_is_leaf({1}), P.tree_is_leaf([1]), P.tree_leaves('ab')",
    "P.register_pytree_node(list, list, list)",
    "P.tree_structure(Pair(1, [2]))",
    "P.tree_map(lambda v: v + 1, Pair(1, [2]))",
    "P.tree_flatten_with_path(Pair(1, 2))",
    "P.tree_map(lambda v: v + 1, Point(1, [2, 3]))",
    "P.tree_flatten(Point(1, None)), P.tree_map(lambda v: v, Point(1, None))",
    "P.tree_flatten_with_path(Point(1, 2))[0]",
    "P.tree_map_with_path(lambda k, v: (P.keystr(k), v), {'a': [1]})",
    "P.tree_map_with_path(lambda k, v, w: (P.keystr(k), v, w), {'a': [1]}, {'a': [(2, 3)]})",
    "P.key_get({'a': [1, 5]}, P.tree_leaves_with_path({'a': [1, 5]})[1][0])",
    "P._broadcast_to_and_flatten(1, P.tree_structure([1, [2, 3]]))",
    "P._broadcast_to_and_flatten([1, 2], P.tree_structure([1, [2, 3]]))",
    "P._broadcast_to_and_flatten([1], P.tree_structure([1, [2, 3]]))",
    "P._broadcast_to_and_flatten([1, (2, 3)], P.tree_structure([1, [2, 3]]))",
    "P.tree_structure([1, [2]]).flatten_up_to([1, [[3, 4]]])",
    "P.tree_structure([1, [2]]).flatten_up_to([1, 2])",
    "P.tree_structure([1, [2]]).unflatten([7, 8]), P.tree_structure([1, [2]]).is_leaf()",
    "P.tree_structure([1, [2]]).child(1), P.tree_structure([1, [2]]).children()",
    "P.TreeSpec(list, None, [P.treespec_leaf()]), P.tree_structure({'b': 1, 'a': 2}).context",
    "P.arg_tree_leaves(1, [2], k=3), P.map_only(int)(lambda v: v + 1)(2)",
    "P.SequenceKey(1), str(P.MappingKey('a')), P.MappingKey('a'), str(P.GetAttrKey('n'))",
    "P.keystr((P.SequenceKey(1), P.MappingKey('a'), P.GetAttrKey('n')))",
    "P.treespec_tuple([P.treespec_leaf()]), P.treespec_dict({'a': P.treespec_leaf()})",
    "P.is_namedtuple(NT), P.is_namedtuple_instance(NT(1, 2)), P.is_namedtuple_class(tuple)",
    "P.is_structseq(torch.max(torch.ones(1, 2), 1)), P.is_structseq(NT(1, 2))",
    "P._get_node_type(NT(1, 2)) is collections.namedtuple, P._get_node_type([1])",
    "list(P.tree_iter([1, {'a': 2}]))",
    "P.__all__",
    "both_ways(P, {Color.RED: 5})",
    "both_ways(P, {1: [2, (3,)], 1.5: collections.OrderedDict(a=1), None: 1, True: 2})",
    "both_ways(P, collections.defaultdict(int, {Color.RED: 5}))",
    "both_ways(P, [collections.deque([1], maxlen=3), collections.deque([1])])",
    "both_ways(P, torch.Size([1, 2]))",
    "both_ways(P, {torch.float32: 1})",
    "both_ways(P, NT(1, 2))",
    "P._register_namedtuple(NT, serialized_type_name='cases.NT'), both_ways(P, NT(1, 2))",
    "P._register_namedtuple(NT, serialized_type_name='cases.NT')",
    "both_ways(P, Pair(1, 2))",
    "P.treespec_dumps(P.tree_structure([1]), -1)",
    "P.treespec_dumps(3)",
    "P.treespec_loads('[-1, {}]')",
    'P.treespec_loads(\'[1, {"type": "no", "context": "null", "children_spec": []}]\')',
    "P.register_pytree_node(Color, list, list, to_dumpable_context=list)",
    "P.register_dataclass(Data, field_names=['a', 'b'])",
    "P.register_dataclass(Data, field_names=['a', 'b', 'c', 'd'])",
    "P.register_dataclass(Data, field_names=['a', 'b', 'c'], drop_field_names=['b'])",
    "P.register_dataclass(Data, field_names=['a'], drop_field_names=['b', 'c'])",
    "P.tree_map(lambda v: v, Data(3, 'b', 'c'))",
    "P.register_dataclass(Data)",
    "P.register_dataclass(Plain)",
    "P.register_dataclass(Plain, field_names=['x']), P.tree_map(lambda v: v + 1, Plain(1, 7))",
    "P.register_constant(Plain)",
    "P.register_constant(Point)",
    "P.register_constant(Norm), P.tree_flatten([Norm('l1'), 2])",
    "P.is_constant_class(Norm), P.tree_map(lambda v: v, Norm('l1'))",
    "P.tree_flatten_with_path([Norm('l1'), 2])[0]",
    "[P.tree_structure(Norm('l1')) == P.tree_structure(Norm(kind)) for kind in ('l1', 'l2')]",
    "P.is_structseq(time.gmtime()), P.tree_is_leaf(time.gmtime())",
    "[P.treespec_pprint(P.tree_structure(tree)) for tree in (1, [1, {'a': 2}], TREE['a'])]",
    "P.tree_flatten_with_path(immutable.immutable_list([1, immutable.immutable_dict(a=2)]))[0]",
]


def answers(torch, pytree) -> dict[str, str]:
    """What the module answers to each, with errors as text."""
    pytree.register_pytree_node(
        Pair, lambda p: ([p.first, p.second], None), lambda children, _: Pair(*children)
    )
    pytree.register_dataclass(Point)
    names = {"P": pytree, "torch": torch, "collections": collections}
    names |= {"TREE": TREE, "NT": NT, "Pair": Pair, "Point": Point, "Color": Color, "time": time}
    names |= {"Data": Data, "Plain": Plain, "Norm": Norm, "both_ways": both_ways}
    names |= {"immutable": torch.fx.immutable_collections}
    found = {}
    for case in CASES:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                found[case] = repr(eval(case, names))
            except Exception as error:
                found[case] = f"{type(error).__name__}: {error}"
        found[case] += "".join(f"; {w.category.__name__}: {w.message}" for w in caught)
        # a class is named by the file that holds it, which differs between recorder and test
        found[case] = found[case].replace("tests.utils.", "").replace("pytree_cases.", "")
    return found
