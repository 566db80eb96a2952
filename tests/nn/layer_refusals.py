"""Lines about layers that refuse their arguments or inputs, or tell something else in words."""

SETUP = ""

LINES = """
nn.Bilinear(0, 3, 4)
nn.Linear(2, 3)(x(4))
nn.Linear(-1, 3)
nn.Linear(0, 3)
nn.Linear(2, 3, device="meta")
nn.Hardtanh(2, 1)
nn.Hardtanh(min_value=-2)
nn.Hardtanh(max_value=2)
nn.GELU("foo")(x(2))
nn.PReLU(3)(x(2, 4))
nn.Softmax2d()(x(2, 2))
nn.Softmax()(x(2, 2)).shape
nn.LogSoftmax()(x(2, 2)).shape
nn.MultiheadAttention(5, 2)
nn.MultiheadAttention(0, 2)
nn.MultiheadAttention(4, 0)
nn.MultiheadAttention(4, 2)(x(2, 5), x(2, 5), x(2, 5))
nn.MultiheadAttention(4, 2)(x(2, 2, 2, 4), x(2, 4), x(2, 4))
nn.MultiheadAttention(4, 2)(x(2, 4), x(2, 4), x(2, 4), is_causal=True)
nn.MultiheadAttention(4, 2).merge_masks(None, None, x(3, 5, 4))
[t.shape if hasattr(t, "shape") else t for t in nn.MultiheadAttention(4, 2).merge_masks(None, x(3, 5), x(3, 5, 4))]
[t.shape if hasattr(t, "shape") else t for t in nn.MultiheadAttention(4, 2).merge_masks(x(5, 5), x(3, 5), x(3, 5, 4))]
[t.shape if hasattr(t, "shape") else t for t in nn.MultiheadAttention(4, 2).merge_masks(x(6, 5, 5), None, x(3, 5, 4))]
nn.Conv2d(2, 4, 3, padding="same", stride=2)
nn.Conv2d(2, 4, 3, groups=0)
nn.Conv2d(3, 4, 3, groups=2)
nn.Conv2d(2, 3, 3, groups=2)
nn.Conv2d(2, 4, (3,))
nn.Conv2d(2, 4, -3)
nn.Conv2d(0, 4, 3)
nn.Conv2d(2, 4, 3)(x(2, 3))
nn.Conv2d(2, 4, 3)(x(1, 3, 5, 5))
nn.Conv2d(2, 4, 7)(x(1, 2, 5, 5))
nn.Conv2d(2, 4, 3, padding=2, padding_mode="reflect")
nn.ConvTranspose2d(2, 4, 3, padding_mode="reflect")
nn.ConvTranspose2d(2, 4, 3, 2)(x(1, 2, 4, 4), output_size=(3,))
nn.ConvTranspose2d(2, 4, 3, 2)(x(1, 2, 4, 4), output_size=(3, 4))
nn.ConvTranspose1d(2, 4, 3, 2)(x(1, 2, 4), output_size=(11,))
nn.LazyConv2d(2, 4)(x(3))
nn.LazyConv2d(2, 1, groups=2)(x(3, 4, 4))
nn.LazyConvTranspose2d(2, 4)(x(3, 3))
nn.LazyBatchNorm1d()(x(3))
nn.LazyBatchNorm1d()(x(3, 2, 2, 2))
nn.BatchNorm1d(3)(x(3))
nn.BatchNorm2d(3)(x(3, 3))
nn.BatchNorm3d(3)(x(3, 3))
nn.BatchNorm1d(3)(x(1, 3))
nn.BatchNorm2d(3)(x(1, 2, 3, 3))
nn.SyncBatchNorm(3)(x(3))
nn.SyncBatchNorm(3)(x(3, 0))
nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Sequential(nn.BatchNorm1d(3, affine=False).eval())))
nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm2d(2, bias=False))
nn.InstanceNorm1d(3)(x(3))
nn.InstanceNorm2d(3)(x(3, 3))
nn.InstanceNorm3d(3)(x(3, 3))
nn.InstanceNorm2d(3, affine=True)(x(1, 2, 3, 3))
nn.InstanceNorm2d(3)(x(1, 2, 3, 3)).shape
nn.InstanceNorm2d(3)(x(2, 3, 3)).shape
nn.InstanceNorm2d(3).load_state_dict(nn.InstanceNorm2d(3, track_running_stats=True).state_dict())
nn.InstanceNorm2d(3).load_state_dict(dict(nn.InstanceNorm2d(3, track_running_stats=True).state_dict()))
nn.InstanceNorm2d(3, track_running_stats=True).load_state_dict(dict(nn.InstanceNorm2d(3).state_dict()))
m = nn.BatchNorm1d(2); d = dict(m.state_dict()); d.pop("num_batches_tracked"); m.load_state_dict(d)
m = nn.BatchNorm1d(2); d = m.state_dict(); d.pop("num_batches_tracked"); m.load_state_dict(d)
nn.GroupNorm(3, 4)
nn.LayerNorm(3)(x(2, 4))
nn.LayerNorm((2, 3)).normalized_shape, nn.RMSNorm([3]).normalized_shape
nn.RMSNorm(3)(x(2, 4))
nn.CrossMapLRN2d(3)(x(2, 3))
nn.LocalResponseNorm(3)(x(2))
nn.Dropout(1.5)
nn.Dropout(-0.1)
nn.AlphaDropout(2)
nn.Dropout1d()(x(2)).shape
nn.Dropout2d().eval()(x(2, 3, 2)).shape
nn.CircularPad1d(1)(x(3))
nn.CircularPad2d(1)(x(3))
nn.CircularPad3d(1)(x(3))
nn.ReflectionPad1d(4)(x(1, 2, 3))
nn.ReflectionPad2d((1, 2)).padding, nn.ZeroPad2d(2).value
nn.FractionalMaxPool2d(2)
nn.FractionalMaxPool2d(2, 3, 0.5)
nn.FractionalMaxPool2d(2, output_ratio=1.5)
nn.FractionalMaxPool3d(2)
nn.FractionalMaxPool3d(2, 3, 0.5)
nn.FractionalMaxPool3d(2, output_ratio=(0.5, 0.3, 1.3))
nn.MaxPool2d(2)(x(2))
nn.AvgPool2d(2).stride, nn.AvgPool1d(2).stride, nn.MaxUnpool3d(2).padding
nn.MaxPool2d(7)(x(1, 3, 3))
nn.MaxPool2d(-1)(x(1, 3, 3))
nn.MaxPool3d(-1)(x(1, 3, 3, 3))
nn.AvgPool1d(-1)(x(1, 3))
nn.AvgPool2d(-1)(x(1, 3, 3))
nn.MaxUnpool2d(())(x(1, 1, 1), x(1, 1, 1).long())
nn.functional.max_unpool3d(x(1, 1, 1, 1, 1), x(1, 1, 1, 1, 1).long(), [1, 1])
nn.FractionalMaxPool3d(-1, 1)
nn.FractionalMaxPool3d([2, 0, 2], 1)
nn.AdaptiveAvgPool2d(0)(p(1, 2, 3, 3)).sum().backward()
nn.AdaptiveAvgPool1d(0)(p(1, 4)).sum().backward()
nn.AdaptiveMaxPool3d(0)(p(2, 3, 3, 3)).sum().backward()
nn.AdaptiveMaxPool1d(0)(p(1, 4)).sum().backward()
nn.EmbeddingBag(3, 1, mode="max")(lib.tensor([[0, 3]]))
nn.EmbeddingBag(3, 1, padding_idx=0)(lib.tensor([[0, -1]]))
e = nn.Embedding(5, 0, sparse=True); e(lib.tensor([1])).sum().backward(); e.weight.grad.shape
nn.Upsample()
nn.Upsample()(x(1, 1, 2))
nn.Upsample(2, 2)(x(1, 1, 2))
nn.Upsample(2, mode="bilinear")(x(1, 1, 2))
nn.Upsample(scale_factor=[2, 3])
nn.PixelShuffle(2)(x(1, 3, 2, 2))
nn.PixelUnshuffle(2)(x(1, 3, 3, 2))
nn.ChannelShuffle(2)(x(1, 3, 2, 2))
nn.Unflatten(1, "ab")
nn.Unflatten(1, (2, 3.0))
nn.Unflatten(1, 4)
nn.Unflatten("a", (("b", 2),))
nn.Unflatten(1, (2, 3))(x(2, 5))
nn.Flatten(2)(x(2, 3))
nn.Embedding(3, 2, padding_idx=3)
nn.Embedding(3, 2, padding_idx=-4)
nn.Embedding(3, 2, padding_idx=-1).padding_idx
nn.Embedding(3, 2, padding_idx=-1).weight[2].tolist()
nn.Embedding(3, 2, _weight=x(2, 2))
nn.Embedding.from_pretrained(x(2))
nn.Embedding.from_pretrained(x(2, 3)).weight.requires_grad
nn.Embedding.from_pretrained(x(2, 3), freeze=False, padding_idx=1).weight.tolist()
nn.Embedding(3, 2)(x(2))
nn.Embedding(3, 2)(lib.tensor([3]))
nn.EmbeddingBag(3, 2, _weight=x(2, 2))
nn.EmbeddingBag.from_pretrained(x(2))
nn.EmbeddingBag.from_pretrained(x(2, 3)).weight.requires_grad
nn.EmbeddingBag(3, 2, padding_idx=3)
nn.EmbeddingBag(3, 2, padding_idx=-4)
nn.EmbeddingBag(3, 2)(lib.tensor([0, 1]))
nn.EmbeddingBag(3, 2, mode="foo")(lib.tensor([[0, 1]]))
nn.LazyLinear(3).weight
list(nn.LazyLinear(3).state_dict().items())
nn.LazyLinear(3).load_state_dict(nn.LazyLinear(3).state_dict())
m = nn.LazyLinear(3); m.load_state_dict(nn.Linear(2, 3).state_dict()); m, m.weight.shape, m.in_features
m = nn.LazyLinear(3); m.load_state_dict(nn.Linear(2, 3).state_dict()); m(x(2)).shape, m
nn.Linear(2, 3).load_state_dict(nn.LazyLinear(3).state_dict())
nn.LazyLinear(3).weight.shape
m = __import__("copy").deepcopy(nn.LazyLinear(3)); m(x(4, 2)).shape, m
m = __import__("pickle").loads(__import__("pickle").dumps(nn.LazyLinear(3))); m(x(4, 2)).shape, m
m = nn.LazyLinear(3); m(x(4, 2)); m(x(4, 3))
m = nn.LazyLinear(3); m(x(2)); m._forward_pre_hooks, m._load_state_dict_pre_hooks, hasattr(m, "_load_hook")
list(nn.LazyLinear(3).parameters())
nn.LazyLinear(3).half().weight.dtype
nn.LazyLinear(3).double()(x(2).double()).dtype
nn.LazyLinear(3).share_memory()
nn.LazyLinear(3).has_uninitialized_params()
list(nn.LazyBatchNorm1d().state_dict().items())
nn.LazyBatchNorm1d().double()(x(3, 2).double()).dtype
nn.Sequential(nn.LazyConv2d(3, 2), nn.Flatten(), nn.LazyLinear(2))(x(1, 1, 3, 3)).shape
nn.ReLU(3)(x(2)).shape
nn.ReLU()(3)
nn.ReLU()(x(2), x(2))
nn.Sigmoid(3)
nn.Tanh(a=3)
nn.Linear(2)
""".strip().splitlines()  # noqa: E501
