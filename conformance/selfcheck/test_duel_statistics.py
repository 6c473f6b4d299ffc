"""The statistics of a duel, exactly, and its whole course on made-up times: false alarms and power, without a clock."""

import itertools
import math
import random
import statistics
from collections.abc import Sequence

import pytest

from conformance.duel.rounds import CONTROL, SIDES, A, B, Block, Judgement, Series, Settings, look, play, undecided
from conformance.duel.statistics import Interval, Verdict, claim_level, holm, interval, judge, sample, spread, weights


@pytest.mark.parametrize("n", [1, 3, 5])
def test_weights_are_those_of_all_draws(n: int) -> None:
    """The median of each of the n^n draws, counted."""
    medians = [statistics.median(draw) for draw in itertools.product(range(n), repeat=n)]
    assert weights(n) == pytest.approx([medians.count(k) / n**n for k in range(n)], abs=1e-12)


def test_weights_of_an_even_number() -> None:
    with pytest.raises(ValueError, match="odd number, got 4"):
        weights(4)


def test_weights_of_many() -> None:
    """They stay finite, symmetrical, and a distribution."""
    found = weights(1501)
    assert sum(found) == pytest.approx(1)
    assert found[:20] == pytest.approx(found[::-1][:20], abs=1e-15)


def test_an_even_number_leaves_the_first_out() -> None:
    assert sample([9.0, 1.0, 3.0, 2.0])[0].tolist() == [1.0, 2.0, 3.0]


def test_interval() -> None:
    """The smallest values that have α / 2 of the distribution at or beyond them."""
    values = [float(k) for k in range(-2, 3)]
    below = list(itertools.accumulate(weights(5)))
    assert interval(values, 2 * below[0] - 1e-9) == Interval(0.0, -2.0, 2.0)
    assert interval(values, 2 * below[0] + 1e-9) == Interval(0.0, -1.0, 1.0)
    assert interval(values, 2 * below[1] + 1e-9) == Interval(0.0, 0.0, 0.0)


@pytest.mark.parametrize("rounds", [25, 101])
def test_interval_covers(rounds: int) -> None:
    """The true median lies within a 95 % interval about so often, also where a tail is heavy."""
    chance = random.Random(0)
    inside = 0
    for _ in range(1000):
        values = [chance.gauss(0, 1) + (chance.random() < 0.1) * chance.gauss(0, 20) for _ in range(rounds)]
        found = interval(values, 0.05)
        inside += found.low <= 0 <= found.high
    assert 0.925 <= inside / 1000 <= 0.985


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.041, 0.2, Verdict.SLOWER),
        (-0.2, -0.041, Verdict.FASTER),
        (-0.029, 0.029, Verdict.EQUIVALENT),
        (-0.029, 0.031, Verdict.INCONCLUSIVE),
        (0.031, 0.2, Verdict.INCONCLUSIVE),
        (0.0, 0.031, Verdict.INCONCLUSIVE),
    ],
)
def test_judge(low: float, high: float, verdict: Verdict) -> None:
    """δ is 4 %, the floor 3 %: what the control makes doubtful is neither slower nor equivalent."""
    assert judge(Interval((low + high) / 2, low, high), 0.04, 0.03) is verdict


@pytest.mark.parametrize("shift", [-0.08, -0.03, 0.0, 0.02, 0.05])
def test_claim_level_is_where_the_verdict_begins(shift: float) -> None:
    chance = random.Random(1)
    values = [shift + chance.gauss(0, 0.05) for _ in range(41)]
    level = claim_level(values, 0.04, 0.03)
    for alpha, decided in ((level * 1.001, True), (level * 0.999, False)):
        if 0 < alpha < 1:
            assert (judge(interval(values, alpha), 0.04, 0.03) is not Verdict.INCONCLUSIVE) is decided


def test_holm() -> None:
    """0.012 passes α / 4, 0.016 α / 3, 0.03 not α / 2; what follows gets no more."""
    found = holm({"c": 0.03, "a": 0.012, "d": 0.04, "b": 0.016}, 0.05)
    assert found == pytest.approx({"a": 0.05 / 4, "b": 0.05 / 3, "c": 0.05 / 2, "d": 0.05 / 2})
    assert holm({}, 0.05) == {}


def test_spread() -> None:
    """The floor, or the farther end of the control."""
    assert spread(Interval(0.0, -0.01, 0.02), 0.03) == 0.03
    assert spread(Interval(-0.03, -0.04, 0.02), 0.03) == 0.04


