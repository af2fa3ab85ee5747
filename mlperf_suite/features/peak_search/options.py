"""The option of the search."""

from mlperf_suite.option_specs import switch

OPTIONS = {
    "find_peak_qps": switch(
        "search for the highest rate at which a Server or Interactive run is VALID",
        identifies=None,
        section="What runs",
        not_with=("profile-run", "client"),
    )
}
