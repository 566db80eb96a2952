"""A real TensorBoard lists and serves what SummaryWriter has written, plugin by plugin."""

import io
import shutil
import tempfile
import time
import urllib.parse
import wave

import numpy as np
import pytest

import flambeau

pytest.importorskip("tensorboard")
from flambeau.utils.tensorboard import SummaryWriter
from tests.watching.tensorboard_log import serving, write_everything

RUN = "main"
CURVES = ["loss/train", "loss/val", "margin/high", "margin/low", "margin/value"]
PICTURES = ["boxes", "figure", "picture", "pictures", "video"]
SIZES = {"boxes": (32, 32), "picture": (32, 32), "pictures": (256, 64), "video": (32, 32)}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("logs")
    with SummaryWriter(folder / RUN) as writer:
        write_everything(flambeau, writer)
    with serving(folder) as page:
        page.wait_for("plugin/scalars/tags", lambda found: len(found) == 5)
        page.wait_for("plugin/mesh/tags", lambda found: RUN in found)
        yield page


def question(path, **options):
    return f"plugin/{path}?{urllib.parse.urlencode(options)}"


def test_runs(page):
    runs = ["", "/both_train", "/both_val", "/rate0.01", "/rate0.1"]
    assert sorted(page.get("runs")) == [RUN + run for run in runs]


TAGS = {
    "scalars": CURVES,
    "histograms": ["stem.weight"],
    "distributions": ["stem.weight"],
    "images": PICTURES,
    "audio": ["tone"],
    "text": ["notes/text_summary"],
    "pr_curves": ["curve"],
    "mesh": ["tetrahedron"],
}


@pytest.mark.parametrize("plugin", TAGS)
def test_every_plugin_lists_our_tags(plugin, page):
    assert sorted(page.get(f"plugin/{plugin}/tags")[RUN]) == TAGS[plugin]


def test_scalars(page):
    points = page.get(question("scalars/scalars", tag="loss/train", run=RUN))
    assert [step for _, step, _ in points] == list(range(20))
    np.testing.assert_allclose([v for _, _, v in points], np.exp(-np.arange(20) / 5), rtol=1e-6)
    assert len(page.get(question("scalars/scalars", tag="both", run=RUN + "/both_val"))) == 20


def test_histograms(page):
    points = page.get(question("histograms/histograms", tag="stem.weight", run=RUN))
    assert [step for _, step, _ in points] == [0, 5, 10, 15]
    for _, _, buckets in points:
        assert sum(count for _, _, count in buckets) == pytest.approx(8 * 9)


def test_images(page):
    from PIL import Image

    for tag in PICTURES:
        (about,) = page.get(question("images/images", tag=tag, run=RUN, sample=0))
        content = page.get(f"plugin/images/individualImage?{about['query']}")
        picture = Image.open(io.BytesIO(content))
        assert picture.size == SIZES.get(tag, picture.size)
        assert picture.format == ("GIF" if tag == "video" else "PNG")


def test_audio(page):
    (about,) = page.get(question("audio/audio", tag="tone", run=RUN, sample=0))
    with wave.open(io.BytesIO(page.get(f"plugin/audio/individualAudio?{about['query']}"))) as sound:
        assert (sound.getframerate(), sound.getnframes()) == (8000, 8000)


def test_text_is_markdown(page):
    (note,) = page.get(question("text/text", tag="notes/text_summary", run=RUN))
    assert "<h1>Title</h1>" in note["text"] and "<td>2</td>" in note["text"]


def test_pr_curves(page):
    (curve,) = page.get(question("pr_curves/pr_curves", tag="curve", run=RUN))[RUN]
    assert len(curve["precision"]) == len(curve["recall"]) > 50
    assert min(curve["precision"]) > 0.4 and max(curve["precision"]) == 1


def test_custom_scalars(page):
    layout = page.get("plugin/custom_scalars/layout")
    charts = [chart["title"] for category in layout["category"] for chart in category["chart"]]
    assert charts == ["both losses", "a margin"]


def test_meshes(page):
    parts = page.get(question("mesh/meshes", tag="tetrahedron", run=RUN, sample=0))
    assert len(parts) == 3 and {tuple(part["data_shape"]) for part in parts} == {(1, 4, 3)}


