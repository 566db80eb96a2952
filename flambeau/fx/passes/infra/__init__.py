"""`torch.fx.passes.infra`: passes as objects, and what runs them."""
