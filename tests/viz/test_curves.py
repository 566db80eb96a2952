"""Loss curves: histories in every form, axes with round numbers, well-formed pictures."""

import json
import math
import re
import sys
import xml.etree.ElementTree as ET

import pytest

import flambeau as torch
from flambeau import viz
from flambeau.viz.axes import Scale, linear_ticks, log_ticks, nice_step, padded, tick_text
from flambeau.viz.curves import smooth
from flambeau.viz.histories import Series, read_history

SVG = "{http://www.w3.org/2000/svg}"


def paths(plot, kind="curve"):
    root = ET.fromstring(plot.svg())
    found = [p for p in root.iter(f"{SVG}path") if "data-series" in p.attrib]
    return [p for p in found if p.get("class").rpartition(" ")[0] == kind]


# -- histories -------------------------------------------------------------------------------------

LOSS = Series("loss", [0.0, 1.0, 2.0], [3.0, 2.0, 1.0])
HISTORIES = [
    ([3, 2, 1], [LOSS]),
    ((3.0, 2.0, 1.0), [LOSS]),
    (torch.tensor([3.0, 2.0, 1.0]), [LOSS]),
    ([torch.tensor(3.0), torch.tensor(2.0), torch.tensor(1.0)], [LOSS]),
    ([(0, 3), (1, 2), (2, 1)], [LOSS]),
    ({"loss": [3, 2, 1]}, [LOSS]),
    ({"loss": [3, 2, 1], "name": "run"}, [LOSS]),
    ({"epoch": [0, 1, 2], "loss": [3, 2, 1], "time": [5, 6, 7]}, [LOSS]),
    ([{"loss": 3}, {"loss": 2}, {"loss": 1}], [LOSS]),
    (
        [{"step": 10, "a": 1.0}, {"step": 20, "a": 2.0, "b": 5.0, "note": "x"}, {"step": 30}],
        [Series("a", [10.0, 20.0], [1.0, 2.0]), Series("b", [20.0], [5.0])],
    ),
    (
        {"train": [3, 2, 1], "test": [(2, 4)]},
        [LOSS._replace(name="train"), Series("test", [2], [4])],
    ),
]


@pytest.mark.parametrize("history, expected", HISTORIES, ids=range(len(HISTORIES)))
def test_histories_in_memory(history, expected):
    assert read_history(history)[0] == expected


FILES = [
    ("a.csv", "epoch,loss\n0,3\n1,2\n2,1\n"),
    ("b.csv", "3\n2\n1\n"),
    ("c.tsv", "step\tloss\n0\t3\n1\t2\n2\t1\n"),
    ("d.json", json.dumps({"loss": [3, 2, 1]})),
    ("e.json", json.dumps([{"epoch": k, "loss": 3 - k} for k in range(3)])),
    ("f.jsonl", "".join(json.dumps({"step": k, "loss": 3 - k}) + "\n" for k in range(3))),
]


@pytest.mark.parametrize("name, text", FILES, ids=[name for name, _ in FILES])
def test_histories_in_files(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    assert read_history(tmp_path / name)[0] == [LOSS]
    assert read_history(str(tmp_path / name))[0] == [LOSS]


def test_histories_of_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    writer = pytest.importorskip("flambeau.utils.tensorboard").SummaryWriter(str(tmp_path))
    for k in range(3):
        writer.add_scalar("loss", 3 - k, k)
    writer.close()
    assert read_history(tmp_path)[0] == [LOSS]


def test_histories_that_hold_nothing(tmp_path):
    for history in ([], {}, {"loss": []}, [{"note": "x"}]):
        with pytest.raises(ValueError, match="no numbers"):
            viz.plot_losses(history)
    with pytest.raises(TypeError, match="a history is a list of numbers"):
        viz.plot_losses(3)
    with pytest.raises(KeyError, match="no 'b' in the history"):
        viz.plot_losses({"a": [1, 2]}, keys=["b"])
    with pytest.raises(FileNotFoundError, match="there is no file"):
        viz.plot_losses(tmp_path / "nothing.csv")
    (tmp_path / "x.bin").write_text("")
    with pytest.raises(ValueError, match="it should be"):
        viz.plot_losses(tmp_path / "x.bin")
    with pytest.raises(ValueError, match="no finite numbers"):
        viz.plot_losses([math.nan, math.inf])
    with pytest.raises(ValueError, match="no positive numbers"):
        viz.plot_losses([0.0, -1.0], log=True)


# -- axes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "span, count, step",
    [(1, 5, 0.2), (10, 5, 2), (0.3, 6, 0.05), (7, 3, 5), (1e-6, 4, 5e-7), (123456, 6, 50000)],
)
def test_steps_are_round(span, count, step):
    assert nice_step(span, count) == pytest.approx(step)


def test_ticks():
    assert linear_ticks(0, 1, 5) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert linear_ticks(-0.35, 0.4, 4) == [-0.2, 0, 0.2, 0.4]
    assert log_ticks(0.01, 1000, 6) == [0.01, 0.1, 1, 10, 100, 1000]
    assert log_ticks(1, 100, 6) == [1, 2, 5, 10, 20, 50, 100]
    assert len(log_ticks(1e-30, 1e30, 6)) <= 12
    assert log_ticks(1.0, 1.5, 5) == [1.0, 1.1, 1.2, 1.3, 1.4, 1.5]