def test_hyperparameters(page):
    wanted = {"startIndex": 0, "sliceSize": 10, "allowedStatuses": ["STATUS_SUCCESS"]}
    found = page.get("plugin/hparams/session_groups", wanted)
    rates = {group["hparams"]["rate"]: group["metricValues"] for group in found["sessionGroups"]}
    assert sorted(rates) == [0.01, 0.1]
    results = {v["name"]["tag"]: v["value"] for v in rates[0.1]}
    assert results == pytest.approx({"hparam/accuracy": 0.9, "hparam/loss": 0.1})


def test_projector(page):
    assert page.get("plugin/projector/runs") == [RUN]
    (info,) = page.get(question("projector/info", run=RUN))["embeddings"]
    assert info["tensorName"] == "clusters:00000" and info["tensorShape"] == [100, 8]
    assert info["sprite"]["singleImageDim"] == [16, 16]
    options = {"run": RUN, "name": "clusters:00000"}
    labels = page.get(question("projector/metadata", **options))
    assert labels.decode().splitlines()[:3] == ["class 0", "class 1", "class 2"]
    points = page.get(question("projector/tensor", **options))
    assert len(points) == 100 * 8 * 4
    assert page.get(question("projector/sprite_image", **options)).startswith(b"\x89PNG")


def test_graph(page):
    assert page.get("plugin/graphs/info")[RUN]["run_graph"] is True
    text = page.get(question("graphs/graph", run=RUN)).decode()
    for line in (
        'name: "Net/Sequential[layers]/Block[1]/add"',
        'input: "Net/Sequential[layers]/Block[0]/relu.1"',
        'name: "Net/Linear[fc]/weight"',
        'op: "aten::conv2d"',
        'name: "input/x"',
        'name: "output/output.1"',
    ):
        assert line in text


# -- in a browser ---------------------------------------------------------------------------------

SEEN = {
    "timeseries": ["both", "loss"],
    "scalars": ["loss", "margin", "both_train"],
    "custom_scalars": ["both losses", "a margin"],
    "images": ["boxes", "video"],
    "audio": ["tone"],
    "graphs": ["Main Graph", "Net", "input", "output"],
    "distributions": ["stem.weight"],
    "histograms": ["stem.weight"],
    "text": ["Title"],
    "pr_curves": ["curve"],
    "projector": ["clusters:00000", "100x8"],
    "hparams": ["main/rate0.01", "hparam/accuracy", "adam"],
    "mesh": ["tetrahedron"],
}
VISIBLE_TEXT = """
    const found = [];
    const walk = (root) => {
        for (const e of root.querySelectorAll("*")) {
            if (e.matches("style, script")) continue;
            if (e.shadowRoot) walk(e.shadowRoot);
            if (e.matches("iframe") && e.contentDocument) walk(e.contentDocument);
            for (const n of e.childNodes) if (n.nodeType === 3) found.push(n.textContent.trim());
        }
        for (const e of root.querySelectorAll("input")) found.push(e.value);
        for (const e of root.querySelectorAll("g.node")) found.push(e.getAttribute("data-name"));
    };
    walk(document);
    return found.filter((text) => text).join("\\n");
"""


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver")
    driver, program = shutil.which("chromedriver"), shutil.which("chromium")
    if not driver or not program:
        pytest.skip("there is no Chromium with its driver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for option in (
            "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run "
            "--disable-background-networking --disable-component-update --disable-sync "
            "--use-gl=angle --use-angle=swiftshader --window-size=1600,1200 "
            f"--user-data-dir={profile}"
        ).split():
            options.add_argument(option)
        service = webdriver.ChromeService(executable_path=driver)
        chromium = webdriver.Chrome(options=options, service=service)
        try:
            yield chromium
        finally:
            chromium.quit()


@pytest.mark.slow  # a page with charts takes a browser seconds to draw
@pytest.mark.parametrize("tab", SEEN)
def test_every_tab_shows_our_data(tab, page, browser):
    browser.get("about:blank")
    browser.get(f"{page.address}/#{tab}")
    text = ""
    for _ in range(60):
        text = browser.execute_script(VISIBLE_TEXT)
        if all(word in text for word in SEEN[tab]):
            return
        time.sleep(0.5)
    missing = [word for word in SEEN[tab] if word not in text]
    raise AssertionError(f"{tab} does not show {missing}, but\n{text[:3000]}")
