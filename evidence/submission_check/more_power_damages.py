"""Further damages of a power measurement, each with the rules that it breaks."""

from meta_tests.features.submission_check.power_damages import (
    LOG,
    ODD,
    SPL,
    UNCERTAIN,
    Damages,
    both,
    broken,
    client,
    logged,
    said,
    server,
    text,
    without,
)

DAMAGES: Damages = {
    **broken("files checksums", {"no client.log": without("power/client.log")}),
    **broken("descriptors phases", {"no phases": client(lambda c: c.pop("phases"))}),
    **broken("", {"debug mode, said off": server(lambda c: c.update(debug=False))}),
    **broken(
        "files phases checksums",
        {
            "no spl.txt of ranging": without("ranging/spl.txt"),
            "no detail log of ranging": without("ranging/mlperf_log_detail.txt"),
        },
    ),
    **broken(
        "commands",
        {
            "server.json without ptd_messages": server(lambda c: c.pop("ptd_messages")),
            "PTDaemon 1.10.0": said("version=1.11.1-", "version=1.10.0-"),
            "another analyzer": said("Yokogawa", "Somebody"),
        },
    ),
    **broken(
        "ptd_log",
        {
            "both of another session": both(lambda c: c.update(session_name="it's another")),
            "a timezone that is none": server(lambda c: c.update(timezone="here")),
        },
    ),
    **broken(
        "checksums samples",
        {
            "few amps": text(SPL, r"Amps,13\.4", "Amps,0.1"),
            "amps of four phases": text(SPL, r"Amps,13\.4", "Amps,10"),
        },
    ),
    **broken(
        "checksums",
        {
            "a hash that was not written down": server(lambda c: c["results"].pop(SPL)),
            "a hash that differs between the two": server(
                lambda c: c["results"].update({"power/client.log": "0" * 40})
            ),
            "an odd error in ranging": logged(ODD, 5, "ranging"),
            "a warning in testing": logged("WARNING: low"),
            "a warning in the middle of testing": logged("WARNING: low", 850),
            "a sample too uncertain": logged(UNCERTAIN),
        },
    ),
    **broken(
        "checksums ptd_log",
        {"no ranging in the log": text(LOG, r"Go with mark '(.*)_ranging'", r"Go with \1")},
    ),
}