@pytest.mark.parametrize("low, high", [(0, 1), (-5, 5), (1e-9, 3e-9), (1e9, 1.2e9), (2.999, 3.0)])
def test_ticks_are_inside_few_and_different(low, high):
    scale = Scale(low, high, 0, 100)
    assert 2 <= len(scale.ticks) <= 13
    assert all(low - 1e-9 * abs(low) <= v <= high * (1 + 1e-9) for v in scale.ticks)
    assert len(set(scale.labels)) == len(scale.labels)
    assert all(-1e-6 <= scale.place(v) <= 100 + 1e-6 for v in scale.ticks)


def test_texts_of_ticks():
    assert [tick_text(v, 0.1) for v in (0.0, 0.1, 1.0)] == ["0", "0.1", "1.0"]
    assert tick_text(1e-7, 1e-7) == "1e-7" and tick_text(20000, 10000) == "20k"
    assert tick_text(2_500_000, 500_000) == "2500k" and tick_text(30_000_000, 10_000_000) == "30M"


def test_scales():
    assert Scale(1, 100, 0, 10, log=True).place(10) == pytest.approx(5)
    assert Scale(3, 3, 0, 10).place(3) == pytest.approx(5)
    assert Scale(0, 0, 0, 10).place(0) == pytest.approx(5)
    with pytest.raises(ValueError, match="positive"):
        Scale(0, 1, 0, 1, log=True)
    assert padded(0.01, 2, False)[0] == 0
    assert padded(-1, 1, False)[0] < -1


# -- pictures --------------------------------------------------------------------------------------


def test_the_picture_shows_every_series_and_its_name():
    plot = viz.plot_losses({"a": [3, 2, 1], "b & <c>": [1, 2, 3]}, title="T & <t>", ylabel="y<z")
    root = ET.fromstring(plot.svg())
    texts = [t.text for t in root.iter(f"{SVG}text")]
    for text in ("a", "b & <c>", "T & <t>", "y<z", "step"):
        assert text in texts
    assert len(paths(plot)) == 2
    assert "http" not in plot.svg().replace("http://www.w3.org/2000/svg", "")
    assert repr(plot) == "Plot(a (3), b & <c> (3))"
    assert plot._repr_svg_().startswith("<svg")


def test_lines_lie_in_the_picture_and_in_order():
    plot = viz.plot_losses([4, 3, 2, 1], width=400, height=300)
    numbers = re.findall(r"(-?[\d.]+) (-?[\d.]+)", paths(plot)[0].get("d"))
    x, y = [[float(pair[k]) for pair in numbers] for k in (0, 1)]
    assert x == sorted(x) and x[0] > 0 and x[-1] <= 400
    assert y == sorted(y) and y[0] > 0 and y[-1] <= 300


def test_gaps_single_points_and_one_value():
    path = paths(viz.plot_losses([1, 2, math.nan, 3, math.inf, 4, 5]))[0].get("d")
    assert path.count("M") == 3 and "h0.01" in path
    assert paths(viz.plot_losses([5]))[0].get("d").endswith("h0.01")
    assert paths(viz.plot_losses([2, 2, 2]))
    assert paths(viz.plot_losses([1, 0, 10], log=True))[0].get("d").count("M") == 2


def test_many_points_are_thinned():
    values = [math.sin(k / 50) + (k % 7) for k in range(60_000)]
    svg = viz.plot_losses(values, width=300).svg()
    assert len(svg) < 40_000
    assert len(viz.plot_losses(values, width=300).html()) < 400_000


def test_smoothing_is_a_mean_without_bias():
    steady = smooth(Series("s", [0, 1, 2], [4.0, 4.0, 4.0]), 0.9)
    assert steady.y == pytest.approx([4, 4, 4])
    moved = smooth(Series("s", [0, 1], [0.0, 1.0]), 0.5)
    assert moved.y == pytest.approx([0, 2 / 3])
    plot = viz.plot_losses({"a": list(range(100)), "b": [(0, 1), (99, 2)]}, smoothing=0.9)
    assert len(paths(plot, "curve raw")) == 2
    assert plot.smoothed[1].y[1] > 1.99  # few points are hardly smoothed
    with pytest.raises(ValueError, match="smoothing"):
        viz.plot_losses([1, 2], smoothing=1.0)


def test_the_page_is_self_contained_and_safe():
    plot = viz.plot_losses({"</script><b>": [1, 2]}, title="</title>")
    page = plot.html()
    assert page.startswith("<!DOCTYPE html>") and page.count("</script>") == 1
    assert "src=" not in page and "href=" not in page and "@import" not in page
    data = re.search(r"data = (\{.*?\});?\n", page).group(1)
    assert json.loads(data)["series"][0]["name"] == "</script><b>"
    one, two = plot._repr_html_(), plot._repr_html_()
    name = r'<div id="([\w-]+)"'
    assert re.search(name, one).group(1) != re.search(name, two).group(1)


def test_saving(tmp_path):
    plot = viz.plot_losses([2, 1], path=tmp_path / "first.svg")
    ET.parse(tmp_path / "first.svg")
    assert plot.save(tmp_path / "p.html") == str(tmp_path / "p.html")
    assert "<svg" in (tmp_path / "p.html").read_text()
    with pytest.raises(ValueError, match=r"\.svg, \.html or \.png"):
        plot.save(tmp_path / "p.gif")


def test_png_is_drawn_by_matplotlib(tmp_path, monkeypatch):
    plot = viz.plot_losses({"a": [2, 1], "b": [1, 2]}, smoothing=0.5, log=True, title="t")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="matplotlib"):
        plot.save(tmp_path / "p.png")
    monkeypatch.undo()
    pytest.importorskip("matplotlib")
    plot.save(tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes()[:4] == b"\x89PNG"
