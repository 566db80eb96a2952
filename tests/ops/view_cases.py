"""Calls on views, splits, joins, pads and writes through views, and what came of them as plain
data.

A case is a line (or short program) that says `torch` and gives a value or leaves `out`. `outcome`
runs it with either package: shapes, strides, offsets, values, names in the graph, first and second
derivatives, or the exception with the first sentence of its message.
"""

import re
import warnings

import numpy as np
from hypothesis import strategies as st

FORWARD = """
x.view(6, 4) | x.view(-1) | x.view((2, 12)) | x.view(2, 3, 2, 2) | x.view(24, 1) | x.view([4, 6])
x.view(torch.int64) | x.view(torch.float32) | x.view(torch.complex128) | f.view(torch.int16)
x.reshape(6, 4) | xt.reshape(6, 4) | xt.reshape(3, 2, 2, 2) | x.reshape(2, 3, 4)
x.reshape_as(x.reshape(6, 4)) | x.view_as(x) | s.view(1, 1) | s.reshape(()) | e.view(0, 3)
e.reshape(3, 0) | x.as_strided((2, 2), (1, 2)) | x.as_strided((3, 2), (1, 1), 2)
x.as_strided((2, 3), (0, 1)) | xt.as_strided((2, 2), (1, 2), 3)
v.expand(3, 4).as_strided((2, 2), (1, 1)) | x[1].as_strided((2, 2), (1, 2))
x[1].as_strided((2, 2), (1, 2), 1) | m.as_strided((), ()) | m.t() | v.t() | s.t() | m.T | v.T
x.T | m.mT | x.mT | x.mH | m.H | m.adjoint() | x.transpose(0, 1) | x.transpose(-1, 0)
s.transpose(0, -1) | x.swapaxes(0, 2) | x.swapdims(0, 2) | x.permute(2, 0, 1)
x.permute((1, 0, 2)) | x.permute(-1, 0, 1) | x.movedim(0, 1) | x.movedim((0, 1), (1, 2))
x.moveaxis(-1, 0) | torch.movedim(x, (2, 0), (0, 1)) | o.squeeze() | o.squeeze(0) | o.squeeze(1)
o.squeeze((0, 2)) | o.squeeze(-1) | x.squeeze() | s.squeeze() | s.squeeze(0) | x.unsqueeze(0)
x.unsqueeze(1) | x.unsqueeze(-1) | x.unsqueeze(3) | s.unsqueeze(0) | xt.unsqueeze(1) | x.flatten()
xt.flatten() | x.flatten(1) | x.flatten(0, 1) | xt.flatten(1, 2) | v.flatten() | s.flatten()
e.flatten() | x.unflatten(2, (2, 2)) | x.unflatten(-1, (-1, 2)) | xt.unflatten(0, (3, 1))
x.ravel() | xt.ravel() | v.ravel() | s.ravel() | v.expand(2, 4) | v.expand(2, -1)
o.expand(5, 3, 2) | s.expand(2, 2) | v.expand(4) | v.expand(1, 1, 4) | v.expand_as(m)
e.expand(2, 0, 3) | v.broadcast_to(2, 4) | torch.broadcast_to(v, (3, 4))
torch.broadcast_tensors(v, m) | torch.broadcast_tensors(o, v[:2]) | x.narrow(0, 0, 1)
x.narrow(1, -2, 2) | x.narrow(-1, 1, 3) | x.narrow(0, 2, 0) | x.select(0, 1) | x.select(-1, -2)
xt.select(1, 0) | x.diagonal() | x.diagonal(1) | x.diagonal(-1, 0, 2) | x.diagonal(1, 2, 1)
m.diagonal(5) | m.diagonal(-2) | x.unfold(2, 2, 1) | x.unfold(2, 2, 2) | x.unfold(1, 3, 1)
s.unfold(0, 1, 1) | xt.unfold(0, 2, 1) | x.unfold(2, 3, 2) | c.real | c.imag | torch.real(c)
torch.imag(c) | torch.real(m) | torch.view_as_real(c) | torch.view_as_real(c.t())
torch.view_as_complex(r) | torch.view_as_complex(torch.view_as_real(c)) | x.contiguous()
xt.contiguous() | q.contiguous(memory_format=torch.channels_last)
q.contiguous(memory_format=torch.channels_last).contiguous() | x.detach() | x.split(1)
x.split(2, 1) | x.split([1, 2], 1) | x.split(3, -1) | torch.split(x, 2, dim=2)
torch.split_with_sizes(x, [1, 3], 2) | x.chunk(2) | x.chunk(2, 1) | x.chunk(5, -1) | x.unbind()
x.unbind(1) | xt.unbind(-1) | x.tensor_split(2) | x.tensor_split(3, 2) | x.tensor_split((1, 3), 2)
x.tensor_split((3, 1), 2) | x.tensor_split(torch.tensor([1, 2]), 2) | torch.hsplit(x, 3)
torch.hsplit(v, (1, 2)) | torch.vsplit(x, 2) | torch.dsplit(x, 2) | torch.unsafe_split(x, 1)
torch.unsafe_chunk(x, 2) | torch.unsafe_split_with_sizes(x, [1, 1]) | torch.atleast_1d(s)
torch.atleast_1d(s, v) | torch.atleast_2d(v) | torch.atleast_2d(s) | torch.atleast_3d(m)
torch.atleast_3d(v) | torch.atleast_3d((s, m)) | torch.meshgrid(v, v, indexing='ij')
torch.meshgrid(v, s, indexing='xy') | torch.meshgrid([v, m[0]], indexing='xy')
torch.cartesian_prod(v, v) | torch.cartesian_prod(v) | torch.combinations(v)
torch.combinations(v, 3) | torch.combinations(v, with_replacement=True)
torch.block_diag(m, v, s) | torch.block_diag(m) | torch.diag(v) | torch.diag(v, 1) | torch.diag(m)
torch.diag(m, -1) | m.diag(2) | torch.diag_embed(v) | torch.diag_embed(m, 1)
torch.diag_embed(m, -1, 0, 2) | torch.diag_embed(x, 0, 1, -1) | torch.diagflat(m)
torch.diagflat(v, 1) | torch.diagonal_scatter(m, v[:3]) | torch.diagonal_scatter(m, v[:2], -1)
torch.select_scatter(m, v, 0, 1) | torch.select_scatter(x.transpose(0, 1), m[:2], 0, 1)
torch.slice_scatter(m, m[:2], 0, 1) | torch.slice_scatter(m, m[:, :2], 1, 0, 4, 2) | m.tril()
m.triu() | m.tril(1) | m.triu(-1) | x.tril(-1) | xt.triu(1) | m.t().tril() | q.triu() | c.tril()
m.clone().tril_() | m.clone().triu_(1) | m.flip(0) | m.flip(0, 1) | m.flip((1,)) | x.flip(-1, 0)
xt.flip(0) | m.flip(()) | m.fliplr() | m.flipud() | m.t().flip(0) | m.rot90() | m.rot90(2)
m.rot90(3) | m.rot90(0) | m.rot90(-1) | x.rot90(1, (1, 2)) | torch.rot90(x, 1, (2, 0)) | m.roll(1)
m.roll(-2) | m.roll(1, 0) | m.roll((1, -1), (0, 1)) | m.roll((1, 1), (0, 0)) | xt.roll(2, 0)
xt.roll(1) | s.roll(1) | torch.roll(m, shifts=5, dims=1) | m.tile(2) | m.tile(2, 1)
m.tile((2, 1, 1)) | v.tile(2, 2) | m.repeat(2, 1) | m.repeat(2, 1, 3) | m.t().repeat(1, 2)
s.repeat(3) | m.repeat(0, 1) | torch.cat([m, m]) | torch.cat([m, m], 1)
torch.cat((m, m.t().contiguous().t()), -1) | torch.cat([m.t(), m.t()]) | torch.cat([m, f], 1)
torch.cat([z0, m]) | torch.cat([m, z0, m])
torch.cat([q.contiguous(memory_format=torch.channels_last)] * 2)
torch.cat([v.expand(3, 4), m]) | torch.concat([m, m]) | torch.concatenate([m, m], axis=1)
torch.cat([m[:0], m]) | torch.stack([m, m]) | torch.stack([m, m], 1) | torch.stack((m, m), -1)
torch.stack([s, s]) | torch.stack([m.t(), m.t()]) | torch.stack([m, f]) | torch.hstack([m, m])
torch.hstack([v, v]) | torch.hstack([s, v]) | torch.vstack([m, m]) | torch.vstack([v, v])
torch.row_stack([v, m]) if hasattr(torch, 'row_stack') else v | torch.dstack([m, m])
torch.dstack([v, v]) | torch.column_stack([v, v]) | torch.column_stack([m, v[:3]])
F.pad(m, (1, 1)) | F.pad(m, (1, 2, 0, 1)) | F.pad(m, (-1, 2)) | F.pad(m, (1, 1), value=2.5)
F.pad(m, (-1, -1)) | F.pad(x, (1, 0, 2, 0, 0, 1)) | F.pad(m, ()) | F.pad(m, (2, 1), 'reflect')
F.pad(x, (1, 2), 'reflect') | F.pad(x, (1, 2, 2, 1), 'reflect')
F.pad(q, (1, 1, 2, 0, 1, 1), 'reflect') | F.pad(m, (-1, 2), 'reflect')
F.pad(m, (-2, 3), 'reflect') | F.pad(m, (2, 1), 'replicate') | F.pad(x, (3, 2), 'replicate')
F.pad(x, (1, 2, 2, 4), 'replicate') | F.pad(q, (1, 1, 2, 0, 1, 1), 'replicate')
F.pad(m, (-1, 2), 'replicate') | torch.constant_pad_nd(m, (1, 1))
F.pad(q.contiguous(memory_format=torch.channels_last), (1, 1, 1, 1))
F.pad(q.contiguous(memory_format=torch.channels_last), (1, 1, 1, 1), 'reflect')
x.clone().squeeze_() | o.clone().squeeze_(0) | o.clone().squeeze_((0, 2))
x.clone().unsqueeze_(0) | m.clone().t_() | x.clone().transpose_(0, 1) | x.clone().swapaxes_(0, 1)
x.clone().as_strided_((2,), (1,)) | x.transpose(0, 1).unsqueeze(0).permute(2, 0, 1, 3)
x[0].t().select(0, 1).unsqueeze(-1) | x.permute(2, 0, 1).flatten(1)
x[:, 1:].diagonal().unsqueeze(0).expand(3, -1, -1) | x.unfold(2, 2, 1).transpose(0, 1).reshape(-1)
c.real.t().flip(0)
"""

