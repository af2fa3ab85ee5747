"""Control groups of programs: where they are made, what is written to them, what is left."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlperf_suite.features.code_grading.sandbox import memory_group
from mlperf_suite.features.code_grading.sandbox.box import MEBIBYTE, Limits, Sandbox
from mlperf_suite.features.code_grading.sandbox.memory_group import MemoryGroup

V1 = ("memory.limit_in_bytes", "memory.oom_control", "cgroup.procs")
V2 = ("memory.max", "memory.oom.group", "memory.swap.max", "memory.events", "cgroup.procs")


@pytest.fixture(autouse=True)
def new_parent() -> Iterator[None]:
    memory_group._parent.cache_clear()
    yield
    memory_group._parent.cache_clear()


def offer(
    monkeypatch: pytest.MonkeyPatch, root: Path, files: tuple[str, ...], group: str, mount: str
) -> None:
    """A control group file system below `root`, in which new groups have these files."""
    mkdir, rmdir, read_text = Path.mkdir, Path.rmdir, Path.read_text
    texts = {"/proc/self/cgroup": group, "/proc/self/mountinfo": mount.format(root)}

    def made(folder: Path) -> None:
        if folder.parent.name == "busy":
            # A group of v2 that has processes hands on no controller.
            raise PermissionError
        mkdir(folder)
        for name in files:
            (folder / name).touch()

    def removed(folder: Path) -> None:
        for file in folder.iterdir():
            file.unlink()
        rmdir(folder)

    monkeypatch.setattr(Path, "mkdir", made)
    monkeypatch.setattr(Path, "rmdir", removed)
    monkeypatch.setattr(
        Path,
        "read_text",
        lambda path, **how: texts[str(path)] if str(path) in texts else read_text(path, **how),
    )


@pytest.mark.parametrize(
    ("files", "group", "mount", "within"),
    [
        (V2, "0::/user.slice/own", "35 31 0:32 / {} rw - cgroup2 cgroup2 rw", "user.slice/own"),
        (V2, "0::/", "35 31 0:32 / {} rw - cgroup2 cgroup2 rw", ""),
        (V2, "0::/slice/busy", "35 31 0:32 / {} rw - cgroup2 cgroup2 rw", "slice"),
        (V2, "0::/docker/1", "35 31 0:32 /docker/1 {} rw - cgroup2 cgroup2 rw", ""),
        (V1, "4:memory:/a", "35 31 0:32 / {} rw - cgroup cgroup rw,memory", "a"),
    ],
)
def test_a_group_is_made_below_ones_own(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: tuple[str, ...],
    group: str,
    mount: str,
    within: str,
) -> None:
    (tmp_path / within / "mlperf-sandbox-999999999-0").mkdir(parents=True)
    (tmp_path / within / f"mlperf-sandbox-{os.getpid()}-0-of-another").mkdir()
    offer(monkeypatch, tmp_path, files, group, mount)
    made = MemoryGroup.make(5 * MEBIBYTE)
    assert made and made.folder.parent == tmp_path / within
    content = {name: (made.folder / name).read_text(encoding="ascii") for name in files}
    assert content[files[0]] == str(5 * MEBIBYTE)
    assert content.get("memory.oom.group", "1") == "1"
    assert content.get("memory.swap.max", "0") == "0"
    assert not made.exceeded()
    counts = made.folder / files[-2]
    counts.write_text("oom 1\noom_kill 0\n", encoding="ascii")
    assert not made.exceeded()
    counts.write_text("oom 1\noom_kill 2\n", encoding="ascii")
    assert made.exceeded()
    made.remove()
    # Of groups that were there, that of an ended process is gone.
    remaining = [path.name for path in (tmp_path / within).iterdir()]
    assert remaining == [f"mlperf-sandbox-{os.getpid()}-0-of-another"]


@pytest.mark.parametrize("mount", ["", "35 31 0:32 / {} ro - cgroup cgroup ro,cpu"])
def test_where_there_is_none_programs_run_all_the_same(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mount: str
) -> None:
    offer(monkeypatch, tmp_path, (), "0::/\n4:memory:/\n", mount)
    assert MemoryGroup.make(MEBIBYTE) is None
    assert sandbox.run(["/bin/echo", "x"]).stdout == b"x\n"


def test_a_program_whose_group_was_at_its_limit_ran_out_of_memory(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in the place of a control group, whose count says so at once."""
    for name in V1:
        (tmp_path / name).touch()
    (tmp_path / "memory.oom_control").write_text("oom_kill 1\n", encoding="ascii")
    removed: list[Path] = []
    monkeypatch.setattr(MemoryGroup, "make", lambda _: MemoryGroup(tmp_path))
    monkeypatch.setattr(MemoryGroup, "remove", lambda group: removed.append(group.folder))
    outcome = sandbox.run(["/bin/sleep", "900"], limits=Limits(wall_s=600))
    assert (outcome.out_of_memory, outcome.exit_code, outcome.signal) == (True, None, None)
    assert removed == [tmp_path]
