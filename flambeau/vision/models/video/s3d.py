"""S3D: Inception for films, with kernels of place and of time apart (Xie et al. 2017)."""

from collections.abc import Callable
from functools import partial

import flambeau
from flambeau import Tensor, nn

from ...ops.misc import Conv3dNormActivation
from .._api import builder
from ..published import published

__all__ = ["S3D", "S3D_Weights", "s3d"]

Norm = Callable[..., nn.Module]


class TemporalSeparableConv(nn.Sequential):
    """A convolution of places, then one of time."""

    def __init__(
        self,
        in_planes: int,
        out_planes: int,
        kernel_size: int,
        stride: int,
        padding: int,
        norm_layer: Norm,
    ) -> None:
        k, s, p = kernel_size, stride, padding
        super().__init__(
            Conv3dNormActivation(
                in_planes, out_planes, (1, k, k), (1, s, s), (0, p, p), norm_layer=norm_layer
            ),
            Conv3dNormActivation(
                out_planes, out_planes, (k, 1, 1), (s, 1, 1), (p, 0, 0), norm_layer=norm_layer
            ),
        )


class SepInceptionBlock3D(nn.Module):
    """Four ways side by side: plain, two with convolutions, one with the maximum of neighbours."""

    def __init__(
        self,
        in_planes: int,
        b0_out: int,
        b1_mid: int,
        b1_out: int,
        b2_mid: int,
        b2_out: int,
        b3_out: int,
        norm_layer: Norm,
    ) -> None:
        super().__init__()
        plain = partial(Conv3dNormActivation, in_planes, kernel_size=1, norm_layer=norm_layer)
        wide = partial(
            TemporalSeparableConv, kernel_size=3, stride=1, padding=1, norm_layer=norm_layer
        )
        self.branch0 = plain(b0_out)
        self.branch1 = nn.Sequential(plain(b1_mid), wide(b1_mid, b1_out))
        self.branch2 = nn.Sequential(plain(b2_mid), wide(b2_mid, b2_out))
        self.branch3 = nn.Sequential(nn.MaxPool3d((3, 3, 3), 1, 1), plain(b3_out))

    def forward(self, x: Tensor) -> Tensor:
        ways = self.branch0, self.branch1, self.branch2, self.branch3
        return flambeau.cat([way(x) for way in ways], 1)


# (channels in, widths of the four ways), or (kernel, stride) of a pooling between them
_BODY = (
    (192, 64, 96, 128, 16, 32, 32),
    (256, 128, 128, 192, 32, 96, 64),
    ((3, 3, 3), (2, 2, 2), (1, 1, 1)),
    (480, 192, 96, 208, 16, 48, 64),
    (512, 160, 112, 224, 24, 64, 64),
    (512, 128, 128, 256, 24, 64, 64),
    (512, 112, 144, 288, 32, 64, 64),
    (528, 256, 160, 320, 32, 128, 128),
    ((2, 2, 2), (2, 2, 2), (0, 0, 0)),
    (832, 256, 160, 320, 32, 128, 128),
    (832, 384, 192, 384, 48, 128, 128),
)


class S3D(nn.Module):
    """The network behind `s3d`."""

    def __init__(
        self, num_classes: int = 400, dropout: float = 0.2, norm_layer: Norm | None = None
    ) -> None:
        super().__init__()
        norm = norm_layer or partial(nn.BatchNorm3d, eps=0.001, momentum=0.001)
        halves = partial(nn.MaxPool3d, (1, 3, 3), (1, 2, 2), (0, 1, 1))
        self.features = nn.Sequential(
            TemporalSeparableConv(3, 64, 7, 2, 3, norm),
            halves(),
            Conv3dNormActivation(64, 64, kernel_size=1, stride=1, norm_layer=norm),
            TemporalSeparableConv(64, 192, 3, 1, 1, norm),
            halves(),
            *(
                SepInceptionBlock3D(*row, norm) if len(row) == 7 else nn.MaxPool3d(*row)
                for row in _BODY
            ),
        )
        self.avgpool = nn.AvgPool3d(kernel_size=(2, 7, 7), stride=1)
        self.classifier = nn.Sequential(
            nn.Dropout(p=dropout), nn.Conv3d(1024, num_classes, kernel_size=1, stride=1, bias=True)
        )

    def forward(self, x: Tensor) -> Tensor:
        scores = self.classifier(self.avgpool(self.features(x)))
        return scores.mean(dim=(2, 3, 4))


S3D_Weights = published("S3D_Weights", __name__)


@builder(S3D_Weights, "KINETICS400_V1")
def s3d(**kwargs) -> S3D:
    """S3D."""
    return S3D(**kwargs)