# Circular pads: PyTorch draws copies into slices, one node is drawn here. It conjugates lazily
NAMELESS = """
c.H | c.mH | c.adjoint() | torch.adjoint(c) | F.pad(m, (2, 1), 'circular')
F.pad(x, (3, 2), 'circular') | F.pad(x, (1, 2, 2, 3), 'circular')
F.pad(q, (1, 1, 2, 0, 1, 1), 'circular') | F.pad(m, (-1, 2), 'circular')
F.pad(m, (2, -1), 'circular') | o.squeeze((0,)) | m.repeat_interleave(2, 1)
"""

FACTS = """
torch.broadcast_shapes((2, 3), (1,)) | torch.broadcast_shapes(2, (3, 1))
torch.broadcast_shapes() | torch.broadcast_shapes((0,), (1,)) | torch.tril_indices(3, 3)
torch.tril_indices(4, 2, -1) | torch.tril_indices(2, 5, 2) | torch.triu_indices(3, 4, 1)
torch.triu_indices(4, 2, -2) | torch.tril_indices(0, 3)
torch.triu_indices(3, 3, dtype=torch.int32) | torch.tril_indices(3, 3, -5)
torch.triu_indices(3, 3, 5) | torch.tril_indices(3, 2, 9)
torch.cat([torch.ones(2, dtype=torch.int32), torch.ones(2, dtype=torch.float16)]).dtype
torch.cat([torch.ones(2, dtype=torch.bfloat16)] * 2)
torch.cat([torch.ones(0, dtype=torch.float64), torch.ones(2, 3)]).dtype
torch.cat([torch.ones(2, dtype=torch.bool), torch.ones(1, dtype=torch.uint8)])
torch.cat([torch.ones(2, 3), torch.ones(2, 3)], out=torch.ones(4, 3))
torch.stack([torch.ones(2), torch.ones(2)], out=torch.empty(0)).shape
torch.stack([torch.tensor(1), torch.tensor(2.)]) | torch.combinations(torch.arange(3), r=0)
torch.combinations(torch.arange(3), r=4).shape
F.pad(torch.ones(2, 3, dtype=torch.int32), (1, 1), value=2.7)
F.pad(torch.ones(2, dtype=torch.bool), (1, 0), value=True)
F.pad(torch.arange(6).view(2, 3), (1, 1), 'reflect') | torch.ones(2, 3, dtype=torch.bool).tril()
torch.arange(12).view(3, 4).triu(1) | torch.arange(6, dtype=torch.float16).view(2, 3).tril()
torch.arange(6).view(2, 3).flip(0) | torch.arange(6, dtype=torch.bfloat16).view(2, 3).roll(1, 1)
torch.ones(2, 1, 4, 5).is_contiguous(memory_format=torch.channels_last)
torch.ones(2, 3, device='meta').t().unsqueeze(0)
torch.cat([torch.ones(2, device='meta'), torch.ones(1, device='meta')])
torch.ones(2, 3, device='meta').flip(0) | torch.ones(2, 3, device='meta').tril()
F.pad(torch.ones(2, 3, device='meta'), (1, 1))
F.pad(torch.ones(2, 3, device='meta'), (1, 1), 'reflect')
torch.ones(2, 3, device='meta').repeat(2, 2) | torch.ones(2, 3, device='meta').roll(1, 0)
torch.ones(3, device='meta').diag() | torch.block_diag(torch.ones(2, device='meta'))
torch.ones(4, device='meta').split(3)[1] | x._is_view() | x.view(-1)._is_view()
x.view(-1)._base is x | x.view(-1).t()._base is x | x.detach()._is_view()
xt.reshape(-1)._is_view() | torch.unsafe_split(x, 1)[0]._is_view()
x.view(-1).data_ptr() == x.data_ptr() | x[1].storage_offset() | x.split(1)[1].storage_offset()
c.imag.storage_offset() | torch.meshgrid(v, v, indexing='ij')[1].stride()
x.squeeze(axis=0).shape | torch.unsqueeze(x, axis=0).shape
torch.transpose(x, dim0=0, dim1=1).shape | torch.unsqueeze(input=x, dim=1).shape
x.view(size=(6, 4)).shape | x.reshape(shape=(6, 4)).shape | x.permute(dims=(1, 0, 2)).shape
x.expand(size=(2, 2, 3, 4)).shape | torch.swapaxes(x, axis0=0, axis1=1).shape
x.flatten(start_dim=1).shape | x.view(dtype=torch.int64).shape
torch.narrow(x, 0, torch.tensor(1), 1).shape | x.split(split_size=1)[0].shape
x.T.shape | torch.moveaxis(x, source=0, destination=1).shape | x.unfold(2, 0, 1).shape
torch.as_strided_scatter(m, v, (4,), (1,)).tolist()
torch.as_strided_scatter(m, v, (4,), (2,), 1).tolist() | torch.block_diag()
type(torch.split(x, 1)) | type(torch.meshgrid(v, indexing='ij')) | type(torch.chunk(x, 1))
type(torch.broadcast_tensors(v, v))
torch.block_diag(torch.ones(2, dtype=torch.int32), torch.ones(2)).dtype
torch.zeros(0, 3).split(2) | torch.zeros(0, 3).split(0) | torch.zeros(0, 3).chunk(3)
torch.zeros(0, 3).unbind() | torch.zeros(3, 0).flip(0) | torch.zeros(0).roll(1)
torch.zeros(2, 0).tril()
"""

