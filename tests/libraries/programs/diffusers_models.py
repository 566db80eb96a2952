"""Schedulers, UNet, autoencoder and a whole pipeline of diffusers, untrained."""

import torch
from diffusers import (
    AutoencoderKL,
    DDIMPipeline,
    DDIMScheduler,
    DDPMPipeline,
    DDPMScheduler,
    DiTTransformer2DModel,
    DPMSolverMultistepScheduler,
    EulerAncestralDiscreteScheduler,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    HeunDiscreteScheduler,
    LCMScheduler,
    LMSDiscreteScheduler,
    PNDMScheduler,
    UNet2DConditionModel,
    UNet2DModel,
    UniPCMultistepScheduler,
    VQModel,
)
from diffusers.training_utils import EMAModel
from showing import gradients, show

torch.manual_seed(0)
unet = UNet2DModel(
    sample_size=16,
    in_channels=3,
    out_channels=3,
    layers_per_block=1,
    block_out_channels=(16, 32),
    norm_num_groups=8,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
)
x = torch.randn(2, 3, 16, 16)
steps = torch.tensor([3, 700])
scheduler = DDPMScheduler(num_train_timesteps=1000)
noise = torch.randn_like(x)
noisy = scheduler.add_noise(x, noise, steps)
ema = EMAModel(unet.parameters(), decay=0.9)
optimizer = torch.optim.AdamW(unet.parameters(), 1e-3)
for _ in range(2):
    loss = torch.nn.functional.mse_loss(unet(noisy, steps).sample, noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ema.step(unet.parameters())
    show("unet", loss, gradients(unet))
for kind in (
    DDPMScheduler,
    DDIMScheduler,
    PNDMScheduler,
    EulerDiscreteScheduler,
    EulerAncestralDiscreteScheduler,
    DPMSolverMultistepScheduler,
    UniPCMultistepScheduler,
    HeunDiscreteScheduler,
    LMSDiscreteScheduler,
    LCMScheduler,
    FlowMatchEulerDiscreteScheduler,
):
    scheduler = kind(num_train_timesteps=100)
    scheduler.set_timesteps(5)
    sample = x.clone()
    generator = torch.Generator().manual_seed(1)
    for t in scheduler.timesteps:
        scaled = (
            scheduler.scale_model_input(sample, t)
            if hasattr(scheduler, "scale_model_input")
            else sample
        )
        words = dict(generator=generator) if "generator" in kind.step.__code__.co_varnames else {}
        sample = scheduler.step(scaled * 0.3, t, sample, **words).prev_sample
    show(kind.__name__, sample, scheduler.timesteps.float())
unet.eval()
for pipeline in (DDPMPipeline(unet, DDPMScheduler()), DDIMPipeline(unet, DDIMScheduler())):
    pipeline.set_progress_bar_config(disable=True)
    out = pipeline(
        batch_size=1,
        generator=torch.Generator().manual_seed(2),
        num_inference_steps=3,
        output_type="np",
    )
    show("pipeline", torch.from_numpy(out.images))
torch.manual_seed(2)
vae = AutoencoderKL(
    block_out_channels=(8, 16),
    down_block_types=("DownEncoderBlock2D",) * 2,
    latent_channels=4,
    up_block_types=("UpDecoderBlock2D",) * 2,
    norm_num_groups=4,
    sample_size=16,
).eval()
posterior = vae.encode(x).latent_dist
show("vae", posterior.mean, posterior.kl(), vae.decode(posterior.mode()).sample)
vae.enable_slicing()
show("sliced", vae.decode(posterior.sample(torch.Generator().manual_seed(1))).sample)
vq = VQModel(block_out_channels=(8,), norm_num_groups=4, num_vq_embeddings=16).eval()
show("vq", vq(x).sample)
cross = UNet2DConditionModel(
    sample_size=8,
    layers_per_block=1,
    block_out_channels=(8, 16),
    norm_num_groups=4,
    cross_attention_dim=12,
    attention_head_dim=4,
    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
).eval()
show("conditioned", cross(torch.randn(2, 4, 8, 8), 5, torch.randn(2, 6, 12)).sample)
dit = DiTTransformer2DModel(
    num_attention_heads=2,
    attention_head_dim=8,
    in_channels=4,
    num_layers=2,
    sample_size=8,
    num_embeds_ada_norm=10,
    norm_num_groups=8,
).eval()
show(
    "dit",
    dit(torch.randn(2, 4, 8, 8), torch.tensor([1, 2]), class_labels=torch.tensor([3, 4])).sample,
)
