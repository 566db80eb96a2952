"""roma and pypose: rotations, Lie groups, optimisation on them."""

import pypose as pp
import roma
import torch
from showing import show

torch.manual_seed(0)
vector = torch.randn(5, 3, requires_grad=True)
matrix = roma.rotvec_to_rotmat(vector)
quaternion = roma.rotvec_to_unitquat(vector)
show("rotations", matrix, quaternion, roma.unitquat_to_rotmat(quaternion) - matrix)
target = roma.rotvec_to_rotmat(vector.detach() + 0.5 * torch.randn(5, 3))
loss = roma.rotmat_geodesic_distance(matrix, target).square().sum()
loss.backward()
show("geodesic", loss, vector.grad)
raw = torch.randn(4, 3, 3, requires_grad=True)
special = roma.special_procrustes(raw)
special.square().mul(torch.arange(3.0)).sum().backward()
show("procrustes", special, raw.grad)
show("six", roma.special_gramschmidt(torch.randn(4, 3, 2)))
show("euler", roma.euler_to_rotmat("xyz", [0.1, 0.2, 0.3]), roma.rotmat_to_euler("zyx", target))
show("slerp", roma.unitquat_slerp(quaternion[0], quaternion[1], torch.tensor([0.0, 0.3, 1.0])))
move = roma.RigidUnitQuat(quaternion.detach(), torch.randn(5, 3))
show("rigid", move.compose(move.inverse()).to_homogeneous(), move.apply(torch.randn(5, 3)))

torch.manual_seed(1)
turn = pp.randn_SO3(3, requires_grad=True)
point = torch.randn(3, 3)
moved = turn.Act(point)
moved.square().mul(torch.tensor([1.0, 2, 3])).sum().backward()
show("so3", turn.tensor(), moved, turn.grad)
pose = pp.randn_se3(2, requires_grad=True)
(pose.Exp() @ point[:2]).sin().sum().backward()
show("se3", pose.Exp().tensor(), pose.grad, pose.Exp().Inv().Log().tensor(), pose.Exp().matrix())
show("products", (pp.randn_SE3(4) @ pp.randn_SE3(4)).tensor(), pp.randn_Sim3(2).Log().tensor())
show("cumulative", pp.cumprod(pp.randn_SO3(5), dim=0).tensor())
show("quaternions", pp.mat2SO3(target).tensor(), pp.euler2SO3(torch.randn(2, 3)).tensor())


class Inverse(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.pose = pp.Parameter(pp.randn_SE3(2))

    def forward(self, given):
        return (self.pose @ given).Log().tensor()


torch.manual_seed(2)
net, given = Inverse(), pp.randn_SE3(2)
optimizer = pp.optim.LM(net, strategy=pp.optim.strategy.Constant(damping=1e-4))
show("levenberg", [optimizer.step(given) for _ in range(4)])
