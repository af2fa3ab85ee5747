"""Prompts with drawn salts, as texts and as token ids, and super-passes of drawn times."""

import json
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Raw

from mlperf_suite.features.endpoints.official_client_results.sent_prompts import (
    SentPrompts,
    TokenStreams,
)
from mlperf_suite.features.endpoints.official_client_results.super_passes import SuperPass

Salt = Callable[[random.Random], list[int]]
SYSTEM = list(range(100, 140))
PASS_S = 300.0
SIZE = 50


def sent(prompts: Iterable[Any]) -> SentPrompts:
    counted = SentPrompts()
    for prompt in prompts:
        data = [prompt] if isinstance(prompt, str) else [None, None, prompt]
        counted.add(Raw(json.dumps(["PromptData", *data]).encode()))
    return counted


def salts(count: int, bits: int = 64, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [draw.randbytes(bits // 8).hex() for _ in range(count)]


def messages(system: str, user: str = "made up") -> list[dict[str, str]]:
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def streams(prompts: Sequence[Sequence[int]]) -> TokenStreams:
    counted = TokenStreams()
    for prompt in prompts:
        counted.add(prompt)
    return counted


def users(count: int, draw: random.Random) -> list[list[int]]:
    """The users' texts of so many samples."""
    return [
        [draw.randrange(1000, 9000) for _ in range(draw.randrange(50, 90))] for _ in range(count)
    ]


def hexadecimal(draw: random.Random, bits: int = 64) -> list[int]:
    """The tokens of "[<hex>] ", by a tokenizer that takes up to three digits at once."""
    digits, tokens = f"{draw.getrandbits(bits):0{bits // 4}x}", [5]
    while digits:
        size = draw.randrange(1, 4)
        tokens.append(int("1" + digits[:size], 16))
        digits = digits[size:]
    return [*tokens, 6]


def marker(draw: random.Random, size: int = 4) -> list[int]:
    return [draw.randrange(2**17) for _ in range(size)]


def salted(
    passes: int, make: Salt, samples: int, system: Sequence[int] = SYSTEM, seed: int = 0
) -> TokenStreams:
    draw = random.Random(seed)
    texts = users(samples, draw)
    return streams([[*system, *make(draw), *text] for _ in range(passes) for text in texts])


def passes_of(levels_ms: Sequence[float], noise: float = 0.0, seed: int = 0) -> list[SuperPass]:
    """Super-passes of 300 s, each with TPOT around its level."""
    draw = random.Random(seed)
    passes = []
    for number, level_ms in enumerate(levels_ms):
        tpot = [1e6 * level_ms * (1 + noise * draw.uniform(-1, 1)) for _ in range(SIZE)]
        start_ns = int(1e9 * PASS_S * number)
        end_ns = start_ns + int(1e9 * PASS_S) - 1
        passes.append(SuperPass(SIZE, start_ns, end_ns, [10**9] * SIZE, tpot))
    return passes


def write_lines(path: Path, events: Iterable[Sequence[object]]) -> Path:
    """An events.jsonl of events by their time, kind, request and, if they have any, data."""
    names = ("timestamp_ns", "event_type", "sample_uuid", "data")
    lines = [json.dumps(dict(zip(names, event, strict=False))) + "\n" for event in events]
    path.write_text("".join(lines))
    return path
