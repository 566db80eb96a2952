"""segment-anything, CLIP, docTR, EasyOCR, facexlib, lightly: networks without weights."""

import numpy as np
import torch
from showing import gradients, show
from torch import nn

torch.manual_seed(0)
image = torch.rand(2, 3, 64, 64)


def sam():
    from functools import partial

    from segment_anything import SamPredictor
    from segment_anything.modeling import (
        ImageEncoderViT,
        MaskDecoder,
        PromptEncoder,
        Sam,
        TwoWayTransformer,
    )

    model = Sam(
        image_encoder=ImageEncoderViT(
            depth=2,
            embed_dim=16,
            img_size=64,
            mlp_ratio=2,
            norm_layer=partial(nn.LayerNorm, eps=1e-6),
            num_heads=2,
            patch_size=16,
            qkv_bias=True,
            use_rel_pos=True,
            global_attn_indexes=[1],
            window_size=3,
            out_chans=16,
        ),
        prompt_encoder=PromptEncoder(
            embed_dim=16, image_embedding_size=(4, 4), input_image_size=(64, 64), mask_in_chans=4
        ),
        mask_decoder=MaskDecoder(
            num_multimask_outputs=3,
            transformer=TwoWayTransformer(depth=2, embedding_dim=16, mlp_dim=32, num_heads=2),
            transformer_dim=16,
            iou_head_depth=2,
            iou_head_hidden_dim=16,
        ),
    )
    sparse, dense = model.prompt_encoder(
        points=(torch.tensor([[[10.0, 20.0]]]), torch.tensor([[1]])),
        boxes=torch.tensor([[5.0, 5.0, 40.0, 50.0]]),
        masks=torch.rand(1, 1, 16, 16),
    )
    features = model.image_encoder(image[:1])
    masks, quality = model.mask_decoder(
        image_embeddings=features,
        image_pe=model.prompt_encoder.get_dense_pe(),
        sparse_prompt_embeddings=sparse,
        dense_prompt_embeddings=dense,
        multimask_output=True,
    )
    (masks.square().mean() + quality.sum()).backward()
    show("sam", features, sparse, masks, quality, gradients(model))
    predictor = SamPredictor(model.eval())
    predictor.set_image((image[0].permute(1, 2, 0).numpy() * 255).astype("uint8"))
    masks, quality, low = predictor.predict(
        point_coords=np.array([[12, 30]]), point_labels=np.array([1]), return_logits=True
    )
    show("predictor", masks.shape, quality, low.mean())


def clip_model():
    from clip.clip import tokenize
    from clip.model import CLIP, ModifiedResNet

    model = CLIP(16, 32, 2, 64, 16, 12, 49408, 64, 4, 2).float()
    words = tokenize(["a cat", "two dogs"], context_length=12)
    per_image, per_text = model(image[:, :, :32, :32], words)
    nn.functional.cross_entropy(per_image, torch.arange(2)).backward()
    show("clip", words, per_image, per_text, gradients(model))
    show("residual", ModifiedResNet((1, 1, 1, 1), 8, 2, 64, 8).eval()(image))


def text():
    from doctr.models import crnn_vgg16_bn, db_resnet50, parseq, vitstr_small
    from doctr.models.classification import mobilenet_v3_small
    from easyocr.craft import CRAFT
    from easyocr.model.vgg_model import Model

    detector = db_resnet50(pretrained=False, assume_straight_pages=True, pretrained_backbone=False)
    boxes = [{"words": np.array([[0.1, 0.2, 0.4, 0.5]], dtype="float32")} for _ in range(2)]
    found = detector(image, boxes, return_model_output=True)
    found["loss"].backward()
    show("dbnet", found["loss"], found["out_map"])
    strip = torch.rand(2, 3, 32, 128)
    for make in (crnn_vgg16_bn, vitstr_small, parseq):
        torch.manual_seed(1)
        np.random.seed(1)
        reader = make(pretrained=False, pretrained_backbone=False)
        loss = reader(strip, ["hello", "cat"])["loss"]
        loss.backward()
        show(make.__name__, loss, gradients(reader))
        with torch.no_grad():
            show("logits", reader.eval()(strip, return_model_output=True)["out_map"])
    show("mobile", mobilenet_v3_small(pretrained=False, num_classes=5).eval()(image))
    torch.manual_seed(2)
    show("craft", *CRAFT(pretrained=False).eval()(image))
    show("easyocr", Model(1, 16, 16, 10).eval()(torch.rand(1, 1, 64, 100), None))


def faces():
    from facexlib.detection.retinaface import RetinaFace
    from facexlib.parsing.bisenet import BiSeNet

    torch.manual_seed(4)
    show("retina", *RetinaFace(network_name="mobile0.25", device="cpu").eval()(image))
    show("parsing", *BiSeNet(num_class=4).eval()(image))


def without_labels():
    from lightly import loss as losses
    from lightly.models import modules, utils
    from lightly.utils.scheduler import cosine_schedule

    torch.manual_seed(5)
    a, b = torch.randn(8, 16, requires_grad=True), torch.randn(8, 16)
    for name, make in {
        "ntxent": lambda: losses.NTXentLoss(),
        "memory": lambda: losses.NTXentLoss(memory_bank_size=(16, 16)),
        "barlow": lambda: losses.BarlowTwinsLoss(),
        "vicreg": lambda: losses.VICRegLoss(),
        "dcl": lambda: losses.DCLLoss(),
        "negative cosine": lambda: losses.NegativeCosineSimilarity(),
        "tico": lambda: losses.TiCoLoss(),
    }.items():
        loss = make()(a, b)
        show(name, loss, torch.autograd.grad(loss, a)[0])
    dino = losses.DINOLoss(output_dim=16)
    show("dino", dino([a, b], [b, a, a], epoch=0), dino([a, b], [b, a], epoch=9))
    show("swav", losses.SwaVLoss(sinkhorn_iterations=3)([a.sigmoid(), b.sigmoid()], [b.sigmoid()]))
    head = modules.DINOProjectionHead(16, 8, 4, 12, freeze_last_layer=1)
    show("heads", head(a), modules.SimCLRProjectionHead(16, 8, 4)(a))
    utils.update_momentum(head, head, m=cosine_schedule(3, 10, 0.99, 1.0))
    show("prototypes", modules.SwaVPrototypes(16, 5)(a), utils.random_token_mask((2, 9), 0.5)[0])


for part in (sam, clip_model, text, faces, without_labels):
    torch.manual_seed(0)
    part()