ERRORS = """
xt.view(6, 4) | x.view(5, 5) | x.view(-1, 5) | x.view(-1, -1) | x.view(-2, 3) | e.view(-1, 0)
x.reshape(5, 5) | x.reshape(-1, 7) | m.view(torch.float32).view(torch.complex128)
f.view(2, 6)[:, 1:].view(torch.float64) | f.t().view(torch.float64) | f.t().view(torch.int16)
s.view(torch.int16) | f.flatten()[1:5].view(torch.float64) | f[:, :3].view(torch.float64)
x.view('a') | x.view(2.0, 3) | x.view() | x.t() | x.transpose(0, 3) | x.permute(0, 1)
x.permute(0, 1, 1) | x.permute(0, 1, 5) | x.movedim((0, 1), (0,)) | x.movedim((0, 0), (0, 1))
x.movedim((0, 1), (0, 0)) | x.squeeze(3) | x.squeeze((0, 0)) | x.unsqueeze(4) | x.unsqueeze(-5)
x.flatten(2, 1) | x.flatten(0, 4) | x.unflatten(1, (2, 2)) | x.unflatten(1, ())
x.unflatten(5, (1, 2)) | m.expand(5, 4) | m.expand(3) | m.expand(-1, 3, 4) | m.expand(3, -2)
torch.broadcast_tensors(m, m[:2]) | torch.broadcast_to(m, (2,))
torch.broadcast_shapes((2, 3), (2, 2)) | torch.broadcast_shapes(2, (-1, 2)) | m.narrow(0, 1, 3)
m.narrow(0, 4, 0) | m.narrow(0, 0, -1) | m.narrow(2, 0, 1) | s.narrow(0, 0, 1)
m.narrow(0, -4, 1) | m.select(0, 3) | m.select(2, 0) | s.select(0, 0) | m.diagonal(0, 0, 0)
m.diagonal(0, 0, 5) | v.diagonal() | m.unfold(1, 5, 1) | m.unfold(1, 2, 0) | m.unfold(1, -1, 1)
m.unfold(2, 1, 1) | s.unfold(0, 2, 1) | m.imag | torch.imag(m) | torch.view_as_real(m)
torch.view_as_complex(m) | torch.view_as_complex(r.t()) | torch.view_as_complex(s)
torch.view_as_complex(torch.ones(2, 2, dtype=torch.int32))
torch.view_as_complex(torch.ones(6)[1:3]) | torch.view_as_complex(torch.ones(3, 3)[:, :2])
m.split(0) | m.split(-1) | m.split([1, 1]) | m.split([5, -2]) | s.split(1) | m.chunk(0)
s.chunk(1) | m.unbind(2) | s.unbind() | m.tensor_split(0) | s.tensor_split(1) | torch.hsplit(m, 3)
torch.hsplit(s, 2) | torch.vsplit(v, 2) | torch.vsplit(m, 2) | torch.dsplit(m, 2)
torch.dsplit(x, 3) | m.as_strided((9,), (2,)) | m.as_strided((5,), (2, 3))
m.as_strided((2,), (-1,)) | m.as_strided((-2,), (1,)) | m.as_strided((2,), (1,), -1) | v.H | v.mT
v.adjoint() | x.H | v.mH | m.contiguous(memory_format=torch.channels_last)
xt.contiguous(memory_format=torch.preserve_format) | m.view_as(v) | m.unsqueeze()
m.unsqueeze(1.0) | m.permute('a') | m.transpose(0) | torch.cat([]) | torch.cat([v, m])
torch.cat([m, m.t()]) | torch.cat([s, v]) | torch.cat([m, m], 2) | torch.cat([m[:0, :2], m])
torch.cat(m) | torch.cat([v, 3]) | torch.cat([v, torch.ones(1, device='meta')])
torch.cat([v, v], out=torch.ones(8, dtype=torch.float64)) | torch.stack([])
torch.stack([v, v[:2]]) | torch.stack([v, v], 3) | torch.stack(m) | torch.hstack([m, v])
torch.hstack([]) | torch.vstack([]) | torch.dstack([]) | torch.column_stack([])
torch.block_diag(x) | torch.meshgrid(v, v, indexing='zz')
torch.meshgrid(v, torch.ones(3, dtype=torch.int32), indexing='ij') | torch.meshgrid()
torch.cartesian_prod(m) | torch.combinations(m) | torch.combinations(v, r=-1) | torch.diag(x)
torch.diag(s) | torch.diag_embed(m, 1, 0, 0) | torch.diag_embed(m, 0, 0, 5)
torch.diagonal_scatter(m, v) | torch.select_scatter(m, v[:3], 0, 0) | torch.slice_scatter(m, v)
torch.select_scatter(m, v, 0, 5) | torch.as_strided_scatter(m, v[:3], (2,), (1,)) | v.tril()
s.triu() | torch.tril_indices(-1, 3) | torch.tril_indices(3, 3, dtype=torch.float32)
m.flip((0, 0)) | m.flip(2) | v.fliplr() | s.flipud() | m.rot90(1, (0, 0)) | m.rot90(1, (0, 1, 2))
v.rot90(1, (0, 1)) | m.rot90(1, (0, 5)) | m.roll((1, 2)) | m.roll((1, 2), (0,)) | m.roll(())
m.roll(1, 5) | s.roll(1, 0) | m.repeat(2) | m.repeat(-1, 2) | m.repeat() | F.pad(m, (1,))
F.pad(m, (1, 1, 1, 1, 1, 1)) | F.pad(m, (-3, -2)) | F.pad(m, (1, 1), 'reflec')
F.pad(m, (1, 1), 'reflect', 1.0) | F.pad(m, (4, 1), 'reflect') | F.pad(m, (1, 1, 1, 1), 'reflect')
F.pad(v, (1, 1), 'reflect') | F.pad(m, (5, 1), 'circular') | F.pad(m, (-5, 0), 'circular')
F.pad(m, (-5, 0), 'replicate') | F.pad(m, (-5, 0), 'reflect') | F.pad(m[:, :0], (1, 1), 'reflect')
F.pad(m, 'a') | F.pad(m, (1.5, 1))
F.pad(torch.ones(2, 3, dtype=torch.bool), (1, 1), 'replicate') | x.t_() | m.t_() | m.squeeze_()
m.view(-1).mul_(2) | m.view(-1).unsqueeze_(0) | (m * 1).unbind()[0].mul_(2)
(m * 1).split(1)[1].mul_(2) | (m * 1).chunk(2)[0].view(-1).mul_(2)
torch.ones(2, 4).unbind()[0].mul_(v)
"""

