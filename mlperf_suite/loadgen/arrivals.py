"""When the queries of a Server run are due, recomputed from LoadGen's seed.

LoadGen draws from std::mt19937 through std::uniform_real_distribution and
std::exponential_distribution, which each standard library may implement differently. This module
follows libstdc++, with which every LoadGen on a package index and in the public v5.1 results is
built. Sources: loadgen.cc of LoadGen, and bits/random.tcc of libstdc++.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

WORDS = 2**32
"""The numbers that a word of the generator can be."""
BLOCK = 2**16
NS = 1e9


def server_schedule(seed: int, rate_qps: float, queries: int) -> npt.NDArray[np.float64]:
    """When each query of a Server run is scheduled, in s since its start.

    The gaps are exponential, each truncated to whole ns.
    """
    import numpy as np

    gaps = exponential(seed % WORDS, 1 << max(queries, 1).bit_length())[: max(queries - 1, 0)]
    gaps_ns = (gaps / rate_qps * NS).astype(np.int64)
    return np.concatenate(([0], np.cumsum(gaps_ns)))[:queries] / NS


def exponential(seed: int, count: int) -> npt.NDArray[np.float64]:
    """The first draws of std::exponential_distribution(1), as 64-bit floats, (count,)."""
    if len(_drawn.get(seed, ())) < count:
        if len(_drawn) >= _MAX_SEEDS:
            _drawn.clear()
        _drawn[seed] = _draw(seed, count)
    return _drawn[seed][:count]


_drawn: dict[int, npt.NDArray[np.float64]] = {}
"""By seed, the most draws that a run needed: those of a shorter one are their beginning."""
_MAX_SEEDS = 2


def _draw(seed: int, count: int) -> npt.NDArray[np.float64]:
    import numpy as np

    bits = generator(seed)
    gaps = np.empty(count)
    # Block by block: all words at once would take six times the memory of the gaps.
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        gaps[start : start + size] = -np.log(1 - uniform(bits, size))
    return gaps


def generator(seed: int) -> Any:
    """numpy's generator in the state of std::mt19937(seed)."""
    import numpy as np

    bits = np.random.MT19937()
    # The legacy seeding with a number is the reference's own, as in the C++ standard.
    state: Any = np.random.RandomState(seed % WORDS).get_state(legacy=False)
    bits.state = state
    return bits


def uniform(bits: Any, count: int) -> npt.NDArray[np.float64]:
    """The next draws of std::uniform_real_distribution<double>(0, 1), (count,)."""
    import numpy as np

    raw = bits.random_raw(2 * count).astype(np.float64)
    shares = (raw[0::2] + raw[1::2] * float(WORDS)) / float(WORDS) ** 2
    least: npt.NDArray[np.float64] = np.minimum(shares, np.nextafter(1, 0))
    return least
