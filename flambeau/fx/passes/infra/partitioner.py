"""Parts of a graph that something else can run, each as large as it can be."""

from collections.abc import Iterable, Mapping, Sequence

from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.fx.passes.operator_support import OperatorSupportBase, get_node_target
from flambeau.fx.passes.utils.fuser_utils import fuse_by_partitions, validate_partition

__all__ = ["CapabilityBasedPartitioner", "Partition"]


class Partition:
    """Nodes that belong together."""

    def __init__(self, id: int | None = None, nodes: Iterable[Node] | None = None) -> None:
        self.id = id
        self.nodes: dict[Node, int | None] = dict.fromkeys(nodes or ())

    def __repr__(self) -> str:
        return str(self.nodes)

    def add_node(self, node: Node, node_order: int | None = None) -> None:
        """Take a node in."""
        self.nodes[node] = node_order

    def remove_node(self, node: Node) -> None:
        """Give a node away."""
        del self.nodes[node]

    def size(self) -> int:
        """How many nodes there are."""
        return len(self.nodes)


class CapabilityBasedPartitioner:
    """Joins supported nodes as long as no other node would have to run between them.

    non_compute_ops: names of calls that are no reason for a part of their own.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
        skip_horizontal_fusion: bool = False,
    ) -> None:
        self.graph_module, self.operator_support = graph_module, operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = non_compute_ops or []
        self.allowed_single_node_partition_ops = allowed_single_node_partition_ops or []

    def propose_partitions(self) -> list[Partition]:
        """Parts, the last of the graph first."""
        modules: Mapping = dict(self.graph_module.named_modules())
        nodes = list(self.graph_module.graph.nodes)
        order = {node: len(nodes) - k - 1 for k, node in enumerate(nodes)}
        found: list[Partition] = []
        home: dict[Node, Partition] = {}
        for node in reversed(nodes):
            if node.op in ("placeholder", "output"):
                continue
            if not self.operator_support.is_node_supported(modules, node):
                continue
            mine = Partition(len(found), [node])
            mine.nodes[node] = order[node]
            for user in node.users:
                other = home.get(user)
                if other is None or other is mine:
                    continue
                if validate_partition([*mine.nodes, *other.nodes]):
                    mine.nodes = {**other.nodes, **mine.nodes}
                    mine.id = other.id
                    found.remove(other)
                    home.update(dict.fromkeys(other.nodes, mine))
            found.append(mine)
            home[node] = mine
        return [part for part in found if self._is_worth_it(part, modules)]

    def _is_worth_it(self, part, modules):
        targets = [get_node_target(modules, n) for n in part.nodes if n.op.startswith("call")]
        computing = [name for name in targets if name not in self.non_compute_ops]
        if len(computing) > 1 or self.allows_single_node_partition:
            return bool(computing)
        return any(name in self.allowed_single_node_partition_ops for name in computing)

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """Put parts into submodules."""
        return fuse_by_partitions(self.graph_module, [p.nodes for p in partitions], prefix)

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """Both at once."""
        return self.fuse_partitions(self.propose_partitions(), prefix)

    def remove_bookend_non_compute_ops(self, partitions: list[Partition]) -> None:
        """Take calls that compute nothing off the ends of parts."""
        modules = dict(self.graph_module.named_modules())
        for part in partitions:
            ends = [True]
            while any(ends):
                ends = []
                for node in list(part.nodes):
                    inner = any(n in part.nodes for n in node.all_input_nodes)
                    outer = any(user in part.nodes for user in node.users)
                    plain = get_node_target(modules, node) in self.non_compute_ops
                    if plain and not (inner and outer):
                        part.remove_node(node)
                        ends.append(True)
