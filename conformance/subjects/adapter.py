"""The protocol between the suite and an implementation under test."""

import contextlib
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, ClassVar

from torch import Tensor, nn

from ..verdicts import Unsupported
from .call import Call

Exported = Mapping[str, Any]


class Adapter:
    """What the suite must know of one hand-built component; three to seven lines as a rule.

    Attributes:
        component: which component of torch.nn it is the counterpart of (a key of `COMPONENTS`).
        reference: the torch constructor options that it is to be compared with where they are not torch's
            defaults, for example ``{"norm_first": True, "activation": "gelu"}``; a set of values if it takes
            several. Sizes are free. Batch comes first, in and out.
        fixed: fields of a case that can only have one value, for example ``{"tgt_mask": "causal"}`` where the causal
            mask is built in; a set of values if there are several (the kinds of masks stand in `cases/masks.py`).
        unsupported: what it does not do, as fields of a case ("memory_mask") or values ("src_mask=float").
        dead_rows: what the attention of a query that sees no key becomes: "zero", "uniform" or "nan".
        padded_rows: what the output at padded positions is: "computed" like any other, or "zero".
        gradients: whether it can be trained. Where not, it is only called in eval mode with no gradient recorded, and
            clauses about gradients, training and dropout are counted as not supported.
    """

    component: ClassVar[str] = "encoder_layer"
    reference: ClassVar[Mapping[str, Any]] = {}
    fixed: ClassVar[Mapping[str, Any]] = {}
    unsupported: ClassVar[tuple[str, ...]] = ()
    dead_rows: ClassVar[str] = "zero"
    padded_rows: ClassVar[str] = "computed"
    gradients: ClassVar[bool] = True

    def build(self, config: SimpleNamespace) -> nn.Module:
        """One module without dropout.

        Args:
            config: torch's constructor options as attributes (`config.d_model`, `config.nhead`,
                `config.dim_feedforward`, `config.num_layers`, …).
        """
        raise NotImplementedError(f"{type(self).__name__}.build")

    def forward(self, module: nn.Module, call: Call) -> Tensor | tuple[Tensor, Tensor | None]:
        """Call the module and return its output, batch first.

        Args:
            module: as `build` made it.
            call: tensors (`call.x`, `call.memory`) and masks (`call.mask`, `call.memory_mask`).
        """
        raise NotImplementedError(f"{type(self).__name__}.forward")

    @contextlib.contextmanager
    def split(self, rows: int, scores: int) -> Iterator[None]:
        """Inside, an attention that works in blocks makes them of so many rows, and so many scores, at most.

        Raises:
            Unsupported: it does not work in blocks.
        """
        del rows, scores
        raise Unsupported("work in blocks of a chosen size")
        yield

    def export(self, module: nn.Module) -> Exported | None:
        """The parameters by role, or None where names and shapes are torch's own.

        Roles are q, k, v, o, linear1, linear2, norm1, norm2 (a decoder layer adds cross_q … cross_o and norm3),
        each a module with `weight` and `bias`, or a pair of tensors in torch's layout; in a stack they stand below
        "layers.0.", "layers.1.", …, and "norm". Or torch's full parameter names, each with its tensor.
        The values may be any affine function of the parameters: the same function maps the gradients.
        """
        del module
        return None
