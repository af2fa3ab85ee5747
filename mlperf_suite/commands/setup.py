"""Set up what a client needs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from mlperf_suite.commands.command import Subcommand, say


def _add_options(parser: ArgumentParser) -> None:
    pass


def _run(arguments: Namespace) -> int:
    from mlperf_suite.assets import assets_dir, set_up

    set_up()
    say(str(assets_dir()))
    return 0


COMMAND = Subcommand(
    "download NLTK's punkt for ROUGE and, if vLLM is installed, the small model",
    _add_options,
    _run,
)
