"""The picture of the autograd graph: the right boxes, well placed, in well-formed files."""

import json
import pathlib
import re
import xml.etree.ElementTree as ET
from collections import Counter

import pytest

import flambeau as torch
from flambeau.viz import dot as dot_language
from flambeau.viz import graph as graphs
from flambeau.viz import graph_html, graph_svg, make_dot
from flambeau.viz.grouping import by_module, levels
from flambeau.viz.layout import layered
from tests.viz.graph_cases import CASES, summary

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/graphs.json"
RECORDED = json.loads(GOLDEN.read_text())["cases"]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def our_own_digraph(monkeypatch):
    """The graphviz package may or may not be installed; these tests are about ours."""
    monkeypatch.setattr(graphs, "_digraph", dot_language.Digraph)


def example():
    w = torch.ones(3, requires_grad=True)
    b = torch.ones(3, requires_grad=True)
    return ((w * 2 + b).exp() * w).sum(), {"w": w, "b": b}


@pytest.mark.parametrize("name", RECORDED)
def test_boxes_and_arrows_are_those_of_torchviz(name):
    assert summary(make_dot(*CASES[name](torch)).source) == RECORDED[name]


def test_source_is_in_the_dot_language():
    y, params = example()
    source = make_dot(y, params).source
    assert source.startswith("digraph {\n\tgraph [size=")
    assert '[label="w\n (3)" fillcolor=lightblue]' in source
    assert '[label="\n ()" fillcolor=darkolivegreen1]' in source
    assert source.endswith("}\n")


def test_dot_names_are_quoted_where_needed():
    d = dot_language.Digraph("my graph", comment="hi", node_attr={"b": "x y", "a": "1"})
    d.node("a b", 'say "so"', fillcolor="orange")
    d.node("-1.5", "node")
    d.edge("a b", "12", dir="none")
    assert d.source == (
        '// hi\ndigraph "my graph" {\n\tnode [a=1 b="x y"]\n'
        '\t"a b" [label="say \\"so\\"" fillcolor=orange]\n\t-1.5 [label="node"]\n'
        '\t"a b" -> 12 [dir=none]\n}\n'
    )


def test_attributes_make_a_table_cut_to_length():
    x = torch.ones(2, 3, requires_grad=True)
    wide = make_dot(x.sum(dim=1), show_attrs=True).source
    assert re.search(r"SumBackward\d\n-+\n", wide)
    assert re.search(r"^keepdim\s*: +False", wide, re.MULTILINE)
    assert "..." in make_dot(x.sum(dim=1), show_attrs=True, max_attr_chars=3).source


def test_saved_tensors_are_orange_unless_they_are_leaves():
    x = torch.ones(2, requires_grad=True)
    y = x.exp().sum()
    assert "orange" not in make_dot(y).source
    assert make_dot(y, show_saved=True).source.count("orange") == 1
    product = make_dot(x * x, show_saved=True).source
    assert "orange" not in product and "[dir=none]" in product


def test_params_must_be_tensors():
    with pytest.raises(TypeError, match="params must map names to tensors"):
        make_dot(torch.ones(1), params={"w": 3})


def test_params_may_be_pairs():
    y, params = example()
    assert make_dot(y, params.items()).source.count("lightblue") == 2


def test_a_deep_graph_needs_no_deep_stack():
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(3000):
        y = y * 1.0
    assert make_dot(y).source.count("MulBackward0") == 3000


def test_after_backward_the_graph_can_still_be_shown():
    x = torch.ones(2, requires_grad=True)
    y = (x.exp() * x).sum()
    y.backward()
    assert "ExpBackward0" in make_dot(y, show_attrs=True, show_saved=True).source


def test_render_writes_dot_and_svg(tmp_path):
    y, params = example()
    picture = make_dot(y, params).render("net", directory=tmp_path)
    assert picture == str(tmp_path / "net.svg")
    assert (tmp_path / "net").read_text().startswith("digraph")
    assert ET.parse(picture).getroot().tag == f"{SVG}svg"
    make_dot(y).render("other", directory=tmp_path, cleanup=True)
    assert not (tmp_path / "other").exists()


