"""Fingerprints of the sources of released LoadGens, to compare a log's list of file hashes with.

A log lists the SHA-1 of each file of LoadGen's folder when it was built (loadgen_file_sha1). One
version may have several fingerprints: its number is raised some commits after its sources change,
and one commit of 5.1.0 (3cebd5ee48, which made 32 public logs) has the sources of 5.0.21. Source:
the history of loadgen/ in github.com/mlcommons/inference, from 5.0.15 (round v5.1) on; 854 of the
862 public v5.1 logs have the files of the very commit that they name, 8 those of another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

_GENERATED = "/mlperf_conf.h"
"""Generated from mlperf.conf when LoadGen is built."""
_DIGITS = 16
RELEASES: dict[str, tuple[str, ...]] = {
    "5.0.15": ("ca508ceae78f1332", "78ce91a58d39f6fb"),
    "5.0.16": ("78ce91a58d39f6fb",),
    "5.0.17": ("78ce91a58d39f6fb", "3e2ef5d6c7e23ae7"),
    "5.0.18": ("3e2ef5d6c7e23ae7", "bee43ad9b6bc1e09"),
    "5.0.19": ("bee43ad9b6bc1e09", "836d0e2cd1564401"),
    "5.0.20": ("836d0e2cd1564401", "ab85edc6507048c5"),
    "5.0.21": ("ab85edc6507048c5", "39d740642c9c9a91"),
    "5.0.22": ("39d740642c9c9a91", "308b3fb63540a3a7"),
    "5.0.23": ("308b3fb63540a3a7", "a85c932519fc62e8"),
    "5.0.24": ("a85c932519fc62e8", "f5e0b4a5bdd3f758"),
    "5.0.25": ("f5e0b4a5bdd3f758",),
    "5.1.0": ("f5e0b4a5bdd3f758", "822ed51c9c1b424f", "39d740642c9c9a91"),
    "5.1.1": ("822ed51c9c1b424f",),
    "5.1.2": ("822ed51c9c1b424f",),
    "6.0.0": ("822ed51c9c1b424f", "33cd34b976fe29d5"),
    "6.0.1": ("33cd34b976fe29d5", "979efb602c268674"),
    "6.0.2": ("979efb602c268674",),
    "6.0.3": ("979efb602c268674", "325484157cd79648"),
    "6.0.4": ("325484157cd79648", "ab97fc234a371f08"),
    "6.0.5": ("ab97fc234a371f08", "92db8989fb4f0858"),
    "6.0.6": ("92db8989fb4f0858", "45b7d692ef58bdd4"),
    "6.0.7": ("45b7d692ef58bdd4", "50f6a7bfc3d3815e"),
    "6.0.8": ("50f6a7bfc3d3815e", "e8e29b5017509590"),
    "6.0.9": ("e8e29b5017509590", "ebdabd5fcfe177a8", "db3def01ed2e140f"),
    "6.0.10": ("db3def01ed2e140f",),
    "6.0.11": ("db3def01ed2e140f",),
    "6.0.12": ("db3def01ed2e140f",),
    "6.0.13": ("db3def01ed2e140f",),
    "6.0.14": ("db3def01ed2e140f", "52692541e69931c0"),
    "6.0.15": ("52692541e69931c0", "1eca247858099861"),
    "6.0.16": ("1eca247858099861", "ad0710685080c77f"),
    "6.0.17": ("ad0710685080c77f",),
}
"""The fingerprints of each version's sources; see `fingerprint`."""


def fingerprint(files: Mapping[str, str]) -> str:
    """A short hash of LoadGen's sources and its mlperf.conf. `files`: SHA-1 by path."""
    sources = sorted(
        path
        for path in files
        if path.endswith((".cc", ".h", "/mlperf.conf")) and path != _GENERATED
    )
    said = "".join(f"{path} {files[path]}\n" for path in sources)
    return hashlib.sha1(said.encode(), usedforsecurity=False).hexdigest()[:_DIGITS]