# Programs: several views of one base, written through in every order. They leave `out`.
PROGRAMS = r"""
y = m * 1; a = y[0]; a.mul_(3); out = y
y = m * 1; a = y[0]; a.mul_(3); out = a
y = m * 1; a = y[0]; b = y[1]; a.mul_(b); out = y * b.sum()
y = m * 1; a = y.t()[1]; a.mul_(v[:3]); out = y
y = m * 1; a = y.view(-1)[2:7].view(5, 1); a.mul_(2); a.add_(v[0]); out = y
y = m * 1; a = y.t(); y.mul_(3); out = a
y = m * 1; a = y[1:]; b = a[0]; y.mul_(v); out = b * a
y = m * 1; a = y[1:]; b = a[0]; b.mul_(2); a.mul_(v); y.add_(1); out = b
y = m * 1; a = y[1:]; b = a[0]; b.mul_(2); a.mul_(v); y.add_(1); out = y
y = torch.zeros(3, 4, dtype=torch.float64); a = y[0]; a.add_(v); out = y
y = torch.zeros(3, 4, dtype=torch.float64); a = y[0]; b = y[:, 0]; a.add_(v); out = b
y = torch.zeros(3, 4, dtype=torch.float64); b = y[:, 0]; y.add_(m); out = b
y = torch.zeros(3, 4, dtype=torch.float64); b = y.t(); c0 = b[1:2]; y[1].copy_(v); out = c0
y = torch.zeros(3, 4, dtype=torch.float64); y[0] = v; y[1] = v * 2; out = y
y = torch.zeros(3, 4, dtype=torch.float64); y[:, 1] = m[:, 0]; y[:, 2] = y[:, 1] * 2; out = y
y = m * 1; y[0] = 0.0; out = y
y = m * 1; y[1:].zero_(); out = y
y = m * 1; y.t().fill_(2.0); out = y
y = m * 1; y.diagonal().mul_(v[:3]); out = y
y = m * 1; y.diagonal().copy_(v[:3]); y.mul_(y.detach()); out = y
y = m * 1; a = y.select(0, 1).unsqueeze(0).expand(1, 4); a.mul_(2); out = y
y = m * 1; a = y.flatten(); a[::2].mul_(5); out = y
y = m.t() * 1; a = y.reshape(4, 3); a.mul_(v[:3]); out = y
y = x * 1; a = y.permute(2, 0, 1)[1]; a.mul_(m[:2, :3]); a.t().add_(1); out = y
y = x * 1; a = y.unfold(2, 2, 2); a.mul_(2); out = y
y = c * 1; y.real.mul_(2); out = y
y = c * 1; y.imag.copy_(m); out = y
y = c * 1; torch.view_as_real(y)[..., 0].mul_(m); out = y
y = r * 1; torch.view_as_complex(y).mul_(2j); out = y
y = m * 1; y.t_(); y[0].mul_(2); out = y
y = m * 1; a = y[:2]; a.t_(); out = a
y = m * 1; a = y[:2]; y.unsqueeze_(0); y.mul_(2); out = y
y = m * 1; a = y[:1]; y.squeeze_(); y.mul_(2); out = a
y = m * 1; y.as_strided_((2, 2), (1, 2)); out = y
y = m * 1; y.tril_(); y.triu_(-1); out = y
y = m * 1; y[1:].tril_(); out = y
y = m * 1; a = y.chunk(2); out = torch.cat([p * k for k, p in enumerate(a)])
y = m * 1; a, b, c0 = y.unbind(); y.mul_(v); out = a + c0
y = m * 1; a = y.split(2)[1]; y.mul_(v); out = a
y = m * 1; a = y.view(4, 3); b = a.view(2, 6); b[0].mul_(3); a[1].mul_(y[2, 0]); out = y
y = m.exp(); a = y[0]; a.mul_(2); out = y
y = m * 1; z = y * y; y[0].mul_(2); out = z
y = m * 1; z = y[1] * y[1]; y[0].mul_(2); out = z
y = m * 1; a = y.detach(); a[0].mul_(2); out = y
y = m * 1; a = y[0].detach(); a.mul_(v); out = a
y = m * 1; a = y[0]; a.detach_(); out = a
y = m * 1; a = y[0]; b = a.clone(); a.mul_(2); out = b + a
y = torch.zeros(4, dtype=torch.float64); a = y.detach()[1:]; a.add_(v[1:]); out = a
y = torch.zeros(4, dtype=torch.float64); a = y.detach(); y.add_(v); out = a
y = m * 1; a = y[0]; a += 1; a *= v; a -= a.detach(); out = y
y = m * 1; a = y[:, 1:3]; a[a > 0.3] = 0; out = y
y = m * 1; y[0], y[1] = y[1].clone(), y[0].clone(); out = y
y = torch.ones(2, 4, dtype=torch.float64); y.as_strided((4,), (2,), 1).mul_(v); out = y
y = m * 1; a = y.as_strided((2, 2), (1, 1)); y.mul_(2); out = a
y = m * 1; a = y.expand(2, 3, 4); y.mul_(2); out = a
y = m * 1; a = y.movedim(0, 1); b = a.flatten(); a.mul_(2); out = b + a.reshape(-1)
with torch.no_grad(): a = m[0]; a.mul_(2)\nout = m * 1
y = m * 1\nwith torch.no_grad(): a = y[0]\na.mul_(2); out = y
y = torch.ones(3, 4, dtype=torch.float64)\nwith torch.no_grad(): a = y[0]\na.mul_(v); out = y
y = m * 1; a = y[0]\nwith torch.no_grad(): a.mul_(2)\nout = a * a
y = m * 1; y[0].copy_(y[1]); y[1].copy_(y[2]); out = y
y = m * 1; y[:2].copy_(y[1:]); out = y
y = m * 1; y.narrow(0, 0, 2).narrow(1, 1, 2).add_(m[1:, :2]); out = y
y = s.expand(3); out = y * 1
y = v.expand(3, 4); y.mul_(2)
y = m.unfold(1, 2, 1) * 1; y[:, 1].mul_(y[:, 0]); out = y
"""


