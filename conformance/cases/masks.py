"""Masks by kind: arrays that leave every query a visible key, unless the kind says otherwise.

Polarity: torch.nn's, True = hidden; a floating mask is added to the scores. The first and the last key stay visible
in a random mask, so that a mask and a padding together kill no row; the kinds that hide them stand without padding.
"""

import numpy as np

ATTENTION_KINDS = ("none", "bool", "float", "causal", "float_causal", "bool3d", "float3d")
PADDING_KINDS = ("none", "right", "left", "holes", "float")
CAUSAL_KINDS = ("causal", "float_causal")
# Those that hide the first and the last key from some queries.
EDGE_KINDS = ("window", "shuffled", "float_shuffled")
# Large finite numbers, each one that some implementation takes for −∞. The last absorbs every score, even in float64.
LARGE = (-1e5, -1e9, float(np.finfo(np.float32).min))


def attention_mask(kind: str, queries: int, keys: int, groups: int, rng: np.random.Generator) -> np.ndarray:
    """The attention mask of a kind.

    Args:
        kind: "bool" and "float" are (queries, keys); "bool3d" and "float3d" (groups, queries, keys);
            "causal" and "float_causal" hide later keys; "dead" and "float_dead" hide every key of the query
            before last, "dead_group" every key of the first group; "nothing" hides no key;
            "blocks" and "float_blocks" hide the last two fifths of the keys from even queries and the first two fifths
            from odd ones, by −∞ where floating; "window" leaves each query the key at its place and the one before;
            "shuffled" and "float_shuffled" leave each query at least one key, whichever; a float mask is finite but for
            one key in three queries, which is −∞; "float_large" has large finite numbers instead, and one of them for
            all keys of the query before last, which sees them all alike.
        queries: number of queries.
        keys: number of keys.
        groups: batch · heads.
        rng: random stream.
    """
    name, dimensions = (kind[:-2], 3) if kind.endswith("3d") else (kind, 2)
    shape = (groups, queries, keys) if dimensions == 3 else (queries, keys)
    if name in CAUSAL_KINDS:
        hidden = np.triu(np.ones((queries, keys), dtype=bool), 1)
    elif name == "window":
        before = _places(queries, keys)[:, None] - np.arange(keys)
        hidden = np.broadcast_to((before < 0) | (before > 1), shape).copy()
    elif name in ("blocks", "float_blocks"):
        fifths = np.arange(keys) * 5 // keys
        odd = np.arange(queries)[:, None] % 2 == 1
        hidden = np.broadcast_to(np.where(odd, fifths < 2, fifths > 2), shape).copy()
    elif name in ("nothing", "dead_group"):
        hidden = np.zeros(shape, dtype=bool)
        hidden[: 1 if name == "dead_group" else 0] = True
    elif name in EDGE_KINDS:
        hidden = rng.random(shape) < 0.6
        np.put_along_axis(hidden, rng.integers(keys, size=(*shape[:-1], 1)), False, -1)
    else:
        hidden = rng.random(shape) < 0.4
        hidden[..., [0, -1]] = False
    if name in ("dead", "float_dead"):
        hidden[..., -2 if queries > 1 else 0, :] = True
    if name in ("bool", "causal", "dead", "dead_group", "nothing", "window", "shuffled", "blocks"):
        return hidden
    bias = np.zeros(shape) if name == "float_causal" else rng.normal(size=shape)
    if name == "float_large":
        bias[hidden] = rng.choice(LARGE, size=int(hidden.sum()))
        bias[..., -2 if queries > 1 else 0, :] = LARGE[-1]
        return bias
    if name == "float":
        hidden[..., ::2, :] = False
    return np.where(hidden, -np.inf, bias)


def _places(queries: int, keys: int) -> np.ndarray:
    """(queries,): each query's place among the keys, its own where there are as many."""
    return np.linspace(0, keys - 1, queries).round()


def padding_mask(kind: str, batch: int, keys: int, rng: np.random.Generator) -> np.ndarray:
    """The key padding mask of a kind, (batch, keys), ragged: each sequence has its own.

    Args:
        kind: "right", "left" or "holes" by place, "half" the right half and more; "float" adds finite
            numbers and hides the right end by −∞;
            "all" pads the whole first sequence, "float_all" by −∞, with finite numbers for the others; "nothing"
            pads no key.
        batch: number of sequences.
        keys: number of keys.
        rng: random stream.
    """
    hidden = np.zeros((batch, keys), dtype=bool)
    for item in range(batch):
        count = min(1 + item % 3, keys - 1)
        if kind == "left":
            hidden[item, :count] = True
        elif kind == "holes":
            hidden[item, 1 + rng.permutation(max(keys - 2, 0))[:count]] = True
        elif kind in ("right", "float"):
            hidden[item, keys - count :] = True
        elif kind == "half":
            hidden[item, (keys - item) // 2 :] = True
    if kind in ("all", "float_all"):
        hidden[0] = True
    if not kind.startswith("float"):
        return hidden
    return np.where(hidden, -np.inf, rng.normal(size=hidden.shape))
