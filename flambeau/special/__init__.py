"""`torch.special`: functions of mathematical physics and statistics, by SciPy's names.

Everything is a row of the op table: `i0e` is the row `special_i0e`, `expit` is `sigmoid` under
another name. Names are looked up when first touched.
"""

from flambeau.eager.methods import function as _function
from flambeau.ops.table import TABLE as _TABLE

_SHARED = {
    "digamma": "digamma", "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "exp2": "exp2",
    "expit": "sigmoid",
    "expm1": "expm1", "gammainc": "igamma", "gammaincc": "igammac", "gammaln": "lgamma", "i0": "i0",
    "log1p": "log1p",
    "log_softmax": "log_softmax", "logit": "logit", "logsumexp": "logsumexp",
    "multigammaln": "mvlgamma",
    "polygamma": "polygamma", "psi": "digamma", "round": "round", "sinc": "sinc",
    "softmax": "softmax", "xlogy": "xlogy",
}  # fmt: skip


def __getattr__(name):
    if name == "__all__":  # what `import *` takes
        return __dir__()
    row = _SHARED.get(name, "special_" + name)
    if row not in _TABLE:
        raise AttributeError(f"module 'flambeau.special' has no attribute '{name}'")
    value = globals()[name] = _function(row)
    return value


def __dir__():
    own = {n.removeprefix("special_") for n in _TABLE if n.startswith("special_")}
    return sorted(own | {n for n, row in _SHARED.items() if row in _TABLE})
