"""Descriptions of a system's power supplies, and whether each is right."""

from pathlib import Path

SERVER = """
- Server {}:
  - Description: two power supplies, of which one is needed
    Min PSUs needed: {}
    PSUs:
    - Name: PSU 1
      PowerCapacityWatts: 1200
    - PowerCapacityWatts: 2000
"""
RACK = "Rack:" + SERVER.format(1, 1) + "Switch:" + SERVER.format(2, 2)
MERGED = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n}: &a{n}\n  <<: [{', '.join([f'*a{n - 1}'] * 9)}]\n  k{n}: 1\n" for n in range(1, 9)
)
ALIASES = "a0: &a0 [1, 1]\n" + "".join(
    f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40)
)
WITHOUT_POWER = {
    "a rack": (RACK, True),
    "an empty file": ("", True),
    "not YAML": ("[1, 2", False),
    "an object of Python": ("!!python/object/apply:os.getcwd []", False),
    "a tag that does not fit": ("!!int ''", False),
    "other words": ("watts", True),
}
WITH_POWER = WITHOUT_POWER | {
    "an empty file": ("", False),
    "power supplies that are none": ("Min PSUs Needed: 1\nPSUs: 3", False),
    "watts in words": (RACK.replace("2000", "two thousand"), False),
    "a number for a name": ("3: {PSUs: []}", False),
    "a rack within itself": ("&rack [*rack]", False),
    "two servers by one name": ("A: &s" + SERVER.format(1, 1) + "B: *s", True),
}


def nameplate(tree: Path) -> Path:
    return tree / "closed/Someone/systems/box_power.yaml"