def test_render_refuses_what_it_cannot_draw(tmp_path):
    with pytest.raises(ValueError, match="cannot render 'png'"):
        make_dot(example()[0]).render("net", directory=tmp_path, format="png")


def test_svg_shows_leaves_joined_to_their_operations():
    y, params = example()
    root = ET.fromstring(graph_svg(y, params=params))
    kinds = Counter(g.get("class") for g in root.iter(f"{SVG}g"))
    assert kinds == {"fb-leaf": 2, "fb-op": 5, "fb-output": 1}
    texts = {"".join(t.itertext()) for t in root.iter(f"{SVG}text")}
    assert {"w", "b", "(3)", "ExpBackward0"} <= {text.replace("\u00a0", " ") for text in texts}
    assert not any("AccumulateGrad" in text for text in texts)


def test_svg_boxes_lie_inside_the_picture_and_apart():
    y, params = example()
    root = ET.fromstring(graph_svg(y, params=params, show_saved=True, show_attrs=True))
    width, height = float(root.get("width")), float(root.get("height"))
    boxes = []
    for g in root.iter(f"{SVG}g"):
        rect = g.find(f"{SVG}rect")
        x, y, w, h = (float(rect.get(name)) for name in ("x", "y", "width", "height"))
        assert min(x, y) >= 0 and x + w <= width and y + h <= height
        boxes.append((x, y, x + w, y + h))
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def test_html_is_self_contained_and_titled():
    y, params = example()
    text = graph_html(y, params=params, title="a < b")
    assert "<title>a &lt; b</title>" in text
    assert "<svg" in text and text.rstrip().endswith("</html>")
    outside = set(re.findall(r"https?://[^\s\"'<>]+", text))
    assert outside == {"http://www.w3.org/2000/svg"}  # a name, nothing is fetched from there


def crossings(found):
    """Pairs of edges between the same two layers that cross, counted the slow way."""
    ends = [(route[0], route[-1]) for route in found.routes]
    pairs = [(a, b) for i, a in enumerate(ends) for b in ends[:i] if a[0][1] == b[0][1]]
    return sum((a[0][0] - b[0][0]) * (a[1][0] - b[1][0]) < 0 for a, b in pairs)


def test_layout_untangles_what_can_be_untangled():
    sizes = dict.fromkeys("abcxyz", (40.0, 20.0))
    found = layered(sizes, [("a", "z"), ("b", "y"), ("c", "x"), ("a", "y")])
    assert crossings(found) == 0


def test_layout_puts_tails_above_heads_and_leaves_near_their_use():
    sizes = dict.fromkeys("abcd", (40.0, 20.0))
    places = layered(sizes, [("a", "b"), ("b", "c"), ("d", "c")]).places
    assert places["a"].y < places["b"].y < places["c"].y
    assert places["d"].y == places["b"].y


def test_layout_keeps_a_chain_straight():
    sizes = {i: (40.0 + i, 20.0) for i in range(9)}
    places = layered(sizes, [(i, i + 1) for i in range(8)]).places
    assert len({round(place.x, 6) for place in places.values()}) == 1


def test_layout_of_nothing_is_empty():
    assert layered({}, []).places == {}


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torchviz still asks distutils
@pytest.mark.parametrize("name", CASES)
def test_boxes_and_arrows_equal_those_of_torch(name):
    theirs = pytest.importorskip("torch")
    torchviz = pytest.importorskip("torchviz")
    expected = torchviz.make_dot(*CASES[name](theirs)).source
    assert summary(make_dot(*CASES[name](torch)).source) == summary(expected)


# -- modules in place of operations ----------------------------------------------------------------


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.out = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        return x + self.out(self.fc(x).relu())


def stack_of_blocks(count=3):
    model = torch.nn.Sequential()
    model.add_module("stem", torch.nn.Linear(4, 4))
    model.add_module("blocks", torch.nn.Sequential(*[Block() for _ in range(count)]))
    model.add_module("head", torch.nn.Linear(4, 2))
    return model, model(torch.ones(1, 4)), dict(model.named_parameters())


