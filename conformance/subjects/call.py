"""One call, in torch's terms and in those of the many conventions outside."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..cases.component import Attention
from ..cases.components import COMPONENTS, length
from ..inputs import Inputs, batch_size, visible
from ..verdicts import Unsupported

AXES = {"b": "the batch", "h": "the heads", "q": "the queries", "s": "the keys"}


class Call:
    """The arguments of one call.

    Attributes:
        inputs: the numbers it is made from.
        arguments: torch's forward arguments by name, tensors in the case's layout, masks in torch's polarity.
        converted: the masks that were given in another form, and so get no gradient.
    """

    def __init__(self, inputs: Inputs, arguments: Mapping[str, Any]) -> None:
        self.inputs = inputs
        self.arguments = arguments
        self.converted: set[str] = set()

    @property
    def x(self) -> Tensor:
        """The tensor whose positions the output has: the target in a decoder, else the only sequence."""
        return self.arguments[COMPONENTS[self.inputs.case.component].rows]

    @property
    def src(self) -> Tensor:
        """What the encoder reads."""
        return self.arguments["src"]

    @property
    def tgt(self) -> Tensor:
        """What the decoder reads."""
        return self.arguments["tgt"]

    @property
    def memory(self) -> Tensor:
        """What a cross-attention looks at."""
        return self.arguments["memory"] if "memory" in self.arguments else self.arguments["key"]

    @property
    def mask(self) -> "Mask":
        """The mask of x's attention to itself, or of the only attention there is."""
        rows = COMPONENTS[self.inputs.case.component].rows
        return self._mask(lambda attention: attention.query == rows and attention.key != "memory")

    @property
    def memory_mask(self) -> "Mask":
        """The mask of the attention to the memory."""
        return self._mask(lambda attention: attention.key == "memory")

    @property
    def src_mask(self) -> "Mask":
        """The mask of the encoder's attention."""
        return self._mask(lambda attention: attention.key == "src")

    def _mask(self, wanted: Any) -> "Mask":
        for attention in COMPONENTS[self.inputs.case.component].attentions:
            if wanted(attention):
                return Mask(self.inputs, attention, self)
        raise AttributeError(f"a {self.inputs.case.component} has no such mask")


class Mask:
    """The attention mask and the padding mask of one attention together, in whatever form the callee wants.

    The forms return None where nothing is masked, unless `required`.
    """

    def __init__(self, inputs: Inputs, attention: Attention, call: Call) -> None:
        self.inputs = inputs
        self.attention = attention
        self.call = call

    @property
    def attn_mask(self) -> Tensor | None:
        """The attention mask as torch's callee takes it: True = hidden (in the attention function True = keep), or added."""
        return self.call.arguments.get(self.attention.mask_argument)

    @property
    def key_padding_mask(self) -> Tensor | None:
        """torch.nn's padding mask, (batch, keys), True = hidden or added."""
        return self.call.arguments.get(self.attention.padding or "")

    def keep(self, axes: str = "bqs", required: bool = False) -> Tensor | None:
        """Boolean, True = keep.

        Args:
            axes: the order of the axes, of b (batch), h (heads), q (queries), s (keys) and 1: "bqs", "b1qs", "qsb", "bs".
            required: a mask of ones where there is none.

        Raises:
            Unsupported: the mask is finite and floating, or differs along an axis that `axes` does not have.
        """
        if self._convert() and not required:
            return None
        for mask in (self.attn_mask, self.key_padding_mask):
            if mask is not None and mask.dtype != torch.bool and bool(((mask != 0) & (mask != -torch.inf)).any()):
                raise Unsupported("a finite floating mask")
        seen = self._arrange(self._visible(), axes)
        return torch.from_numpy(np.ascontiguousarray(seen)).to(self.call.x.device)

    def drop(self, axes: str = "bqs", required: bool = False) -> Tensor | None:
        """Boolean, True = hidden; see `keep`."""
        kept = self.keep(axes, required)
        return None if kept is None else ~kept

    def additive(self, axes: str = "bqs", fill: float = -torch.inf, required: bool = False) -> Tensor | None:
        """Floating, to be added to the scores, `fill` where hidden; see `keep`."""
        if self._convert() and not required:
            return None
        case = self.inputs.case
        total = np.where(self._visible(), 0.0, fill)
        for name, per_key in ((self.attention.mask_argument, False), (self.attention.padding or "", True)):
            mask = self.inputs.masks.get(name)
            if mask is not None and mask.dtype != bool:
                finite = np.where(mask == -np.inf, 0.0, mask)
                if per_key:
                    finite = finite[:, None, None, :]
                elif finite.ndim == 3 and case.component != "attention":
                    finite = finite.reshape(batch_size(case), case.heads, *finite.shape[1:])
                total = total + finite
        x = self.call.x
        return torch.from_numpy(np.ascontiguousarray(self._arrange(total, axes))).to(x.device, x.dtype)

    def lengths(self) -> Tensor:
        """(batch,), how many keys from the first on are visible.

        Raises:
            Unsupported: there is an attention mask, or the padding is not at the right end.
        """
        case = self.inputs.case
        keys = length(case, self.attention.key)
        self._convert()
        if self.attn_mask is not None:
            raise Unsupported("an attention mask, where only lengths are taken")
        seen = self._visible()[:, 0, 0]
        counts = seen.sum(-1)
        if (seen != (np.arange(keys) < counts[:, None])).any():
            raise Unsupported("a padding that is not at the right end")
        return torch.from_numpy(counts).to(self.call.x.device)

    def _convert(self) -> bool:
        """Note that the masks are given in another form; whether there are none."""
        names = {name for name in (self.attention.mask_argument, self.attention.padding) if name in self.inputs.masks}
        self.call.converted |= {name for name in names if name}
        return not names and not self.inputs.case.is_causal

    def _visible(self) -> np.ndarray:
        """(batch, heads, queries, keys), True = seen; what `is_causal` hides included.

        Raises:
            Unsupported: the attention function is called with another number of dimensions.
        """
        seen = visible(self.inputs, self.attention)
        if seen.ndim != len("bhqs"):
            raise Unsupported("a mask for tensors of other than four dimensions")
        return seen

    def _arrange(self, values: np.ndarray, axes: str) -> np.ndarray:
        """(b, h, q, s) values with the axes in the wanted order; an axis that is not wanted must not matter."""
        for axis, letter in enumerate("bhqs"):
            if letter not in axes:
                first = values.take([0], axis)
                if (values != first).any():
                    raise Unsupported(f"a mask of its own along {AXES[letter]}")
                values = first
        kept = [letter for letter in axes if letter != "1"]
        values = values.transpose(["bhqs".index(x) for x in kept] + ["bhqs".index(x) for x in "bhqs" if x not in kept])
        sizes = iter(values.shape)
        return values.reshape([1 if letter == "1" else next(sizes) for letter in axes])
