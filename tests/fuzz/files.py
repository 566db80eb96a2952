"""Files that are nearly right: valid ones of every format, and changes at random.

`SEEDS` gives valid files by format, `mutated` changes one; every choice comes from a NumPy
generator, so a number names a file. `watched` notes what a program must not do while it reads.
"""

import contextlib
import io
import math
import pickle
import pickletools
import struct
import sys
import zipfile

import numpy as np

import flambeau
from flambeau.serialization.safetensors import save as save_safetensors

NUMBERS = [0, 1, 2, 7, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
NUMBERS += [1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 40, 100, 64]
HOSTILE = [
    b"cposix\nsystem\nX\x04\x00\x00\x00true\x85R",
    b"cbuiltins\neval\nX\x03\x00\x00\x001+1\x85R",
    b"c__builtin__\nexec\nX\x04\x00\x00\x00pass\x85R",
    b"\x8c\x08builtins\x8c\x07getattr\x93)R",
    b"(S'x'\nios\nsystem\n",
    b"cbuiltins\nopen\nX\x0b\x00\x00\x00/tmp/neverX\x01\x00\x00\x00w\x86R",
    b"csubprocess\nPopen\n)\x81}b",
    b"cimportlib\nimport_module\nX\x02\x00\x00\x00os\x85R",
    b"ctorch._utils\n_rebuild_tensor_v2\n)R",
    b"ctorch\nFloatTensor\n\x8a\x05\x00\x00\x00\x00\x7f\x85R",
    b"ccollections\nOrderedDict\n)R}X\x09\x00\x00\x00__class__K\x01sb",
    b"2", b"0", b"1", b"(", b"R", b"b", b"o", b"Q", b"\x81", b"\x92", b"t", b"e", b"u", b"s", b"a",
    b"h\x00", b"q\x00", b"\x94", b"\x93", b"\x8b\xff\xff\xff\x7f", b"B\xff\xff\xff\xff",
    b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x96\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x95\xff\xff\xff\xff\xff\xff\xff\x7f", b"K\x00" * 50, b"]" * 200, b"(" * 200, b"\x82\x01",
]  # fmt: skip


def objects():
    """Small objects of many kinds."""
    t = flambeau.arange(12.0).reshape(3, 4)
    marked = flambeau.ones(2)
    marked.note = [1]
    linear = flambeau.nn.Linear(2, 2)
    return [
        {"a": t, "b": t.t(), "c": t[1:, ::2], "n": 3, "s": "text", "x": [1.5, None, True]},
        linear.state_dict(),
        [flambeau.nn.Parameter(flambeau.ones(2)), marked, flambeau.nn.Buffer(flambeau.ones(1))],
        (flambeau.ones(2, dtype=flambeau.uint16), flambeau.tensor([1 + 2j]), 1 << 70, b"\0\xff"),
        {"meta": flambeau.empty(2, 3, device="meta"), "d": flambeau.float16, "z": {1, 2}},
    ]


def saved(obj, **options):
    file = io.BytesIO()
    flambeau.save(obj, file, **options)
    return file.getvalue()


def _pickles():
    """(pickle, other records) of archives."""
    out = []
    for protocol in (2, 4):
        for obj in objects():
            with zipfile.ZipFile(io.BytesIO(saved(obj, pickle_protocol=protocol))) as archive:
                records = {n.partition("/")[2]: archive.read(n) for n in archive.namelist()}
            out.append((records.pop("data.pkl"), records))
    return out


def _deflated(data):
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as old,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    return out.getvalue()


def _tensors():
    names = "float64 float16 bfloat16 int8 uint16 bool complex64".split()
    many = {name: flambeau.ones(2).to(getattr(flambeau, name)) for name in names}
    return [
        {"a": flambeau.arange(6.0).reshape(2, 3), "é": flambeau.ones(())},
        many,
        {"empty": flambeau.ones(0, 3), "x": flambeau.ones(5)},
    ]


def _idx_files():
    """Small IDX files of every dtype."""
    out = []
    for code, letters in zip((8, 9, 11, 12, 13, 14), ("u1", "i1", ">i2", ">i4", ">f4", ">f8")):
        for shape in ((5,), (2, 3), (2, 2, 2)):
            head = struct.pack(f">HBB{len(shape)}I", 0, code, len(shape), *shape)
            out.append(head + np.arange(math.prod(shape)).astype(letters).tobytes())
    return out


def _cifar_files():
    """Small batches as CIFAR has them, of all protocols that occur."""
    pixels = np.arange(2 * 3 * 4 * 4, dtype=np.uint8).reshape(2, 48)
    batch = {b"data": pixels, b"labels": [1, 2], b"batch_label": b"x", b"filenames": [b"a", b"b"]}
    return [pickle.dumps(batch, protocol) for protocol in (2, 3, 4)]


def seeds():
    """{format: valid files}; those of "pickle" are (pickle, records)."""
    plain = [saved(obj) for obj in objects()]
    return {
        "zip": [*plain, *map(_deflated, plain[:2])],
        "pickle": _pickles(),
        "legacy": [saved(obj, _use_new_zipfile_serialization=False) for obj in objects()],
        "idx": _idx_files(),
        "cifar": _cifar_files(),
        "safetensors": [save_safetensors(t, m) for t in _tensors() for m in (None, {"k": "v"})],
    }


# changes


def _flip(data, rng, others):
    for place in rng.integers(0, len(data), rng.integers(1, 9)):
        data[place] ^= 1 << rng.integers(8)


def _replace(data, rng, others):
    for place in rng.integers(0, len(data), rng.integers(1, 4)):
        data[place] = NUMBERS[rng.integers(7)] if rng.integers(2) else rng.integers(256)


def _truncate(data, rng, others):
    del data[int(rng.integers(0, len(data))) :]


def _insert(data, rng, others):
    place = int(rng.integers(0, len(data) + 1))
    data[place:place] = rng.bytes(int(rng.integers(1, 40)))


def _remove(data, rng, others):
    place = int(rng.integers(0, len(data)))
    del data[place : place + int(rng.integers(1, 40))]


def _repeat(data, rng, others):
    place, count = int(rng.integers(0, len(data))), int(rng.integers(1, 200))
    data[place:place] = data[place : place + count]


def _splice(data, rng, others):
    other = others[int(rng.integers(len(others)))]
    start, count = int(rng.integers(0, len(other))), int(rng.integers(1, 200))
    place = int(rng.integers(0, len(data)))
    data[place : place + count * int(rng.integers(2))] = other[start : start + count]


def _length(data, rng, others):
    """A number of 1 to 8 bytes becomes one that lengths are attacked with."""
    width = int(rng.choice([1, 2, 4, 8]))
    place = int(rng.integers(0, max(len(data) - width, 1)))
    number = NUMBERS[rng.integers(len(NUMBERS))] % (1 << 8 * width)
    data[place : place + width] = number.to_bytes(width, "little")


def _digits(data, rng, others):
    """A digit of a text becomes another number."""
    places = [k for k, byte in enumerate(data) if 48 <= byte <= 57]
    if places:
        place = places[rng.integers(len(places))]
        number = str(NUMBERS[rng.integers(len(NUMBERS))] - int(rng.integers(3)))
        data[place : place + 1] = number.encode()


CHANGES = [_flip, _replace, _truncate, _insert, _remove, _repeat, _splice, _length, _digits]


def mutated(data, rng, others):
    """A changed copy of a file."""
    data = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        if data:
            CHANGES[rng.integers(len(CHANGES))](data, rng, others)
    return bytes(data)


def mutated_pickle(data, rng, others):
    """A changed pickle: operations are exchanged, removed, repeated and put in."""
    if rng.integers(3) == 0:
        return mutated(data, rng, others)
    places = [place for _, _, place in pickletools.genops(data)]
    steps = [data[a:b] for a, b in zip(places, [*places[1:], len(data)])]
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(len(steps)))
        kind = rng.integers(6)
        if kind == 0:
            steps[place] = bytes([rng.integers(256)]) + steps[place][1:]
        elif kind == 1:
            steps[place] = b""
        elif kind == 2:
            steps.insert(place, steps[int(rng.integers(len(steps)))])
        elif kind == 3:
            other = int(rng.integers(len(steps)))
            steps[place], steps[other] = steps[other], steps[place]
        else:
            steps.insert(place, HOSTILE[rng.integers(len(HOSTILE))])
    return b"".join(steps)


