"""POSITION: what tells positions apart, sinusoidal codes that are added and rotary ones that turn."""

import numpy as np
import torch

from .arguments import array
from .bad_calls import BadCall, change
from .cases.case import Case
from .cases.select import each
from .clauses import MEASURED, MUST, PAPER, clause
from .test_error import require_refused_calls, require_refused_options
from .trial import Trial

SU = "Su et al. 2021"
DTYPES = ("float64", "float32", "bfloat16", "float16")
SINUSOIDAL = f"{PAPER}, section 3.5"
# The table holds 11 positions at first.
LONG = [Case("positional_encoding", target=25), Case("positional_encoding", target=3, first=30, max_len=1)]
TURNS = [Case("rotary", interleaved=pairs, first=first) for pairs in (True, False) for first in (0, 7)]


@clause("POSITION-01", MUST, SINUSOIDAL, [
    *(Case("positional_encoding", dtype=dtype) for dtype in DTYPES),
    Case("positional_encoding", head_dim=5), Case("positional_encoding", heads=1, head_dim=1),
    Case("positional_encoding", first=4), Case("positional_encoding", batch=None), *LONG,
    *(Case("positional_encoding", first=100_000, dtype=dtype) for dtype in DTYPES[:2]),
])  # fmt: skip
def test_codes(trial: Trial) -> None:
    """sin(p / 10000^(2i/d)) and cos of the same are added to features 2i and 2i + 1, for odd d as well."""
    trial.compare_all()


def codes(trial: Trial, length: int = 10) -> np.ndarray:
    """The codes of the first positions: what is added to nothing."""
    module = trial.torch_module()
    return array(module(torch.zeros(1, length, trial.case.d_model, dtype=torch.float64)))[0]


@clause("POSITION-02", MUST, SINUSOIDAL, [Case("positional_encoding"), Case("positional_encoding", head_dim=5)])
def test_first(trial: Trial) -> None:
    """The code of position 0 is 0, 1, 0, 1, …, and every code of an even width has the norm √(d/2)."""
    table = codes(trial)
    trial.require_same("code of position 0", table[0], np.arange(trial.case.d_model) % 2.0)
    if trial.case.d_model % 2 == 0:
        norms = np.linalg.norm(table, axis=-1)
        trial.require_same("norms", norms, np.full_like(norms, (trial.case.d_model / 2) ** 0.5))


@clause("POSITION-03", MUST, SINUSOIDAL, [Case("positional_encoding")])
def test_linear(trial: Trial) -> None:
    """The code of position p + k is one linear map of that of p, whatever p; so products depend on the distance."""
    table = codes(trial, 24)
    for distance in (1, 3):
        map_, *_ = np.linalg.lstsq(table[:-distance], table[distance:], rcond=None)
        trial.require_same(f"codes {distance} further", 1 + table[:-distance] @ map_, 1 + table[distance:])
        products = (table[:-distance] * table[distance:]).sum(-1)
        trial.require_same(f"products at distance {distance}", products, np.full_like(products, products[0]))


@clause("POSITION-04", MUST, MEASURED, LONG)
def test_beyond(trial: Trial) -> None:
    """A sequence longer than max_len gets the codes that a longer table has, and shorter ones keep theirs."""
    short, long = trial.torch_module(), trial.construct(max_len=200)
    for length in (4, 60, 4):
        x = torch.zeros(1, length, trial.case.d_model, dtype=torch.float64)
        trial.require_same(f"codes of {length}", array(short(x)), array(long(x)))


@clause("POSITION-05", MUST, MEASURED, each("positional_encoding", "rotary"))
def test_no_state(trial: Trial) -> None:
    """Position codes are nothing learnt: no parameter, and nothing in the state dict."""
    module = trial.torch_module()
    trial.require(not list(module.parameters()), "expected no parameter")
    trial.require(not module.state_dict(), f"expected an empty state dict, got {list(module.state_dict())}")