def lines_of(text):
    return [
        part.strip()
        for line in text.strip().splitlines()
        for part in line.split(" | ")
        if part.strip()
    ]


def cases():
    """(kind, source) of everything."""
    found = [("forward", s) for s in lines_of(FORWARD)]
    found += [("nameless", s) for s in lines_of(NAMELESS)]
    found += [("fact", s) for s in lines_of(FACTS)]
    found += [("error", s) for s in lines_of(ERRORS)]
    found += [("program", s.replace("\\n", "\n")) for s in PROGRAMS.strip().splitlines()]
    return found


def inputs(torch, functional):
    """Leaves of every rank that cases name by a letter."""

    def leaf(*shape, dtype=torch.float64):
        count = 1
        for n in shape:
            count *= n
        values = [0.1 * ((7 * k) % 11) + 0.05 * k + 0.1 for k in range(count)]
        return torch.tensor(values, dtype=dtype).reshape(shape).requires_grad_()

    space = {
        "torch": torch,
        "F": functional,
        "x": leaf(2, 3, 4),
        "m": leaf(3, 4),
        "v": leaf(4),
        "s": leaf(),
        "o": leaf(1, 3, 1),
        "e": leaf(0, 3),
        "f": leaf(3, 4, dtype=torch.float32),
        "q": leaf(2, 3, 4, 3),
        "r": leaf(3, 2),
        "z0": leaf(0),
        "c": torch.complex(
            leaf(3, 4).detach(), leaf(4, 3).detach().t().contiguous()
        ).requires_grad_(),
    }
    space["xt"] = space["x"].transpose(0, 1)
    return space


