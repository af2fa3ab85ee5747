"""How long the points of a curve are measured, and how long a curve takes."""

from __future__ import annotations

from mlperf_suite.features.endpoints.client_results.series import (
    MIN_POINTS,
    ULTRA_LOW,
    min_duration_s,
)

SMOKE_POINT_S = 15.0
"""How long a smoke curve issues requests at each concurrency, in s."""
PROBE_POINT_S = 60.0
"""The same in the search for C_max of an official curve, in s."""
SMOKE_MAX_S = 65.0
"""The longest that a smoke curve may take for a concurrency, with the last answers, in s."""
CLIENT_START_S = 8.0
"""What the official client takes to start, in s."""
_SCORES_S, _CURVE_PROBES = 50.0, 10
"""Of a smoke curve, its accuracy run, in s; of an official one, the doublings to a usual C_max."""


def curve_s(*, smoke: bool, agentic: bool, by_client: bool) -> float:
    """Seconds of a curve of seven points, with what a search for C_max usually takes.

    `by_client`: whether the official client measures them.
    """
    if smoke:
        # The official client answers a request for each user before its accuracy run.
        start_s, scores = (CLIENT_START_S, 2) if by_client else (0.0, 1)
        # The answers of agents are scored inline.
        scores = 0 if agentic else scores
        points_s = MIN_POINTS * (SMOKE_POINT_S + start_s)
        # Each point waits twice as long for its last answers as the one before.
        return points_s + SMOKE_MAX_S + scores * _SCORES_S
    longer_s = min_duration_s(ULTRA_LOW + 1, agentic=agentic)
    points_s = min_duration_s(1) + (MIN_POINTS - 1) * longer_s
    return points_s + _CURVE_PROBES * PROBE_POINT_S
