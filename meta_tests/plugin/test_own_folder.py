"""The suite's options are there in its own folder, and in no other pytest session."""

import os
import re
import tempfile
import tomllib
from pathlib import Path

import pytest

from meta_tests.suite_runs import ROOT, run_python, run_suite

NAME = "mlperf-suite-own-folder"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that has the suite installed as pyproject.toml says."""
    packages = tmp_path / "packages"
    information = packages / "mlperf_suite_as_told-1.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Name: mlperf-suite-as-told\nVersion: 1\n")
    points = PROJECT["entry-points"]["pytest11"]
    lines = [f"{name} = {module}" for name, module in points.items()]
    (information / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines]))
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(packages), str(ROOT)]),
        # Whatever this environment has installed beside.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "",
    }
    return {name: value for name, value in environment.items() if name != "PYTEST_PLUGINS"}


def pytest_in(folder: Path, environment: dict[str, str], *arguments: str) -> str:
    """What pytest prints when started there, with nothing installed but the suite."""
    command = ("-m", "pytest", "-p", NAME, *arguments)
    process = run_python(*command, folder=folder, environment=environment)
    return process.stdout + process.stderr


def test_elsewhere_no_option_is_added_and_nothing_of_the_suite_is_loaded(
    tmp_path: Path, installed: dict[str, str]
) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "test_loaded.py").write_text(
        "import sys\n\n\n"
        "def test_loaded(pytestconfig):\n"
        f"    assert pytestconfig.pluginmanager.has_plugin({NAME!r})\n"
        "    assert not {'scenario', 'mode', 'model', 'logs'} & vars(pytestconfig.option).keys()\n"
        "    modules = {name for name in sys.modules if name.startswith('mlperf_suite')}\n"
        "    package, plugin = 'mlperf_suite', 'mlperf_suite.plugin'\n"
        "    assert modules == {package, plugin, f'{plugin}.own_folder'}\n"
    )
    assert "1 passed" in pytest_in(folder, installed, "-q")


def test_an_option_may_name_a_folder_elsewhere(tmp_path: Path, installed: dict[str, str]) -> None:
    """pytest would look for its ini file and conftest there, and not know the option."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    for folder, tests in ((ROOT, ()), (tmp_path, (f"{ROOT}/tests",))):
        arguments = ("--model", str(tmp_path), *tests, "-m", "offline", "--collect-only")
        output = pytest_in(folder, installed, "--trace-config", *arguments)
        assert "no-such-option" not in output
        assert f"rootdir: {ROOT}" in output
        assert "test_offline.py" in output and "ERROR" not in output
        registered = re.findall(r"^PLUGIN registered: <module '(mlperf_\w+\.[\w.]+)'", output, re.M)
        assert "mlperf_suite.plugin.options" in registered
        assert len(registered) == len(set(registered))


def test_another_projects_tests_run_without_the_suite_from_its_folder_too(
    tmp_path: Path, installed: dict[str, str]
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    theirs: a marker\n")
    (tmp_path / "test_theirs.py").write_text(
        "def test_theirs(pytestconfig):\n"
        f"    assert str(pytestconfig.rootpath) == {str(tmp_path)!r}\n"
        "    assert not pytestconfig.pluginmanager.has_plugin('mlperf_suite.plugin.options')\n"
    )
    one = f"{tmp_path}/test_theirs.py::test_theirs"
    for arguments in ([str(tmp_path)], [one, "-q"], [one, "-p", "xdist", "-n1"]):
        assert "1 passed" in pytest_in(ROOT, installed, *arguments)


def test_another_ini_that_is_named_is_kept(tmp_path: Path, installed: dict[str, str]) -> None:
    ini = tmp_path / "other.ini"
    ini.write_text("[pytest]\nmarkers =\n    only_here: a marker of this file\n")
    assert "only_here" in pytest_in(ROOT, installed, "-c", str(ini), "--markers")


def test_the_example_of_a_users_own_tests_passes(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/own-tests.md").read_text(), re.S)
    plugin = ("-p", "meta_tests.stand_in_plugin", "-p", "meta_tests.reports.undrawn", "--warmup=0")
    # In the repository, where conftest.py holds, and where nobody else collects.
    with tempfile.TemporaryDirectory(prefix=".own_tests_", dir=ROOT) as folder:
        Path(folder, "test_mine.py").write_text(example)
        # At its own rate, the stand-in would work for 10 s.
        options = ("--benchmark=llama3.1-8b", "--offline-target-qps=8.4")
        run = run_suite(tmp_path, folder, *plugin, *options)
    assert run.exit_code == 0, run.output
    assert "2 passed" in run.output
    assert re.search(r"plan: \d+ steps", run.output)
    assert "model: embedded" in run.output
