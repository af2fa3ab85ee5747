"""The option of the programs in answers."""

from pathlib import Path

from mlperf_suite.option_specs import OptionSpec, checked, folder

OPTIONS = {
    "code_problems": OptionSpec(
        "LiveCodeBench's problems, for testing the programs in answers: a file or folder "
        "of livecodebench/code_generation_lite",
        checked(
            lambda text: str(folder(text)),
            lambda path: Path(path).exists(),
            "must be an existing file or folder",
        ),
        identifies=None,
        section="Model, data and scores",
    )
}