@clause("POSITION-06", MUST, MEASURED, [*each("positional_encoding"), *TURNS])
def test_pieces(trial: Trial) -> None:
    """A sequence that comes in pieces, each with its offset, gets the codes of the whole."""
    module, given = trial.torch_module(), trial.call_arguments()
    whole, x, first = module(**given), given["x"], given["offset"]
    pieces = [module(x[..., :2, :], offset=first), module(x[..., 2:, :], offset=first + 2)]
    trial.require_same("output", array(torch.cat(pieces, dim=-2)), array(whole))


@clause("POSITION-07", MUST, f"{SU}, section 3.2.2", [
    *(case.but(dtype=dtype) for case in TURNS for dtype in DTYPES), Case("rotary", base=100.0), Case("rotary", head_dim=2),
    Case("rotary", head_dim=16, target=64, interleaved=False), Case("rotary", first=100_000, dtype="float32"),
])  # fmt: skip
def test_rotary(trial: Trial) -> None:
    """Each pair of features turns by p / base^(2i/d), neighbours where interleaved, else one of each half."""
    trial.compare_all()


@clause("POSITION-08", MUST, f"{SU}, section 3.4.2", [*TURNS])
def test_norms_kept(trial: Trial) -> None:
    """Turning keeps every norm, and leaves position 0 as it is."""
    module, x = trial.torch_module(), trial.call_arguments()["x"]
    turned = module(x, offset=trial.case.first)
    trial.require_same("norms", array(turned.norm(dim=-1)), array(x.norm(dim=-1)))
    trial.require_same("position 0", array(module(x)[..., 0, :]), array(x[..., 0, :]))


@clause("POSITION-09", MUST, f"{SU}, equation 11", TURNS)
def test_distance(trial: Trial) -> None:
    """The product of a turned query and a turned key depends on their positions by the distance alone."""
    module, x = trial.torch_module(), trial.call_arguments()["x"]
    query, key = (x[:, :, place : place + 1].expand_as(x) for place in (0, 1))
    scores = array(module(query, offset=trial.case.first) @ module(key).transpose(-2, -1))
    trial.require_same("scores one place on", scores[..., 1:, 1:], scores[..., :-1, :-1])
    further = array(module(query, offset=trial.case.first + 50) @ module(key, offset=50).transpose(-2, -1))
    trial.require_same("scores fifty places on", further, scores)


@clause("POSITION-10", MUST, MEASURED, [case for case in TURNS if case.interleaved])
def test_pairings(trial: Trial) -> None:
    """The two pairings differ by a fixed permutation of the features: 0, d/2, 1, d/2 + 1, …."""
    module, given = trial.torch_module(), trial.call_arguments()
    halves, size = trial.construct(interleaved=False), trial.case.head_dim
    order = torch.arange(size).reshape(2, size // 2).t().flatten()
    apart = halves(given["x"][..., torch.argsort(order)], offset=given["offset"])
    trial.require_same("output", array(apart[..., order]), array(module(**given)))


@clause("POSITION-11", MUST, MEASURED, each("positional_encoding", "rotary"))
def test_bad_calls(trial: Trial) -> None:
    """Another number of features is refused, a negative offset, and what is no floating tensor."""
    require_refused_calls(
        trial,
        lambda _, given: [
            BadCall("fewer features", ("x",), {"x": given["x"][..., :-1]}),
            BadCall("integers", ("x",), {"x": given["x"].long()}),
            BadCall("a list", ("x",), {"x": given["x"].tolist()}),
            change("offset", -1),
            change("offset", 1.5),
        ],
    )


@clause("POSITION-12", MUST, MEASURED, each("positional_encoding", "rotary"))
def test_bad_options(trial: Trial) -> None:
    """An odd head_dim is refused, a base that is not positive, and sizes that are not."""
    bad = {
        "rotary": [change("head_dim", 3), change("head_dim", 0), change("head_dim", 2.0), change("base", 0.0)],
        "positional_encoding": [change("d_model", 0), change("d_model", 2.5), change("max_len", -1, "length")],
    }
    require_refused_options(trial, lambda case: bad[case.component])
