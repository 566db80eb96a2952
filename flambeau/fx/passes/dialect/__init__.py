"""`torch.fx.passes.dialect`."""