def test_what_changes_steadily_cancels() -> None:
    """One block after the other, where two have no room: a machine that slows by the same factor in each shows nothing."""
    now = itertools.count()

    def measure(cell: str, pair: Sequence[str]) -> dict[str, Block]:
        return {side: Block(1.1**k, 1.1**k) for side in pair for k in [next(now)]}

    series: dict[str, Series] = {}
    play(("a",), (), measure, Settings(1e9, looks=(21,)), series, {}, clock=lambda: 0.0)
    assert series["a"].ratios == pytest.approx([0.0] * 21)
    assert series["a"].controls == pytest.approx([0.0] * 21)


def test_what_strikes_both_of_a_pair_cancels() -> None:
    """Only times that were taken side by side are compared."""
    chance, series = random.Random(0), Series()
    for _ in range(5):
        struck = {pair: math.exp(chance.gauss(0, 1)) for pair in ((A, B), (CONTROL, B), (A, CONTROL))}
        own = {A: 1.0, CONTROL: 1.02, B: 1.3}
        series.add([{side: Block(own[side] * by, own[side] * by) for side in pair} for pair, by in struck.items()])
    assert series.ratios == series.walls == pytest.approx([math.log(1.3) - math.log(1.02) / 2] * 5)
    assert series.controls == pytest.approx([math.log(1.02)] * 5)


def test_a_ratio_is_to_a_and_its_control() -> None:
    series, own = Series(), {A: Block(1.0, 2.0), CONTROL: Block(4.0, 2.0), B: Block(6.0, 2.0)}
    series.add([{side: own[side] for side in pair} for pair in itertools.combinations(SIDES, 2)])
    assert series.ratios == pytest.approx([math.log(3)])
    assert series.controls == pytest.approx([math.log(4)])
    assert series.walls == pytest.approx([0.0])
    assert series.times[B] == pytest.approx([6.0])


CELLS = ("a", "b", "c", "d")


def simulate(seed: int, slowdown: float, noise: float, bias: float = 0.0) -> dict[str, Judgement]:
    """A duel on made-up times: each block's noise, heavy in its tail; workers that are not equally fast; a busy machine.

    Args:
        seed: of everything.
        slowdown: of B.
        noise: of a block against the one beside it, relative.
        bias: how unlike workers of one environment are, relative.
    """
    chance, now = random.Random(seed), [0.0]
    own = {(cell, side): math.exp(chance.gauss(0, bias)) for cell in CELLS for side in SIDES}

    def block(cell: str, side: str, busy: float) -> Block:
        heavy = 1 + (chance.random() < 0.05) * chance.expovariate(1)
        cpu = own[cell, side] * busy * heavy * math.exp(chance.gauss(0, noise)) * (1 + slowdown * (side == B))
        return Block(cpu, cpu * (1 + chance.expovariate(2)))

    def measure(cell: str, pair: Sequence[str]) -> dict[str, Block]:
        now[0] += 0.012
        busy = (1 + 0.5 * (math.sin(now[0]) > 0)) * math.exp(chance.gauss(0, 0.1))
        return {side: block(cell, side, busy) for side in pair}

    judged: dict[str, Judgement] = {}
    play(CELLS, (), measure, Settings(seconds=90, seed=seed), {}, judged, clock=lambda: now[0])
    return judged


@pytest.mark.parametrize(("slowdown", "bias"), [(0.0, 0.005), (0.02, 0.002), (-0.02, 0.002)])
def test_false_alarms(slowdown: float, bias: float) -> None:
    """None in 25 duels of four cells, though workers of one environment are not equally fast."""
    found = [one.verdict for seed in range(25) for one in simulate(seed, slowdown, 0.04, bias).values()]
    assert len(found) == 100
    assert not {Verdict.SLOWER, Verdict.FASTER} & set(found)


def test_no_difference_is_found_equivalent() -> None:
    found = [one.verdict for seed in range(10) for one in simulate(seed, 0.0, 0.03, 0.003).values()]
    assert found.count(Verdict.EQUIVALENT) >= 38


@pytest.mark.parametrize(
    ("slowdown", "verdict"), [(0.05, Verdict.SLOWER), (0.1, Verdict.SLOWER), (-0.08, Verdict.FASTER)]
)
def test_power(slowdown: float, verdict: Verdict) -> None:
    """At least 95 of 100 cells, within the time of one shape."""
    found = [one.verdict for seed in range(25) for one in simulate(seed, slowdown, 0.04, 0.003).values()]
    assert found.count(verdict) >= 95


def test_noise_makes_it_inconclusive() -> None:
    """Far more noise than the time allows for: no verdict, and none that is wrong."""
    found = [one.verdict for seed in range(5) for one in simulate(seed, 0.03, 0.6).values()]
    assert found.count(Verdict.INCONCLUSIVE) >= 19


