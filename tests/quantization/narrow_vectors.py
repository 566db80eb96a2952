"""Quantized products as other processors would compute them: `python narrow_vectors.py BYTES`.

Code is made for vectors of so many bytes, without instructions that add products of bytes; prints
the names of cases whose values differ from those recorded.
"""

import json
import sys
from pathlib import Path

from flambeau.codegen import llvm_cpu
from flambeau.codegen.target import Target

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


def narrow(size):
    host = llvm_cpu.host()
    missing = ("avx512", "vnni") if size == 32 else ("avx", "vnni")
    features = {
        name: on and not any(m in name for m in missing) for name, on in host.features.items()
    }
    host.target = Target(host.triple, features, size, {})


if __name__ == "__main__":
    narrow(int(sys.argv[1]))
    import cases

    import flambeau as torch

    golden = json.loads((HERE.parent / "golden" / "quantized.json").read_text())
    for name, case in cases.CASES.items():
        if name.startswith(("linear", "conv")):
            found = json.loads(json.dumps(cases.summary(case(torch))))
            if found != golden[name]:
                print(name)
