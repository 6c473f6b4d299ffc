"""The encoder-decoder whose two halves read the same ids."""

from torch import Tensor
from torch.nn import Module, ModuleList

from . import checks
from .dropout import Dropout
from .embedding import Embedding
from .language_model import predict
from .linear import Linear
from .normalization import LayerNorm
from .positions import PositionalEncoding
from .text_layers import DecoderLayer, EncoderLayer, ModelArgs


class Encoder(Module):
    """Encoder layers in turn, and a final norm, without which the residual stream of Pre-Norm would stay as it is.

    Counterpart: `torch.nn.TransformerEncoder` with a `norm`.
    """

    def __init__(self, args: ModelArgs) -> None:
        super().__init__()
        self.layers = ModuleList([EncoderLayer(args) for _ in range(args.n_layer)])
        self.norm = LayerNorm(args.n_embd)

    def forward(self, x: Tensor) -> Tensor:
        """(B, n, n_embd) → the same shape."""
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Decoder(Module):
    """Decoder layers in turn, all looking at the same encoder's output, and a final norm.

    Counterpart: `torch.nn.TransformerDecoder` with a `norm`.
    """

    def __init__(self, args: ModelArgs) -> None:
        super().__init__()
        self.layers = ModuleList([DecoderLayer(args) for _ in range(args.n_layer)])
        self.norm = LayerNorm(args.n_embd)

    def forward(self, x: Tensor, enc_out: Tensor) -> Tensor:
        """The target (B, m, n_embd) and the encoder's output (B, n, n_embd) → (B, m, n_embd)."""
        for layer in self.layers:
            x = layer(x, enc_out)
        return self.norm(x)


class TextModel(Module):
    r"""Logits from ids that feed both halves: :math:`W\,\mathrm{decoder}(x, \mathrm{encoder}(x))`, :math:`x = \mathrm{drop}(E_t + P)`.

    The encoder sees the whole sequence and the decoder all of the encoder, so a later id changes the logits of
    earlier places, whatever the decoder's mask hides. Trained on `targets` that are the ids shifted by one, it can
    copy them; for text `LanguageModel` is the one to use.

    Args:
        args: sizes and dropout.

    Counterpart: `torch.nn.Embedding`, `torch.nn.Transformer` with `norm_first=True`, and `torch.nn.Linear`.
    """

    def __init__(self, args: ModelArgs) -> None:
        if not isinstance(args, ModelArgs):
            raise TypeError(f"args: expected ModelArgs, got {type(args).__name__}")
        super().__init__()
        self.args = args
        self.wte = Embedding(args.vocab_size, args.n_embd)
        self.wpe = PositionalEncoding(args.n_embd, args.block_size)
        self.drop = Dropout(args.dropout)
        self.encoder = Encoder(args)
        self.decoder = Decoder(args)
        self.lm_head = Linear(args.n_embd, args.vocab_size, bias=False)

    def forward(self, ids: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Score an id for each place.

        Args:
            ids: (B, n), 1 ≤ n ≤ block_size.
            targets: (B, n), the id wanted at each place; −100 where none counts; None for the last place only.

        Returns:
            With targets the logits (B, n, vocab_size) and the mean cross-entropy; without them the logits of the
            last place alone, (B, 1, vocab_size), and None.

        Raises:
            TypeError: ids that are neither int32 nor int64.
            ValueError: ids outside the vocabulary, an empty or too long sequence, targets of another shape.
        """
        checks.token_ids("ids", ids, self.args.vocab_size, self.wte.weight.device, self.args.block_size)
        x = self.drop(self.wpe(self.wte(ids)))
        return predict(self.decoder(x, self.encoder(x)), self.lm_head, targets)