def outcome(torch, functional, kind, source):
    """What a case does, as JSON-able data."""
    space = inputs(torch, functional)
    leaves = {k: t for k, t in space.items() if isinstance(t, torch.Tensor) and t.is_leaf}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if kind == "program":
                exec(source, space)
                value = space["out"]
            else:
                value = eval(source, space)
            if kind in ("error", "fact"):
                return {"value": plain(torch, value)}
            found = {"value": plain(torch, value, names=kind != "nameless")}
            found.update(derivatives(torch, value, leaves))
            return found
        except Exception as error:
            return {"error": [type(error).__name__, first_sentence(str(error))]}


def first_sentence(text):
    # methods count from self, functions do not
    text = re.sub(r" \(position \d\)", "", text.split("\n")[0])
    return text.split(". ")[0].rstrip(".")


def numbers(t):
    """Elements as plain numbers; complex ones as pairs."""
    if t.device.type == "meta":
        return "meta"
    values = t.detach().flatten().tolist()
    return [[z.real, z.imag] for z in values] if t.dtype.is_complex else values


def plain(torch, value, names=True):
    if isinstance(value, torch.Tensor):
        found = {
            "dtype": str(value.dtype),
            "shape": list(value.shape),
            "stride": list(value.stride()),
            "offset": value.storage_offset(),
            "values": numbers(value),
            "leaf": value.is_leaf,
            "grad": value.requires_grad,
        }
        if names:
            found["names"] = chain(value)
            found["view"] = value._is_view()
        return found
    if isinstance(value, torch.Size):
        return ["Size", *value]
    if isinstance(value, (tuple, list)):
        return [plain(torch, v, names) for v in value]
    return value if value is None or isinstance(value, (int, float, str)) else repr(value)


