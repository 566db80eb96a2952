"""Record small image files, and what torchvision decodes them to in every mode.

Run with a torchvision whose image extension loads: python tests/golden/record_vision_io.py
"""

import base64
import hashlib
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
import torchvision

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "vision"))

from image_files import files  # noqa: E402

MODES = ["UNCHANGED", "GRAY", "GRAY_ALPHA", "RGB", "RGB_ALPHA"]


def answer(content, mode, orientation):
    """Dtype, shape and a checksum; or the type of the error."""
    data = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    try:
        image = torchvision.io.decode_image(data, mode, orientation).numpy()
    except RuntimeError:
        return "RuntimeError"
    digest = hashlib.sha256(np.ascontiguousarray(image).tobytes()).hexdigest()[:16]
    return [str(image.dtype), list(image.shape), digest]


def is_sound(name, mode):
    """Not where torchvision gives memory that was never written, or an alpha of 1 for opaque."""
    if name == "png palette":
        return not mode.endswith("ALPHA")
    return not (name.startswith(("png 0 1", "png 0 2", "png 0 4")) and mode.endswith("ALPHA")) or (
        name.startswith("png 0 16")
    )


warnings.simplefilter("ignore")
recorded = {}
for name, content in files().items():
    answers = {
        f"{mode}{' turned' * turned}": answer(content, mode, turned)
        for mode in MODES
        for turned in ([False, True] if "exif" in name else [False])
        if is_sound(name, mode)
    }
    recorded[name] = {"file": base64.b64encode(content).decode(), "answers": answers}
lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in recorded.items())
(HERE / "vision_io.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
