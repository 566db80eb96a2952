"""How work is cut: sizes, strides and dtypes in, words of launch descriptions out. No tensors."""
