"""Runs a program on PyTorch itself: `with_pytorch.py PROGRAM`.

Libraries import torchvision, whose published wheels ask for a compiled part that belongs to a
PyTorch with CUDA. Its Python part is content when its ops are declared.
"""

import runpy
import sys

import torch

OPS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor a) -> Tensor",
    "roi_pool(Tensor a) -> Tensor",
    "ps_roi_align(Tensor a) -> Tensor",
    "ps_roi_pool(Tensor a) -> Tensor",
    "deform_conv2d(Tensor a) -> Tensor",
    "_roi_align_backward(Tensor a) -> Tensor",
    "_roi_pool_backward(Tensor a) -> Tensor",
    "_ps_roi_align_backward(Tensor a) -> Tensor",
    "_ps_roi_pool_backward(Tensor a) -> Tensor",
    "_deform_conv2d_backward(Tensor a) -> Tensor",
)
declared = torch.library.Library("torchvision", "DEF")
for op in OPS:
    declared.define(op)
sys.argv = sys.argv[1:]
sys.path[0] = sys.argv[0].rpartition("/")[0]
torch.set_num_threads(1)
runpy.run_path(sys.argv[0], run_name="__main__")
