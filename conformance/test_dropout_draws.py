"""DROPOUT: which draws it makes. Those of an eager CPU are meant: a compiler, or a device, may draw otherwise."""

from types import SimpleNamespace

from reference.torch_modules import TORCH

from . import capabilities
from .arguments import array
from .cases.select import NORMED, each
from .clauses import MEASURED, SHOULD, clause
from .dropout_sites import P, check_equal_draws, seeded
from .observation import Observation, instantiate
from .subjects.adapter import Adapter
from .subjects.torch_interface import TorchInterface
from .trial import Trial
from .verdicts import Verdict

DRAWN = [
    case.but(batch_first=first, **more)
    for case in (
        *each("multihead_attention"),
        *each("multihead_attention", attends="self", average_attn_weights=False),
        *each("multihead_attention", need_weights=False, attn_mask="float3d", key_padding_mask="right"),
        *each("multihead_attention", need_weights=False, attends="self", add_bias_kv=True, add_zero_attn=True),
        *each(*NORMED),
        *each(*NORMED, src_mask="float", tgt_mask="causal", memory_mask="bool3d", src_key_padding_mask="right",
              tgt_key_padding_mask="right", memory_key_padding_mask="float"),
    )
    for first, more in ((True, {}), (False, {}), (True, {"batch": None}), (True, {"heads": 4, "activation": "gelu"}))
]  # fmt: skip


@clause("DROPOUT-18", SHOULD, MEASURED, DRAWN)
def test_same_draws(trial: Trial) -> None:
    """From equal seeds on a CPU dropout draws what torch's draws: outputs and returned weights are equal."""
    if torch_is_wrong(trial):
        return
    found, expected = _under_one_seed(trial)
    for number, value in enumerate(expected.outputs):
        if value is not None:
            trial.require_same(f"output {number}", found.outputs[number], value)


@clause("DROPOUT-19", SHOULD, MEASURED, DRAWN)
def test_gradients_of_same_draws(trial: Trial) -> None:
    """From equal seeds on a CPU all gradients are equal to torch's."""
    if torch_is_wrong(trial):
        return
    found, expected = _under_one_seed(trial)
    trial.require_same_gradients(found, expected)


@clause("DROPOUT-20", SHOULD, MEASURED, [
    case.but(**more)
    for case in (*each("attention"), *each("attention", attn_mask="bool"), *each("attention", attn_mask="float", mask_shape="BHLS"))
    for more in ({}, {"value_dim": 5}, {"dims": 3} if case.mask_shape == "LS" else {"source": 5}, {"scale": 0.3})
])  # fmt: skip
def test_same_draws_of_attention(trial: Trial) -> None:
    """From equal seeds on a CPU scaled_dot_product_attention drops the weights that torch's drops."""
    check_equal_draws(trial)
    capabilities.require(*capabilities.of_torch(trial.case))
    torch_module = TorchInterface("attention", TORCH).build(SimpleNamespace())
    for p in (0.2, P):
        seen = []
        for module in (trial.torch_module(), torch_module):
            with seeded(trial.case):
                seen.append(array(module(**trial.call_arguments(), dropout_p=p)))
        trial.require_same(f"output at dropout_p={p}", *seen)


def torch_is_wrong(trial: Trial) -> bool:
    """Whether torch's values are wrong without dropout already, so that they say nothing of its draws."""
    if not trial.subject.is_torch:
        trial.compare_output()
    return any(one.verdict is Verdict.TORCH_DIFFERS for one in trial.comparisons)


def _under_one_seed(trial: Trial) -> tuple[Observation, Observation]:
    """Subject and torch with equal parameters, each from the same seed."""
    check_equal_draws(trial)
    capabilities.require(*capabilities.of_torch(trial.case))
    adapters: tuple[Adapter, ...] = (trial.adapter, TorchInterface(trial.case.component, TORCH))
    seen = []
    for adapter in adapters:
        with seeded(trial.case):
            seen.append(instantiate(adapter, trial.case, dropout=P).observe(trial.inputs))
    return seen[0], seen[1]
