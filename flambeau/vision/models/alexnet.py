"""AlexNet: five convolutions and three linear layers (Krizhevsky 2014, "One weird trick")."""

from flambeau import Tensor, nn

from ._api import builder
from .published import published

__all__ = ["AlexNet", "AlexNet_Weights", "alexnet"]


# channels, kernel, stride, and whether a pooling follows
CONVOLUTIONS = (
    (64, 11, 4, True),
    (192, 5, 1, True),
    (384, 3, 1, False),
    (256, 3, 1, False),
    (256, 3, 1, True),
)


class AlexNet(nn.Module):
    """The network behind `alexnet`."""

    def __init__(self, num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = 3
        for width, kernel_size, stride, pooled in CONVOLUTIONS:
            padding = min(kernel_size // 2, 2)
            layers += [nn.Conv2d(before, width, kernel_size, stride, padding), nn.ReLU(True)]
            layers += [nn.MaxPool2d(kernel_size=3, stride=2)] if pooled else []
            before = width
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        hidden: list[nn.Module] = []
        for width in (before * 6 * 6, 4096):
            hidden += [nn.Dropout(p=dropout), nn.Linear(width, 4096), nn.ReLU(True)]
        self.classifier = nn.Sequential(*hidden, nn.Linear(4096, num_classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


AlexNet_Weights = published("AlexNet_Weights", __name__)


@builder(AlexNet_Weights)
def alexnet(**kwargs) -> AlexNet:
    """AlexNet."""
    return AlexNet(**kwargs)
