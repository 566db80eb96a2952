"""Random programs on tensors: pointwise chains, views, writes, reductions, products, draws.

    python -m tests.compile.random_programs FIRST COUNT

runs so many of them op by op and compiled, and compares all bits. A program is a list of lines.
"""

import random
import sys

import flambeau as torch
from flambeau.compiler.program import Program

SHAPES = [(6, 8), (6, 8), (6, 8), (8,), (6, 1), (), (1, 8), (64, 33)]
UNARY = "sin exp tanh sigmoid relu neg abs square rsqrt log1p erf sign floor".split()
BINARY = "add sub mul div maximum minimum atan2 where lt".split()
FUNCTIONS = ["gelu", "silu", "softplus", "leaky_relu", "hardtanh", "elu"]
JOINING = 100_000  # seeds from which on kernels that take others in come often
HOSTS = [
    "{a}.sum(0)",
    "{a}.abs().amax(-1) if {a}.dim() else {a}",
    "({a} * {b}).mean()",
    "{a}.float().softmax(0)",
    "F.log_softmax({a}.float(), -1) if {a}.dim() else {a}.abs()",
    "F.rms_norm({a}.float(), {a}.shape[-1:]) if {a}.dim() else {a} / 3",
    "F.layer_norm({a}.double(), {a}.shape[-1:]) if {a}.dim() else {a} / 3",
    "F.layer_norm({a}.to(torch.bfloat16), {a}.shape[-1:]) if {a}.dim() else {a} / 3",
    "F.group_norm({a}.float().reshape(1, 2, -1), 2).view({a}.shape) if {a}.numel() % 2 == 0 and "
    "{a}.numel() > 4 else {a} + 0",
    "F.batch_norm({a}.float().reshape(2, 2, -1), None, None, training=True).view({a}.shape) "
    "if {a}.numel() % 4 == 0 and {a}.numel() > 8 else {a} + 0",
    "F.conv1d({a}.float().reshape(1, 2, -1), torch.ones(3, 2, 3), padding=1)[0, :2].reshape("
    "{a}.shape) if {a}.numel() % 2 == 0 and {a}.numel() > 8 else {a} + 0",
    "F.max_pool1d({a}.float().reshape(1, 1, -1), 2)[0, 0].sum() + {a} if {a}.numel() > 4 else {a}",
    "({a}.float() @ torch.ones({a}.shape[-1], 5)) if {a}.dim() else {a} * 3",
]
DTYPES = ["float64", "bfloat16", "float16", "int32", "bool", "float32"]


def program(seed):
    """(lines of a function body, inputs as (shape, dtype, wants a gradient), may it want some)."""
    rng = random.Random(seed)
    shape = rng.choice(SHAPES)
    wide = rng.random() < 0.15
    inputs = []
    for _ in range(rng.randint(1, 4)):
        kind = rng.choice(["float32"] * 6 + ["float64", "bfloat16"]) if not wide else "float32"
        inputs.append((rng.choice([shape, shape, shape, shape[-1:], ()]), kind))
    names = [f"x{k}" for k in range(len(inputs))]
    fresh: list = []  # names of tensors that may be written to
    lines = []
    for k in range(rng.randint(2, 14)):
        name, pick = f"t{k}", lambda: rng.choice((names + fresh)[-6:])
        if seed >= JOINING and rng.random() < 0.4:
            line = f"{name} = " + rng.choice(HOSTS).format(a=pick(), b=pick())
            if fresh and rng.random() < 0.2:
                line = f"{(t := rng.choice(fresh))}.copy_({pick()}.sum() + {t}.detach() * 0)"
            lines.append(line)
        else:
            lines.append(_line(rng, name, pick, fresh, k))
        if lines[-1].startswith(name):
            fresh.append(name)
    results = sorted({fresh[-1] if fresh else names[0], *rng.sample(fresh, min(len(fresh), 2))})
    lines.append(f"return ({', '.join(results)},)")
    return lines, inputs


