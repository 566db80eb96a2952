"""Forwards of layers as scripts, where those of the package itself do more than a script can say.

A class here stands for the layer of its name. Its methods are compiled from this source, never run;
__constants__ names attributes that never change.
"""

from typing import List, Optional, Tuple  # noqa: UP035

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import Tensor

# ruff: noqa: UP006, UP045
