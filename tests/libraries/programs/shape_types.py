"""jaxtyping with beartype and typeguard: shapes checked in annotations."""

import torch
from beartype import beartype
from jaxtyping import Bool, Float, Int, jaxtyped
from showing import show


@jaxtyped(typechecker=beartype)
def product(
    a: Float[torch.Tensor, "n k"], b: Float[torch.Tensor, "k m"]
) -> Float[torch.Tensor, "n m"]:
    return a @ b


torch.manual_seed(0)
show("product", product(torch.randn(2, 3), torch.randn(3, 4)))
for a, b in (
    (torch.randn(2, 3), torch.randn(2, 4)),
    (torch.ones(2, 3, dtype=torch.int64), torch.randn(3, 4)),
    (torch.randn(3), 5),
):
    try:
        product(a, b)
        show("accepted", 1)
    except Exception as error:
        show("refused", type(error).__name__)
show(
    "isinstance",
    isinstance(torch.zeros(3, 3), Float[torch.Tensor, "d d"]),
    isinstance(torch.zeros(3, 2), Float[torch.Tensor, "d d"]),
    isinstance(torch.zeros(3, dtype=torch.int32), Int[torch.Tensor, "..."]),
    isinstance(torch.ones(2).bool(), Bool[torch.Tensor, "2"]),
    isinstance(torch.zeros(1, dtype=torch.bfloat16), Float[torch.Tensor, "#n"]),
)