def test_unlike_workers_raise_delta() -> None:
    """Where two workers of A are 6 % apart, 6 % between A and B is not claimed."""
    alike = {(cell, side): 1.06 if side == CONTROL else 1.09 if side == B else 1.0 for cell in CELLS for side in SIDES}
    judged: dict[str, Judgement] = {}
    settings = Settings(seconds=1e9, looks=(11, 21))
    play(
        CELLS, (), lambda cell, pair: {side: Block(alike[cell, side], 1.0) for side in pair},
        settings, {}, judged, clock=lambda: 0.0,
    )  # fmt: skip
    for one in judged.values():
        assert one.delta == pytest.approx(math.log(1.06))
        assert one.verdict is Verdict.INCONCLUSIVE


def test_whose_turn_it_is() -> None:
    """Each round is a circle of pairs; orders of sides and cells vary; anchors come in every fourth sweep."""
    turns: list[tuple[str, tuple[str, ...]]] = []

    def measure(cell: str, pair: Sequence[str]) -> dict[str, Block]:
        turns.append((cell, tuple(pair)))
        return {side: Block(1.0 + (side == B), 1.0) for side in pair}

    series: dict[str, Series] = {}
    judged: dict[str, Judgement] = {}
    sweeps: list[int] = []
    settings = Settings(seconds=1e9, looks=(9, 99))
    play(
        ("a", "b"), ("z",), measure, settings, series, judged,
        lambda sweep, spent, judged: sweeps.append(len(undecided(("a", "b"), judged))), lambda: 0.0,
    )  # fmt: skip
    rounds = [turns[k : k + 3] for k in range(0, len(turns), 3)]
    for one in rounds:
        cells, pairs = zip(*one, strict=True)
        assert len(set(cells)) == 1
        assert {first for first, _ in pairs} == {second for _, second in pairs} == set(SIDES)
        assert all(first != second for first, second in pairs)
    assert len({tuple(pair for _, pair in one) for one in rounds}) == 6
    assert sweeps == [2] * 8 + [0]
    assert {name: len(one.ratios) for name, one in series.items()} == {"a": 9, "b": 9, "z": 3}
    assert [one[0][0] for one in rounds].count("a") == 9
    assert [one[0][0] for one in rounds] != sorted(one[0][0] for one in rounds)
    assert all(one.verdict is Verdict.SLOWER for one in judged.values())


@pytest.mark.parametrize(("cells", "shares"), [(1, {1}), (4, {4, 3, 2, 1})])
def test_certainty_is_shared_out(cells: int, shares: set[int]) -> None:
    """An equal part of α for each look, and of that Holm's for each cell; the control's interval is of 95 %."""
    chance = random.Random(0)
    series = {name: Series() for name in "abcd"[:cells]}
    for rounds in series.values():
        rounds.ratios, rounds.walls = ([chance.gauss(0.2, 0.01) for _ in range(41)] for _ in range(2))
        rounds.controls = [chance.gauss(0, 0.01) for _ in range(41)]
    settings = Settings(alpha=0.1, floor=0.05, looks=(41, 101))
    found = look(list(series), series, settings)
    assert {round(0.05 / one.alpha) for one in found.values()} == shares
    for name, one in found.items():
        assert one.control == interval(series[name].controls, 0.05)
        assert one.ratio == interval(series[name].ratios, one.alpha)
        assert one.delta == pytest.approx(math.log(1.05))


def test_too_few_rounds_decide_nothing() -> None:
    """The time is over before the first look."""
    now = itertools.count()
    judged: dict[str, Judgement] = {}
    play(
        ("a",), (), lambda cell, pair: {side: Block(1.0 + (side == B), 1.0) for side in pair},
        Settings(3.0), {}, judged, clock=lambda: next(now),
    )  # fmt: skip
    assert judged["a"].verdict is Verdict.INCONCLUSIVE
    assert 0 < judged["a"].rounds < 10


def test_an_interruption_keeps_what_was_timed() -> None:
    turns = itertools.count()

    def measure(cell: str, pair: Sequence[str]) -> dict[str, Block]:
        if next(turns) == 100:
            raise KeyboardInterrupt
        return {side: Block(1.0, 1.0) for side in pair}

    series: dict[str, Series] = {}
    judged: dict[str, Judgement] = {}
    with pytest.raises(KeyboardInterrupt):
        play(("a", "b"), (), measure, Settings(1e9), series, judged, clock=lambda: 0.0)
    assert judged["a"].rounds == len(series["a"].ratios) == 16 or judged["a"].rounds == 17
    assert set(judged) == {"a", "b"}
