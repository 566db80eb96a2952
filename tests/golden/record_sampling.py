"""Records what PyTorch draws, in sampling.json: python tests/golden/record_sampling.py

Every call of tests/ops/sampling_cases.py is made right after manual_seed(SEED). Of the EXACT ones
a digest of the bytes is kept, of the NEAR ones the values; of both, dtype, shape and a digest of
the generator's state afterwards; of the ERRORS type and message. Record on a processor that is not
Intel's: there PyTorch draws exponential_ and bernoulli_(p) from another library's generator.
"""

import hashlib
import json
import runpy
from pathlib import Path

import torch

HERE = Path(__file__).parent
SEED = 20240229


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def raw(tensor):
    return tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()


def record(call, exact):
    torch.manual_seed(SEED)
    out = eval(call, {"torch": torch})
    entry = {"dtype": str(out.dtype), "shape": list(out.shape)}
    if exact:
        entry["bytes"] = digest(raw(out)) if out.numel() else digest(b"")
    else:
        flat = torch.view_as_real(out) if out.is_complex() else out
        entry["values"] = flat.double().flatten().tolist()
    entry["state"] = digest(torch.get_rng_state().numpy().tobytes())
    return entry


def refusal(call):
    try:
        eval(call, {"torch": torch})
    except Exception as error:
        return [type(error).__name__, str(error).splitlines()[0]]
    raise AssertionError(f"{call} is fine")


def main():
    cases = runpy.run_path(str(HERE.parent / "ops" / "sampling_cases.py"))
    found = {
        "torch": torch.__version__,
        "seed": SEED,
        "exact": {call: record(call, True) for call in cases["EXACT"]},
        "near": {call: record(call, False) for call in cases["NEAR"]},
        "errors": {call: refusal(call) for call in cases["ERRORS"]},
    }
    text = (
        json.dumps(found, indent=None, separators=(",", ":"))
        .replace('},"', '},\n"')
        .replace('],"torch', '],\n"torch')
    )
    (HERE / "sampling.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
