"""Where PyTorch keeps what nested tensors are made of."""