def _line(rng, name, pick, fresh, k):
    choice = rng.random()
    if choice < 0.3:
        return f"{name} = torch.{rng.choice(UNARY)}({pick()})"
    if choice < 0.55:
        word, a, b = rng.choice(BINARY), pick(), pick()
        if word == "where":
            return f"{name} = torch.where({pick()} > 0.1, {a}, {b})"
        if rng.random() < 0.3:
            b = rng.choice(["2", "0.5", "-1.25"])
            word = rng.choice(["add", "mul", "sub"])
        return f"{name} = torch.{word}({a}, {b})"
    if choice < 0.62:
        return f"{name} = F.{rng.choice(FUNCTIONS)}({pick()})"
    if choice < 0.72 and fresh:
        target = rng.choice(fresh)
        return rng.choice(
            [
                f"{target}.add_(1.5)",
                f"{target}.mul_({pick()}.mean())",
                f"{target}[..., :1] = 0",
                f"{target}.copy_({target} * 0.5)",
                f"{target}.relu_()",
            ]
        )
    a = pick()
    return rng.choice(
        [
            f"{name} = {a}.sum()",
            f"{name} = {a}.float().mean(-1, keepdim=True) if {a}.dim() else {a} + 0",
            f"{name} = {a}.float().softmax(-1) if {a}.dim() else {a} * 1",
            f"{name} = {a}.to(torch.{rng.choice(DTYPES)})",
            f"{name} = {a}.mT.contiguous().mT if {a}.dim() > 1 else {a}.clone()",
            f"{name} = {a}[..., ::2].repeat_interleave(2, -1)[..., :{a}.shape[-1]] "
            f"if {a}.dim() else {a} + 1",
            f"{name} = F.dropout({a}.float(), 0.5)",
            f"{name} = torch.rand_like({a}.float())",
            f"{name} = torch.cat([{a}, {a}], -1)[..., :{a}.shape[-1]] if {a}.dim() else {a} - 1",
            f"{name} = {a}.float() @ torch.ones_like({a}).float().mT if {a}.dim() > 1 else {a} * 3",
            f"{name} = F.layer_norm({a}.float(), {a}.shape[-1:]) if {a}.dim() else {a} / 3",
            f"{name} = {a}.flip(0) if {a}.dim() else -{a}",
            f"{name} = {a}.detach() * 2",
            f"{name} = {a}.expand(2, *{a}.shape)[1]",
        ]
    )


def compiled_of(lines, count):
    """The function of a program."""
    text = f"def f({', '.join(f'x{k}' for k in range(count))}):\n"
    text += "".join(f"    {line}\n" for line in lines)
    space = {"torch": torch, "F": torch.nn.functional}
    exec(text, space)
    return space["f"]


def made(inputs, seed, wants):
    torch.manual_seed(seed)
    found = []
    for shape, kind in inputs:
        x = torch.randn(shape).to(getattr(torch, kind))
        found.append(x.requires_grad_() if wants else x)
    return found


def outcome(function, xs, wants, seed):
    """Results, gradients and what is left in the arguments; or the type of the error."""
    torch.manual_seed(seed + 1)
    try:
        outs = function(*xs)
        found = [o.detach().clone() for o in outs]
        roots = [o for o in outs if o.requires_grad]
        if wants and roots:
            total = sum((o.double() * 0.5).sum() for o in roots)
            found += list(torch.autograd.grad(total, xs, allow_unused=True))
    except Exception as error:
        return type(error).__name__, str(error)
    return found + [x.detach().clone() for x in xs] + [torch.rand(1)]


def same(a, b):
    if type(a) is tuple or type(b) is tuple:
        return a == b
    for left, right in zip(a, b, strict=True):
        if left is None or right is None:
            if left is not right and bool((left if right is None else right).any()):
                return False
        elif (
            left.dtype != right.dtype
            or not torch.equal(left.nan_to_num(), right.nan_to_num())
            or not torch.equal(left != left, right != right)
        ):
            return False
    return True


def check(seed):
    """(None or what differs, was it on tape?)"""
    lines, inputs = program(seed)
    f = compiled_of(lines, len(inputs))
    taped = False
    for wants in (False, True):
        compiled = Program(f, len(inputs))
        for turn in range(4):
            ours = outcome(compiled, made(inputs, seed + turn, wants), wants, seed + turn)
            plain = outcome(f, made(inputs, seed + turn, wants), wants, seed + turn)
            if not same(plain, ours):
                return f"seed {seed}, call {turn}, wants {wants}:\n" + "\n".join(lines), taped
        taped = taped or not compiled.reasons
    return None, taped


def main(first, count):
    taped = bad = 0
    for seed in range(first, first + count):
        wrong, on_tape = check(seed)
        taped += on_tape
        if wrong:
            bad += 1
            print(wrong, flush=True)
    print(f"{count} programs, {taped} on tape, {bad} differ")
    return bad


if __name__ == "__main__":
    sys.exit(bool(main(int(sys.argv[1]), int(sys.argv[2]))))
