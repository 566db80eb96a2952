"""Decompositions, Fourier transforms of awkward and tiny lengths, and saving, beside PyTorch.

Usage: python benchmarks/spectra.py [--threads 1,2] [--only PATTERN] [--seconds 1]
"""

from collections.abc import Iterator

from timing import Case, main

SIZES = ((64, 64), (256, 256), (512, 512), (1000, 4, 4), (200, 16, 16), (50, 64, 64))
CALLS = {
    "svd": "torch.linalg.svd(a, full_matrices=False)",
    "svdvals": "torch.linalg.svdvals(a)",
    "eigh": "torch.linalg.eigh(s)",
    "eigvalsh": "torch.linalg.eigvalsh(s)",
    "eig": "torch.linalg.eig(a)",
}
LENGTHS = ((8,), (16,), (101,), (257,), (1009,), (10007,), (64, 101), (64, 1009), (1000, 16))
FOLDER = (
    "import os, tempfile\nfolder = tempfile.TemporaryDirectory()\n"
    "path = os.path.join(folder.name, 'weights.pt')\n"
)


def cases() -> Iterator[Case]:
    for size in SIZES:
        setup = f"a = torch.randn{size}\ns = (a + a.mT) / 2"
        for name, call in CALLS.items():
            yield Case(f"{name} {'x'.join(map(str, size))}", call, setup)
    for size in LENGTHS:
        setup = f"x = torch.randn({size}, dtype=torch.complex64)"
        yield Case(f"fft {'x'.join(map(str, size))}", "torch.fft.fft(x)", setup)
    for many, each in ((4, "16"), (100, "64"), (60, "256, 256"), (10, "1000, 1000")):
        setup = f"{FOLDER}weights = {{str(i): torch.randn({each}) for i in range({many})}}"
        yield Case(f"save {many} tensors of {each}", "torch.save(weights, path)", setup)


CASES = list(cases())

if __name__ == "__main__":
    main("Decompositions, awkward transforms and saving, flambeau against PyTorch.", CASES)
