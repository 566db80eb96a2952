"""A log with data for every tab of TensorBoard, and a TensorBoard that shows it.

`python tests/watching/tensorboard_log.py FOLDER` writes the log, to be looked at.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def _model(torch):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.conv1 = nn.Conv2d(width, width, 3, padding=1)
            self.norm1 = nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, padding=1)
            self.norm2 = nn.BatchNorm2d(width)

        def forward(self, x):
            y = torch.relu(self.norm1(self.conv1(x)))
            return torch.relu(self.norm2(self.conv2(y)) + x)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(1, 8, 3, padding=1)
            self.layers = nn.Sequential(Block(8), Block(8))
            self.pool = nn.AdaptiveAvgPool2d(1)
            self.fc = nn.Linear(8, 10)

        def forward(self, x):
            x = self.layers(torch.relu(self.stem(x)))
            return self.fc(self.pool(x).flatten(1))

    return Net()


def write_everything(torch, writer):
    """Data for every tab."""
    torch.manual_seed(0)
    model = _model(torch)
    writer.add_graph(model, torch.randn(2, 1, 8, 8))
    for step in range(20):
        train, val = math.exp(-step / 5), math.exp(-step / 6) + 0.1
        writer.add_scalar("loss/train", torch.tensor(train), step)
        writer.add_scalar("loss/val", val, step, new_style=True)
        writer.add_scalars("both", {"train": train, "val": val}, step)
        for name, shift in (("value", 0), ("low", -1), ("high", 1)):
            writer.add_scalar(f"margin/{name}", step / 5 + shift, step)
        if step % 5 == 0:
            writer.add_histogram("stem.weight", model.stem.weight * (1 + step), step)
    charts = {
        "losses": {"both losses": ["Multiline", ["loss/train", "loss/val"]]},
        "margins": {"a margin": ["Margin", ["margin/value", "margin/low", "margin/high"]]},
    }
    writer.add_custom_scalars(charts)
    _write_media(torch, writer)
    truth = torch.rand(500) > 0.5
    writer.add_pr_curve("curve", truth, truth * 0.4 + torch.rand(500) * 0.6, 0)
    corners = torch.tensor([[[1.0, 1, 1], [-1, -1, 1], [1, -1, -1], [-1, 1, -1]]])
    colors = torch.tensor([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 0, 255]]])
    faces = torch.tensor([[[0, 2, 3], [0, 3, 1], [0, 1, 2], [1, 3, 2]]])
    writer.add_mesh("tetrahedron", corners, colors, faces, global_step=0)
    classes = torch.arange(100) % 5
    points = torch.randn(100, 8) * 0.4 + torch.eye(8)[classes] * 3
    labels = [f"class {k}" for k in classes.tolist()]
    pictures = torch.ones(100, 3, 16, 16) * classes.reshape(-1, 1, 1, 1) / 4
    writer.add_embedding(points, labels, pictures, 0, "clusters")
    for rate in (0.1, 0.01):
        results = {"hparam/accuracy": 1 - rate, "hparam/loss": rate}
        writer.add_hparams({"rate": rate, "method": "adam"}, results, run_name=f"rate{rate}")


def _write_media(torch, writer):
    rows = torch.linspace(0, 1, 32).reshape(-1, 1).expand(32, 32)
    picture = torch.stack([rows, rows.t(), 1 - rows])
    writer.add_image("picture", picture, 0)
    writer.add_images("pictures", torch.stack([picture * k / 10 for k in range(1, 11)]), 0)
    writer.add_image_with_boxes("boxes", picture, torch.tensor([[4, 4, 20, 26]]), 0)
    writer.add_video("video", torch.stack([picture.roll(4 * k, 2) for k in range(8)])[None], 0)
    with contextlib.suppress(ImportError):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3, 2))
        figure.add_subplot().plot([0, 1, 0])
        writer.add_figure("figure", figure, 0)
    writer.add_audio("tone", torch.sin(torch.arange(8000.0) * 0.3), 0, 8000)
    writer.add_text("notes", "# Title\n\n| a | b |\n|---|---|\n| 1 | 2 |", 0)


class Page:
    """A TensorBoard on this machine."""

    def __init__(self, address):
        self.address = address

    def get(self, path, body=None):
        """The answer to a question for data, read as JSON."""
        url = f"{self.address}/data/{path}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            content = answer.read()
        try:
            return json.loads(content)
        except ValueError:
            return content

    def wait_for(self, path, ready):
        """The answer, once it is as wanted: TensorBoard reads its folder in the background."""
        last = None
        for _ in range(200):
            with contextlib.suppress(urllib.error.URLError, ConnectionError, OSError):
                last = self.get(path)
                if ready(last):
                    return last
            time.sleep(0.2)
        raise TimeoutError(f"{path} stays at {last!r}")


@contextlib.contextmanager
def serving(folder):
    """TensorBoard in a process of its own, until the block ends."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--reload_interval", "1"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        yield Page(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(timeout=30)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    import flambeau
    from flambeau.utils.tensorboard import SummaryWriter

    with SummaryWriter(sys.argv[1]) as log:
        write_everything(flambeau, log)
    print(f"tensorboard --logdir {sys.argv[1]}")
