"""Datasets of places, aeroplanes, scenes, characters and motion: small copies of their layouts."""

import functools
import json
import struct

import numpy as np
import pytest

import flambeau as torch
from flambeau.vision import datasets
from flambeau.vision.io import encode_png
from tests.vision.dataset_files import md5

Image = pytest.importorskip("PIL.Image")


def picture(path, level=7):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((6, 8, 3), level, np.uint8)).save(path)


def flo(path, flow):
    path.parent.mkdir(parents=True, exist_ok=True)
    height, width, _ = flow.shape
    path.write_bytes(b"PIEH" + struct.pack("<ii", width, height) + flow.astype("<f4").tobytes())


def test_country211(tmp_path):
    for country, level in (("AD", 1), ("ZW", 2)):
        picture(tmp_path / f"country211/valid/{country}/one.png", level)
    data = datasets.Country211(tmp_path, split="valid")
    assert data.classes == ["AD", "ZW"] and len(data) == 2
    image, label = data[1]
    assert image.size == (8, 6) and label == 1
    with pytest.raises(ValueError, match="split"):
        datasets.Country211(tmp_path, split="val")
    with pytest.raises(RuntimeError, match="Dataset not found"):
        datasets.Country211(tmp_path / "elsewhere")


def test_rendered_sst2(tmp_path):
    for kind in ("negative", "positive"):
        picture(tmp_path / f"rendered-sst2/valid/{kind}/0.png")
    data = datasets.RenderedSST2(tmp_path, split="val")
    assert [data[k][1] for k in range(len(data))] == [0, 1]
    assert "split=val" in repr(data)


def test_sun397(tmp_path):
    folder = tmp_path / "SUN397"
    picture(folder / "a/abbey/sun_aaa.jpg")
    picture(folder / "a/apartment_building/outdoor/sun_bbb.jpg")
    (folder / "ClassName.txt").write_text("/a/abbey\n/a/apartment_building/outdoor\n")
    data = datasets.SUN397(tmp_path)
    assert data.classes == ["abbey", "apartment_building/outdoor"]
    assert sorted(data[k][1] for k in range(2)) == [0, 1]


@pytest.mark.parametrize("level", ["variant", "family", "manufacturer"])
def test_fgvc_aircraft(tmp_path, level):
    data = tmp_path / "fgvc-aircraft-2013b/data"
    picture(data / "images/0034309.jpg")
    plural = {"variant": "variants", "family": "families", "manufacturer": "manufacturers"}[level]
    (data / f"{plural}.txt").write_text("707-320\nBoeing 707\n")
    (data / f"images_{level}_test.txt").write_text("0034309 Boeing 707\n")
    found = datasets.FGVCAircraft(tmp_path, split="test", annotation_level=level)
    assert found.classes == ["707-320", "Boeing 707"] and found[0][1] == 1
    with pytest.raises(ValueError, match="annotation_level"):
        datasets.FGVCAircraft(tmp_path, annotation_level="size")


def test_clevr(tmp_path):
    folder = tmp_path / "clevr/CLEVR_v1.0"
    scenes = []
    for number in (1, 0):
        name = f"CLEVR_val_{number:06d}.png"
        picture(folder / "images/val" / name)
        scenes.append({"image_filename": name, "objects": [{}] * (number + 3)})
    (folder / "scenes").mkdir()
    (folder / "scenes/CLEVR_val_scenes.json").write_text(json.dumps({"scenes": scenes}))
    picture(folder / "images/test/CLEVR_test_000000.png")
    data = datasets.CLEVRClassification(tmp_path, split="val", target_transform=float)
    assert [data[k][1] for k in range(2)] == [3.0, 4.0]
    assert datasets.CLEVRClassification(tmp_path, split="test")[0][1] is None


