"""EMBED: the vectors of tokens."""

from typing import Any

import numpy as np
import torch

from .arguments import array
from .bad_calls import BadCall, change
from .cases.case import Case
from .cases.select import each
from .clauses import DOCS, MEASURED, MUST, PAPER, clause
from .modules import reference
from .test_error import require_refused_calls, require_refused_options
from .test_init import require_equal, seeded
from .trial import Trial

DTYPES = ("float64", "float32", "bfloat16", "float16")
PADDED = [Case("embedding", padding_idx=row, target=40) for row in (0, 2, -1)]


@clause("EMBED-01", MUST, DOCS, [
    *(Case("embedding", dtype=dtype) for dtype in DTYPES),
    *PADDED, Case("embedding", vocabulary=1), Case("embedding", vocabulary=50, batch=3, target=33, mode="eval"),
])  # fmt: skip
def test_lookup(trial: Trial) -> None:
    """An embedding gives the table's row of each token; a row's gradient is the sum over all places of its token."""
    trial.compare_all()


@clause("EMBED-02", MUST, f"{PAPER}, section 3.4", [
    *(Case("token_embedding", dtype=dtype) for dtype in DTYPES),
    Case("token_embedding", heads=3, head_dim=5, target=40), Case("token_embedding", heads=1, head_dim=1),
])  # fmt: skip
def test_scaled(trial: Trial) -> None:
    """A token embedding is the table's row times the root of its width."""
    trial.compare_all()


@clause("EMBED-03", MUST, DOCS, PADDED)
def test_padding(trial: Trial) -> None:
    """The row of padding_idx is read like any other and receives no gradient; it starts at 0."""
    trial.require_gradients()
    module = trial.torch_module()
    row = trial.case.padding_idx or 0
    ids = torch.arange(trial.case.vocabulary)
    module(ids).sum().backward()
    gradient, weight = array(module.weight.grad), array(module.weight)
    trial.require(not gradient[row].any(), f"expected no gradient in row {row}, got {gradient[row]}")
    rest = np.delete(gradient, row, axis=0)
    trial.require(bool((rest == 1).all()), "expected gradient 1 in every other row")
    trial.require_same("vector of the padding", array(module(ids))[row], weight[row])
    start: Any = trial.construct()
    trial.require(not array(start.weight)[row].any(), f"expected row {row} to start at 0")


@clause("EMBED-04", MUST, DOCS, each("embedding", "token_embedding"))
def test_any_shape(trial: Trial) -> None:
    """Tokens of any number of dimensions, int32 or int64, give equal vectors wherever they are equal."""
    module = trial.torch_module()
    with torch.no_grad():
        table = array(module(torch.arange(trial.case.vocabulary)))
        for shape in ((), (0,), (4,), (2, 3, 2)):
            ids = torch.from_numpy(trial.case.rng(f"ids {shape}").integers(trial.case.vocabulary, size=shape))
            for kind in (torch.int64, torch.int32):
                trial.require_same(f"vectors of shape {shape}", array(module(ids.to(kind))), table[ids.numpy()])


@clause(
    "EMBED-05",
    MUST,
    MEASURED,
    [Case("embedding", dtype=dtype, padding_idx=row) for dtype in DTYPES[:3] for row in (None, 2)],
)
def test_start(trial: Trial) -> None:
    """Under the same seed the table starts as torch's, bit for bit, and torch's state loads into it and back."""
    mine, theirs = seeded(trial.construct)[0], seeded(lambda: reference(trial.case))[0]
    require_equal(trial, mine, theirs)
    theirs.load_state_dict(mine.state_dict(), strict=True)
    mine.load_state_dict(theirs.state_dict(), strict=True)


@clause("EMBED-06", MUST, DOCS, each("embedding", "token_embedding"))
def test_bad_tokens(trial: Trial) -> None:
    """Tokens below 0 or beyond the table are refused, and tokens that are no integers."""
    require_refused_calls(
        trial,
        lambda case, given: [
            BadCall(what, (name, "input"), {name: value})
            for name, ids in given.items()
            for what, value in (
                ("a token beyond the table", torch.full_like(ids, case.vocabulary)),
                ("one such token among good ones", ids.clone().index_fill_(-1, torch.tensor([1]), case.vocabulary)),
                ("a negative token", torch.full_like(ids, -1)),
                ("floating tokens", ids.double()),
                ("booleans", ids > 0),
                ("a list", ids.tolist()),
                ("no tokens at all", None),
            )
        ],
    )


@clause("EMBED-07", MUST, DOCS, each("embedding"))
def test_bad_options(trial: Trial) -> None:
    """A negative size is refused, and a padding_idx outside the table."""
    bad = [change("num_embeddings", -1), change("embedding_dim", -1), change("padding_idx", trial.case.vocabulary)]
    require_refused_options(trial, lambda _: [*bad, change("padding_idx", -trial.case.vocabulary - 1)])
