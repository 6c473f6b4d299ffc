"""What a run says at its end."""

import math
from collections.abc import Iterable, Iterator

from ..cases.grid import coverage, grid
from ..clauses import CHAPTERS, Level, load_all
from ..verdicts import Verdict
from .model import Report, Result, count


def summary(report: Report) -> Iterator[str]:
    """Lines: verdicts by chapter, error ratios by dtype, agreement with torch, coverage."""
    yield from _verdicts(report.results)
    lenient = sum(1 for r in report.results if r.level == Level.SHOULD.value and Verdict(r.verdict).fails)
    if lenient:
        yield f"{lenient} of those that differ or crashed are of a SHOULD, and do not fail the run"
    if not any(result.tensors for result in report.results):
        yield "no tensor was compared with torch and the oracle: nothing is known of the subject's values"
    yield ""
    yield from _ratios(report.results)
    yield ""
    figures = coverage(grid())
    read = {result.case for result in report.results}
    yield (
        f"cases: {len(read)} read here; the grid has {figures['cases']} cases of {figures['configurations']} configurations, "
        f"every pair of options of each component ({', '.join(f'{figures[d]} in {d}' for d in DTYPES)})"
    )
    yield f"clauses: {len({result.clause for result in report.results})} of {len(load_all())}"


DTYPES = ("float64", "float32", "bfloat16", "float16")


def _verdicts(results: list[Result]) -> Iterator[str]:
    shown = [verdict for verdict in Verdict if any(result.verdict == verdict.value for result in results)]
    width = max(len(chapter) for chapter in CHAPTERS) + 2
    yield " " * width + "".join(f"{verdict.value:>15}" for verdict in shown)
    for chapter in (*CHAPTERS, ""):
        chosen = [result for result in results if result.clause.startswith(f"{chapter}-") or not chapter]
        counts = count(result.verdict for result in chosen)
        if chosen:
            yield f"{chapter or 'all':<{width}}" + "".join(f"{counts.get(v.value, 0) or '·':>15}" for v in shown)


def _ratios(results: Iterable[Result]) -> Iterator[str]:
    by_dtype: dict[str, list[float]] = {}
    relative = 0.0
    seen: set[tuple[str, str]] = set()
    for result in results:
        dtype = next((name for name in DTYPES[1:] if f"-{name}" in result.case), "float64")
        for tensor in result.tensors:
            key = (result.case, tensor["tensor"])
            if key in seen or tensor["verdict"] != Verdict.CONFORMS.value:
                continue
            seen.add(key)
            if isinstance(tensor.get("ratio"), float):
                by_dtype.setdefault(dtype, []).append(tensor["ratio"])
            if dtype == "float64" and isinstance(tensor.get("relative"), float):
                relative = max(relative, tensor["relative"])
    if not by_dtype:
        return
    yield "error against the oracle, as a multiple of torch's or of half a rounding's (median, 99.9 %, largest)"
    for dtype, ratios in by_dtype.items():
        ratios.sort()
        high = ratios[min(len(ratios) - 1, math.ceil(0.999 * len(ratios)) - 1)]
        yield f"  {dtype:<9} {ratios[len(ratios) // 2]:6.2f} {high:6.2f} {ratios[-1]:6.2f}   ({len(ratios)} tensors)"
    yield f"largest relative difference from torch in float64, of what conforms: {relative:.2g}"
