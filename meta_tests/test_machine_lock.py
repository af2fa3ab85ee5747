"""A test marked `alone` runs beside no other, and waits for no newcomer."""

import threading
from pathlib import Path

import pytest

from meta_tests.machine_lock import machine_lock


@pytest.fixture
def locks(tmp_path: Path) -> tuple[Path, Path]:
    """Not the repository's, which the worker of this test holds."""
    machine, turn = tmp_path / "machine", tmp_path / "turn"
    machine.touch()
    turn.touch()
    return machine, turn


def test_whoever_is_alone_waits_for_those_before_and_goes_before_those_after(
    locks: tuple[Path, Path],
) -> None:
    order: list[str] = []
    first_may_end, alone_waits = threading.Event(), threading.Event()

    def hold(name: str, alone: bool) -> None:
        if alone:
            alone_waits.set()
        with machine_lock(alone, locks):
            order.append(f"{name} begins")
            if name == "first":
                assert first_may_end.wait(60)
            order.append(f"{name} ends")

    first = threading.Thread(target=hold, args=("first", False))
    first.start()
    while not order:
        first.join(0.001)
    alone = threading.Thread(target=hold, args=("alone", True))
    alone.start()
    assert alone_waits.wait(60)
    assert order == ["first begins"]
    first_may_end.set()
    first.join(60)
    alone.join(60)
    assert order == ["first begins", "first ends", "alone begins", "alone ends"]
