"""ultralytics: YOLO networks from their descriptions, detection loss and boxes."""

from types import SimpleNamespace

import torch
from showing import gradients, show
from ultralytics.nn.tasks import ClassificationModel, DetectionModel
from ultralytics.utils.metrics import bbox_iou
from ultralytics.utils.ops import xywh2xyxy

torch.manual_seed(0)
image = torch.rand(1, 3, 64, 64)
for name in ("yolov8n.yaml", "yolo11n.yaml", "yolov5n.yaml"):
    torch.manual_seed(1)
    net = DetectionModel(name, nc=4, verbose=False)
    net.args = SimpleNamespace(box=7.5, cls=0.5, dfl=1.5)
    batch = {
        "img": image,
        "batch_idx": torch.zeros(2),
        "cls": torch.tensor([[0.0], [2.0]]),
        "bboxes": torch.tensor([[0.4, 0.4, 0.3, 0.3], [0.7, 0.6, 0.2, 0.4]]),
    }
    loss, items = net.loss(batch)
    loss.sum().backward()
    show(name, loss, items, gradients(net))
    net.eval()
    with torch.no_grad():
        show(name + " boxes", net(image)[0])
torch.manual_seed(2)
show("classify", ClassificationModel("yolov8n-cls.yaml", nc=5, verbose=False).eval()(image)[0])
show(
    "iou",
    bbox_iou(
        torch.tensor([[0.5, 0.5, 0.2, 0.2]]), torch.tensor([[0.55, 0.5, 0.2, 0.3]]), CIoU=True
    ),
    xywh2xyxy(torch.tensor([[0.5, 0.5, 0.2, 0.2]])),
)