def chain(t):
    """Names of nodes along first edges."""
    found, node = [], t.grad_fn
    while node is not None and len(found) < 6:
        found.append(type(node).__name__)
        node = next((f for f, _ in node.next_functions if f is not None), None)
    return [n for n in found if not n.startswith("AccumulateGrad")]


def derivatives(torch, value, leaves):
    """Gradients of a cubic of the outputs, and of the square of those gradients."""
    outs = value if isinstance(value, (tuple, list)) else [value]
    outs = [o for o in outs if o.requires_grad and o.grad_fn is not None]
    if not outs:
        return {}
    total = 0
    for o in outs:
        if o.dtype.is_complex:
            o = torch.view_as_real(o * 1)  # PyTorch conjugates lazily; * 1 does it
        weights = torch.arange(1, o.numel() + 1, dtype=torch.float64).reshape(o.shape)
        total = total + (o * o * weights).sum()
    named = list(leaves)
    first = torch.autograd.grad(
        total, [leaves[n] for n in named], create_graph=True, allow_unused=True
    )
    found = {"first": {n: numbers(g) for n, g in zip(named, first) if g is not None}}
    squares = [
        (torch.view_as_real(g * 1) if g.dtype.is_complex else g)
        for g in first
        if g is not None and g.requires_grad
    ]
    if squares:
        again = sum((g * g).sum() for g in squares)
        second = torch.autograd.grad(again, [leaves[n] for n in named], allow_unused=True)
        found["second"] = {n: numbers(g) for n, g in zip(named, second) if g is not None}
    return found


