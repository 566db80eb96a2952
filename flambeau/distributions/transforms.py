"""Transforms: functions that turn values of one distribution into values of another.

What a transform is and how several become one is in `transforming`; functions of single numbers are
in `transforms_of_numbers`, those of vectors and matrices in `transforms_of_vectors`.
"""

from .transforming import CatTransform as CatTransform
from .transforming import ComposeTransform as ComposeTransform
from .transforming import IndependentTransform as IndependentTransform
from .transforming import ReshapeTransform as ReshapeTransform
from .transforming import StackTransform as StackTransform
from .transforming import Transform as Transform
from .transforming import _InverseTransform as _InverseTransform
from .transforming import identity_transform as identity_transform
from .transforms_of_numbers import AbsTransform as AbsTransform
from .transforms_of_numbers import AffineTransform as AffineTransform
from .transforms_of_numbers import (
    CumulativeDistributionTransform as CumulativeDistributionTransform,
)
from .transforms_of_numbers import ExpTransform as ExpTransform
from .transforms_of_numbers import PowerTransform as PowerTransform
from .transforms_of_numbers import SigmoidTransform as SigmoidTransform
from .transforms_of_numbers import SoftplusTransform as SoftplusTransform
from .transforms_of_numbers import TanhTransform as TanhTransform
from .transforms_of_vectors import CorrCholeskyTransform as CorrCholeskyTransform
from .transforms_of_vectors import LowerCholeskyTransform as LowerCholeskyTransform
from .transforms_of_vectors import PositiveDefiniteTransform as PositiveDefiniteTransform
from .transforms_of_vectors import SoftmaxTransform as SoftmaxTransform
from .transforms_of_vectors import StickBreakingTransform as StickBreakingTransform

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]