def grouped(var, params, depth):
    graph = graphs._without_accumulators(graphs.backward_graph(var, params))
    found = by_module(graph, depth)
    names = {key: box.label.split("\n")[0] for key, box in found.boxes.items()}
    return found, sorted((names[a.tail], names[a.head]) for a in found.arrows)


def test_operations_are_gathered_by_module():
    _, y, params = stack_of_blocks()
    found, arrows = grouped(y, params, 1)
    assert arrows == sorted([("stem", "blocks"), ("blocks", "head"), ("head", "")])
    found, arrows = grouped(y, params, 2)
    assert arrows == [
        ("blocks.0", "blocks.1"),
        ("blocks.1", "blocks.2"),
        ("blocks.2", "head"),
        ("head", ""),
        ("stem", "blocks.0"),
    ]
    block = next(box for box in found.boxes.values() if box.label.startswith("blocks.1\n"))
    assert block.kind == "module" and block.label.endswith("6 operations")
    assert "AddmmBackward0 x2" in block.detail and "blocks.1.fc.weight (4, 4)" in block.detail


def test_operations_between_two_of_a_module_join_it():
    a, b, c = (torch.ones(2, requires_grad=True) for _ in range(3))
    y = ((a * 2 * b) * c).sum()  # m.a, then other.b, then m.c: a circle if m were one box
    _, arrows = grouped(y, {"m.a": a, "other.b": b, "m.c": c}, 1)
    assert arrows == [("m", "")]


def test_levels_of_detail_go_from_coarse_to_fine():
    _, y, params = stack_of_blocks(6)
    graph = graphs._without_accumulators(graphs.backward_graph(y, params))
    found = levels(graph)
    sizes = [len(level.boxes) for _, level in found]
    assert sizes == sorted(sizes) and len(sizes) >= 3
    assert found[-1] == ("operations", graph)
    y, params = example()  # names without modules
    assert len(levels(graphs.backward_graph(y, params))) == 1


def test_large_graphs_begin_with_modules():
    _, y, params = stack_of_blocks(60)
    text = graph_html(y, params)
    shown = re.search(r'<option value="(\d)" selected>modules, 2 levels', text)
    assert shown is not None and f"show({shown.group(1)});" in text
    heads = re.findall(r'<marker id="([\w-]+)"', text)
    assert len(heads) == text.count("<svg") == len(set(heads))  # arrows of hidden pictures differ


def test_details_tell_what_a_node_keeps():
    w = torch.ones(3, requires_grad=True)
    text = graph_html((w * w.exp()).sum(), {"w": w})
    details = re.findall(r'data-detail="([^"]*)"', text)
    assert any("result: tensor (3,) torch.float32" in d for d in details)


@pytest.mark.slow  # builds a whole ResNet-50
def test_layout_of_a_large_model_takes_no_time():
    import time

    models = pytest.importorskip("flambeau.vision.models")
    with torch.device("meta"):
        model = models.resnet50()
    y = model(torch.empty(1, 3, 224, 224, device="meta"))
    start = time.thread_time()
    graph_html(y, dict(model.named_parameters()))
    assert time.thread_time() - start < 2.0


def test_edges_of_one_box_share_a_trunk_where_there_are_very_many():
    import time

    steps = 150
    edges = [(f"s{k}", f"s{k + 1}") for k in range(steps)]
    edges += [("w", f"s{k}") for k in range(1, steps + 1)]  # a weight that every step uses
    keys = ["w", *(f"s{k}" for k in range(steps + 1))]
    start = time.thread_time()
    found = layered(dict.fromkeys(keys, (60.0, 20.0)), edges)
    assert time.thread_time() - start < 2.0
    assert sum(map(len, found.routes)) < 4 * len(edges)  # the trunk is drawn once
    for (_, head), points in zip(edges, found.routes, strict=True):
        place = found.places[head]
        x, y = points[-1]
        assert y == pytest.approx(place.y - place.height / 2)
        assert abs(x - place.x) <= place.width / 2
        assert [p[1] for p in points] == sorted(p[1] for p in points)
    assert max(map(len, found.routes[steps:])) >= steps - 1