def same(a, b, tolerance=1e-9):
    """Equal, numbers up to a tolerance."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, (int, float)):
        return a == b or abs(a - b) <= tolerance * max(1, abs(a))
    return a == b


def rounded(value):
    """Numbers cut to what a comparison looks at, for a smaller file."""
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return float(f"{value:.11g}") if isinstance(value, float) else value


@st.composite
def arrays(draw):
    """An array with odd strides: permuted, sliced, expanded."""
    shape = draw(st.lists(st.integers(1, 4), max_size=4))
    a = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    if a.ndim:
        a = a.transpose(draw(st.permutations(range(a.ndim))))
        cut = [
            draw(st.sampled_from([slice(None), slice(None, None, 2), slice(1, None)]))
            for _ in a.shape
        ]
        a = a[tuple(cut)]
        if draw(st.booleans()):
            a = np.broadcast_to(a[..., None, :], (*a.shape[:-1], 2, a.shape[-1]))
    return a


def tensor_of(a):
    """A tensor with the elements, strides and offset of an array."""
    import flambeau as torch

    base = a
    while base.base is not None:
        base = base.base
    flat = torch.tensor(base.reshape(-1).tolist())
    offset = (a.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // a.itemsize
    return flat.as_strided(
        a.shape, tuple(s // a.itemsize for s in a.strides), offset if a.size else 0
    )


class functional:  # noqa: N801 (a module to those who use it)
    """What flambeau.nn.functional offers of this family."""

    @staticmethod
    def pad(*args, **kwargs):
        from flambeau.ops.table import public

        return public("pad")(*args, **kwargs)