def test_semeion(tmp_path):
    rows = np.zeros((3, 266))
    rows[:, 5] = 1
    rows[[0, 1, 2], [256 + 4, 256 + 0, 256 + 9]] = 1
    text = "\n".join(" ".join(f"{v:.4f}" for v in row) for row in rows).encode()
    (tmp_path / "semeion.data").write_bytes(text)
    kind = type("SEMEION", (datasets.SEMEION,), {"md5_checksum": md5(text)})
    data = kind(tmp_path, download=False)
    image, _ = data[0]
    assert image.mode == "L" and image.getpixel((5, 0)) == 255 and image.getpixel((6, 0)) == 0
    assert [data[k][1] for k in range(3)] == [4, 0, 9]
    with pytest.raises(RuntimeError, match="Dataset not found or corrupted"):
        datasets.SEMEION(tmp_path, download=False)


def test_omniglot(tmp_path):
    home = tmp_path / "omniglot-py/images_evaluation"
    for path in ("Atlantean/character01/1_01.png", "Atlantean/character02/2_01.png"):
        picture(home / path)
    data = datasets.Omniglot(tmp_path, background=False)
    assert len(data) == 2 and sorted(data[k][1] for k in range(2)) == [0, 1]
    assert data[0][0].mode == "L"
    coloured = datasets.Omniglot(
        tmp_path, False, loader=lambda path: Image.open(path).convert("RGB")
    )
    assert coloured[0][0].mode == "RGB"
    with pytest.raises(RuntimeError, match="Dataset not found"):
        datasets.Omniglot(tmp_path)


def test_sintel(tmp_path):
    flow = np.arange(24.0).reshape(3, 4, 2)
    for kind in ("clean", "final"):
        for frame in range(3):
            picture(tmp_path / f"Sintel/training/{kind}/alley/frame_{frame}.png", frame)
    for frame in range(2):
        flo(tmp_path / f"Sintel/training/flow/alley/frame_{frame}.flo", flow + frame)
    data = datasets.Sintel(tmp_path, pass_name="both")
    assert len(data) == 4
    first, second, found = data[1]
    assert (first.getpixel((0, 0))[0], second.getpixel((0, 0))[0]) == (1, 2)
    np.testing.assert_array_equal(found, (flow + 1).transpose(2, 0, 1).astype(np.float32))
    swapped = datasets.Sintel(tmp_path, transforms=lambda a, b, f, m: (b, a, f, "mask"))
    assert swapped[0][3] == "mask"
    (tmp_path / "Sintel/training/flow/alley/frame_0.flo").write_bytes(b"nope")
    with pytest.raises(ValueError, match="Magic number incorrect"):
        data[0]


def test_kitti_flow(tmp_path):
    part = tmp_path / "KittiFlow/training"
    for frame in (10, 11):
        picture(part / f"image_2/000000_{frame}.png", frame)
    data = datasets.KittiFlow(tmp_path)
    assert len(data) == 1 and len(data[0]) == 4 and data[0][2] is None
    (part / "flow_occ").mkdir()
    small = encode_png(torch.tensor([[[8]], [[16]], [[1]]], dtype=torch.uint8))
    (part / "flow_occ/000000_10.png").write_bytes(small.numpy().tobytes())
    _, _, flow, mask = datasets.KittiFlow(tmp_path)[0]
    assert flow.shape == (2, 1, 1) and mask.tolist() == [[True]]
    assert flow[0, 0, 0] == (8 - 2**15) / 64
    with pytest.raises(FileNotFoundError, match="Could not find the Kitti flow images"):
        datasets.KittiFlow(tmp_path, split="test")


def test_flying_chairs(tmp_path):
    home = tmp_path / "FlyingChairs"
    for number in range(3):
        for which in (1, 2):
            picture(home / f"data/{number:05d}_img{which}.ppm", 10 * number + which)
        flo(home / f"data/{number:05d}_flow.flo", np.full((2, 2, 2), float(number)))
    with pytest.raises(FileNotFoundError, match="file was not found"):
        datasets.FlyingChairs(tmp_path)
    (home / "FlyingChairs_train_val.txt").write_text("1\n2\n1\n")
    read = functools.partial(datasets.FlyingChairs, tmp_path)
    assert (len(read()), len(read(split="val"))) == (2, 1)
    first, second, flow = read()[1]
    assert (first.getpixel((0, 0))[0], second.getpixel((0, 0))[0]) == (21, 22)
    assert (flow == 2).all()