def archive(pickled, records):
    """An archive with right checksums around any pickle."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as new:
        new.writestr("archive/data.pkl", pickled)
        for name, data in records.items():
            new.writestr(f"archive/{name}", data)
    return out.getvalue()


def variant(format, files, number, rng):
    """The file of a number: a whole one, changed."""
    if format == "pickle":
        pickled, records = files[number % len(files)]
        others = [other for other, _ in files]
        return archive(mutated_pickle(pickled, rng, others), records)
    if format == "cifar" and rng.integers(2):
        return mutated_pickle(files[number % len(files)], rng, files)
    return mutated(files[number % len(files)], rng, files)


# what is done


WATCHED = (
    "import exec compile os.system os.exec os.posix_spawn os.fork os.remove os.rename os.mkdir "
    "os.putenv subprocess.Popen socket.connect socket.bind shutil.rmtree ctypes.dlopen "
    "pickle.find_class open marshal.loads"
).split()
_notes: list | None = None


def _hook(event, arguments):
    if _notes is not None and event in WATCHED:
        _notes.append((event, repr(arguments)[:200]))


@contextlib.contextmanager
def watched():
    """A list of what was imported, executed, opened or started meanwhile."""
    global _notes
    if not getattr(sys, "_flambeau_fuzzing_hook", False):
        sys.addaudithook(_hook)  # for good: hooks cannot be taken away
        sys._flambeau_fuzzing_hook = True
    _notes = found = []
    try:
        yield found
    finally:
        _notes = None


def length_bombs():
    """Pickles whose few bytes speak of much: (name, pickle)."""
    deep = b"\x80\x02" + b"]" * 40_000 + b"a" * 39_999 + b"."
    tuples = b"\x80\x02)" + b"\x85" * 50_000 + b"."
    laughs = b"\x80\x02]q\x00"
    for k in range(60):
        laughs += b"](" + (b"h" + bytes([k])) * 10 + b"eq" + bytes([k + 1])
    hashes = b"\x80\x02)q\x00"
    for k in range(40):
        hashes += (b"h" + bytes([k])) * 2 + b"\x86q" + bytes([k + 1])
    keyed = hashes + b"}h\x28K\x01s."
    memo = b"\x80\x02N" + b"".join(b"r" + struct.pack("<I", 2**32 - 1 - k) for k in range(1000))

    def same_hash(k):
        number = k * ((1 << 61) - 1)
        return b"\x8a\x0a" + number.to_bytes(10, "little")

    nested_keys = b"\x80\x02)" + b"\x85" * 100_000 + b"}" + b"\x85" * 5 + b"."
    return {
        "deep lists": deep,
        "deep tuples": tuples,
        "deep keys": b"\x80\x02}" + b"(" * 3 + b")" + b"\x85" * 100_000 + b"K\x01tu.",
        "deep hash": b"\x80\x02})" + b"\x85" * 100_000 + b"K\x01s.",
        "billion laughs": laughs + b".",
        "billion hashes": keyed,
        "memo": memo + b".",
        "marks": b"\x80\x02" + b"(" * 60_000 + b"t" * 60_000 + b".",
        "nested": nested_keys,
        "laughing names": laughs + b"h\x3ch\x3c\x93.",
        "laughing codes": hashes + b"cnumpy\ndtype\nh\x28\x85R.",
        "laughing sizes": laughs + b"ctorch\nSize\nh\x3c\x85\x85R.",
        "laughing calls": laughs + b"h\x3c)R.",
        "long integer": b"\x80\x02\x8b\xff\xff\xff\x7f\x01.",
        "negative integer": b"\x80\x02\x8b\xff\xff\xff\xff\x01.",
        "text": b"\x80\x02X\xff\xff\xff\xff.",
        "bytes": b"\x80\x02B\xff\xff\xff\xff.",
        "long bytes": b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7f.",
        "bytearray": b"\x80\x05\x96" + b"\xff" * 7 + b"\x7f.",
        "frame": b"\x80\x04\x95" + b"\xff" * 8 + b"N.",
        "quadratic marks": b"\x80\x02" + b"(" + b"N" * 200_000 + b"(t" * 5000 + b".",
        "names": b"\x80\x02c" + b"a" * 10_000_000 + b"\nb\n.",
        "digits": b"\x80\x02I" + b"9" * 1_000_000 + b"\n.",
        "same hashes": b"\x80\x04\x8f(" + b"".join(same_hash(k) for k in range(30_000)) + b"\x90.",
        "sizes": pickle.dumps([(1 << 62,) * 64] * 10, 2),
    }  # fmt: skip
