"""`torch.utils.benchmark`: how long statements take, with tables to compare by.

Measurements are in `utils/common.py`, the timer in `utils/timer.py`, tables in `utils/compare.py`
and random inputs in `utils/fuzzer.py` and `utils/sparse_fuzzer.py`. PyTorch's counts of
instructions need valgrind and a C++ compiler and are left out.
"""

from flambeau.utils.benchmark.utils.common import Measurement as Measurement
from flambeau.utils.benchmark.utils.common import TaskSpec as TaskSpec
from flambeau.utils.benchmark.utils.common import ordered_unique as ordered_unique
from flambeau.utils.benchmark.utils.common import select_unit as select_unit
from flambeau.utils.benchmark.utils.common import set_torch_threads as set_torch_threads
from flambeau.utils.benchmark.utils.common import trim_sigfig as trim_sigfig
from flambeau.utils.benchmark.utils.common import unit_to_english as unit_to_english
from flambeau.utils.benchmark.utils.compare import Colorize as Colorize
from flambeau.utils.benchmark.utils.compare import Compare as Compare
from flambeau.utils.benchmark.utils.fuzzer import FuzzedParameter as FuzzedParameter
from flambeau.utils.benchmark.utils.fuzzer import FuzzedTensor as FuzzedTensor
from flambeau.utils.benchmark.utils.fuzzer import Fuzzer as Fuzzer
from flambeau.utils.benchmark.utils.fuzzer import ParameterAlias as ParameterAlias
from flambeau.utils.benchmark.utils.sparse_fuzzer import FuzzedSparseTensor as FuzzedSparseTensor
from flambeau.utils.benchmark.utils.timer import Language as Language
from flambeau.utils.benchmark.utils.timer import Timer as Timer
from flambeau.utils.benchmark.utils.timer import timer as timer
