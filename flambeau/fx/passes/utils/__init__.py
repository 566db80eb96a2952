"""`torch.fx.passes.utils`: finding parts of graphs."""
