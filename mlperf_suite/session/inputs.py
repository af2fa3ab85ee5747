"""The inputs of a session's runs: data, prompts, tokenizer, reference accuracy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

from mlperf_suite.assets import own_model_dir
from mlperf_suite.benchmarks.definition import (
    Benchmark,
    Generation,
    Load,
    ReferenceAccuracy,
    Scenario,
    Workload,
)
from mlperf_suite.benchmarks.model_identity import model_facts
from mlperf_suite.benchmarks.prompts import end_of_text_ids, load_tokenizer
from mlperf_suite.datasets.media import MediaPrompt
from mlperf_suite.datasets.samples import Samples
from mlperf_suite.engines.model_files import weight_fault
from mlperf_suite.errors import UsageError
from mlperf_suite.loadgen.runner import check_round
from mlperf_suite.results.run_folder import check_writable
from mlperf_suite.rules.facts import (
    SpeculationFaults,
    find_deviations,
    find_reference,
    find_speculation,
)
from mlperf_suite.scorers.scorer import Scorer, obstacle_of
from mlperf_suite.session.engine_source import source_of
from mlperf_suite.session.run_kind import StepKey, kind_named
from mlperf_suite.session.timing.estimate import TokenLengths
from mlperf_suite.settings import OPTIONS_OF_FEATURES, Settings, check_model_is_reachable


class Inputs:
    """Inputs, read once per session, on demand. `benchmarks`: those with a selected test."""

    def __init__(self, settings: Settings, benchmarks: Sequence[Benchmark]) -> None:
        self.settings = settings
        self.benchmarks = tuple(benchmarks)
        self._loaded: dict[Load, Samples] = {}
        self._samples: dict[tuple[str, Load], Samples] = {}
        self._prompts: dict[tuple[str, Load], Sequence[Sequence[int]]] = {}
        self._prints_of_prompts: dict[tuple[str, Load], str] = {}
        self._of_kinds: dict[str, Any] = {}

    def checks(self, keys: Sequence[StepKey]) -> Iterator[Callable[[], object]]:
        """What could stop the session and shows before anything slow is loaded, each on its own.

        `keys`: those planned for the engine of the runs. Each check raises UsageError; two that
        find the same cause say the same.
        """
        settings = self.settings
        yield partial(check_round, settings.round)
        yield partial(check_writable, settings.results_dir)
        yield self._check_model_files
        for benchmark in self.benchmarks:
            yield partial(self._check_model, benchmark)
            own = [key for key in keys if key.benchmark == benchmark.id]
            yield partial(self._check_round, benchmark, [key.scenario for key in own])
            yield partial(self._check_media, benchmark)
            check_engine = kind_named(benchmark.run_kind).check_engine
            yield partial(check_engine, benchmark, settings)
            modes = [key.mode for key in own]
            # The performance data is always needed: the warm-up and the probe send it.
            for mode in dict.fromkeys(["performance", *modes]):
                yield partial(self._check_data, benchmark, mode, is_sent=bool(own))
            if "accuracy" in modes:
                yield self.scorer(benchmark).check
                yield partial(self._check_scorer_option, benchmark)

    def _check_reachable(self) -> None:
        check_model_is_reachable(self.settings, source_of(self.settings).model_hint)

    def _check_model_files(self) -> None:
        """Raise UsageError for a model that is not there, or weights that are not whole."""
        self._check_reachable()
        folder, settings = Path(self.model_path), self.settings
        remote = source_of(settings).is_remote
        # Other formats have files of their own, or none.
        of_files = settings.engine_args.get("load_format", "auto") in ("auto", "safetensors")
        if remote or settings.has_carried_model or not of_files or not folder.is_dir():
            return
        if fault := weight_fault(folder):
            raise UsageError(f"--model {settings.model}: {fault}")

    def _check_data(self, benchmark: Benchmark, mode: str, *, is_sent: bool) -> None:
        """Raise UsageError for data that cannot be read or sent.

        `is_sent`: whether runs send it, so that each prompt must fit the model.
        """
        self.workload(benchmark).prompt.check(self.samples(benchmark, mode).items)
        settings = self.settings
        is_own = settings.has_carried_model and settings.dataset == "embedded"
        if not is_sent or is_own:
            return
        self._check_reachable()
        if (context := self._context) is not None:
            self.check_prompts(benchmark, context, mode)
        else:
            self.prompts(benchmark, mode)

    @property
    def _context(self) -> int | None:
        """The engine's context in tokens, as options and the model's files say; None if they do
        not: a server has its own."""
        settings, facts = self.settings, self._model_facts or {}
        own, rope = facts.get("max_position_embeddings"), facts.get("rope_scaling") or {}
        kind = rope.get("rope_type") if isinstance(rope, Mapping) else None
        if source_of(settings).is_remote or "hf_overrides" in settings.engine_args:
            return None
        if settings.max_model_len is not None or not isinstance(own, int):
            return settings.max_model_len
        is_known = kind in (None, "default", "llama3")
        return min(own, self.context_needed or own) if is_known else None

    def _check_scorer_option(self, benchmark: Benchmark) -> None:
        """Raise UsageError for an official accuracy run without what its scorer needs: its answers
        cannot be scored later."""
        option, settings = self.workload(benchmark).scorer_option, self.settings
        if option and settings.feature_options[option.name] is None and not settings.smoke:
            flag = OPTIONS_OF_FEATURES[option.name].flag
            raise UsageError(
                f"{flag}: {benchmark.id}{option.need}, or select no accuracy run (-m performance)"
            )

    def not_judged(self, keys: Sequence[StepKey]) -> list[str]:
        """What this machine cannot judge in the accuracy runs among `keys`, a line each.

        Known before an engine is loaded, so that the user can still act on it.
        """
        scored = {key.benchmark for key in keys if key.mode == "accuracy"}
        lines = []
        for benchmark in (entry for entry in self.benchmarks if entry.id in scored):
            samples = self.samples(benchmark, "accuracy").items
            if why := obstacle_of(self.scorer(benchmark), samples):
                lines.append(f"{benchmark.id}: programs in answers will not be judged here: {why}")
        return lines

    def _check_model(self, benchmark: Benchmark) -> None:
        """Raise UsageError for an official run of a model that is not the benchmark's.

        A model is recognized by its hub id, or by what its files say of it.
        """
        self._check_reachable()
        workload, settings = self.workload(benchmark), self.settings
        if settings.smoke or settings.allow_other_model or self._is_model(workload):
            return
        facts = self._model_facts
        differences = [] if facts is None else workload.model_identity.differences(facts)
        raise UsageError(
            f"--model {settings.model}: not {benchmark.id}'s model {workload.model} "
            f"({', '.join(differences) or 'its config.json cannot be read'}); --allow-other-model "
            "runs it without a reference accuracy"
        )

    def _check_round(self, benchmark: Benchmark, names: Sequence[str]) -> None:
        """Raise UsageError for an official run that its round does not offer. `names`: of its
        scenario."""
        round_, scenarios = self.settings.round.name, benchmark.scenarios
        offers = [(benchmark.id, benchmark.rounds)]
        offers += [(f"{benchmark.id} {s.name}", s.rounds) for s in scenarios if s.name in names]
        for name, rounds in offers:
            if not self.settings.smoke and rounds and round_ not in rounds:
                raise UsageError(
                    f"--round {round_}: {name} is part of {', '.join(rounds)}; choose one of them"
                )

    def _check_media(self, benchmark: Benchmark) -> None:
        """Raise UsageError for prompts that the engine's kind does not pass on as they are."""
        media, source = self.workload(benchmark).media, source_of(self.settings)
        if media and not source.takes(media):
            raise UsageError(
                f"{source.option}: {benchmark.id}'s prompts carry {media}, which only vLLM in this "
                "process is given: leave the option out"
            )

    @property
    def media(self) -> Literal["", "sound", "picture"]:
        """What the prompts of this session carry beside tokens."""
        return next(filter(None, (self.workload(b).media for b in self.benchmarks)), "")

    @cached_property
    def model_path(self) -> str:
        """The folder or hub id that the engine loads."""
        model = self.settings.model
        return str(own_model_dir(model) or model)

    def workload(self, benchmark: Benchmark) -> Workload:
        """The workload of a benchmark under this session's profile."""
        return self.settings.workload(benchmark)

    def scorer(self, benchmark: Benchmark) -> Scorer:
        """The scorer of a benchmark's answers, with the option that it takes."""
        workload = self.workload(benchmark)
        option = workload.scorer_option
        given = option and self.settings.feature_options[option.name]
        return option.make(given) if option and given is not None else workload.scorer

    def _all_samples(self, benchmark: Benchmark, mode: str) -> Samples:
        workload = self.workload(benchmark)
        load = workload.part(mode).load
        if load not in self._loaded:
            self._loaded[load] = load(self.settings.dataset, self.settings.token)
        return workload.select(self._loaded[load])

    def samples(self, benchmark: Benchmark, mode: str = "performance") -> Samples:
        """The samples that a mode of a benchmark runs over, in QSL order."""
        key = (benchmark.id, self.workload(benchmark).part(mode).load)
        if key not in self._samples:
            every = self._all_samples(benchmark, mode)
            self._samples[key] = every.first(self.settings.total_sample_count)
        return self._samples[key]

    def stops(self, benchmark: Benchmark, mode: str) -> list[str]:
        """The text after which each sample's answer ends, "" for none; an empty list if the
        benchmark has no such texts."""
        texts = dict(self.workload(benchmark).part(mode).generation.stops)
        return [texts.get(s.kind, "") for s in self.samples(benchmark, mode).items] if texts else []

    def dropped(self, benchmark: Benchmark, mode: str) -> tuple[int, ...]:
        """The token ids that are dropped at the end of an answer before LoadGen gets it."""
        keeps = self.workload(benchmark).part(mode).generation.keeps_eos
        return () if keeps else self.eos_token_ids

    def of_kind(self, name: str) -> Any:
        """What a kind of run reads of its own, see `RunKind.inputs`."""
        if name not in self._of_kinds:
            self._of_kinds[name] = kind_named(name).inputs(self.settings)
        return self._of_kinds[name]

    @cached_property
    def tokenizer(self) -> Any:
        return load_tokenizer(self.model_path, self.settings.token)

    @cached_property
    def tokenizer_folder(self) -> Path | None:
        """The folder with the model's tokenizer.json, None if the model has none.

        For a hub id it is in the hub's cache. Raises UsageError if there is no tokenizer at all.
        """
        file = Path(self.model_path) / "tokenizer.json"
        if not Path(self.model_path).is_dir():
            from huggingface_hub import try_to_load_from_cache

            # Loading the tokenizer fetches its files and nothing else.
            _ = self.tokenizer
            cached = try_to_load_from_cache(self.model_path, file.name)
            file = Path(cached) if isinstance(cached, str) else file
        return file.parent if file.is_file() else None

    @cached_property
    def vocabulary(self) -> int:
        """The vocabulary size, which token ids stay below: the model's, or else the tokenizer's.

        A model's embedding can have rows that no token of its tokenizer uses.
        """
        config = self._model_facts or {}
        of_text = config.get("text_config")
        for entry in (config, of_text if isinstance(of_text, Mapping) else {}):
            if isinstance(size := entry.get("vocab_size"), int) and size > 0:
                return size
        return len(self.tokenizer)

    def prompts(self, benchmark: Benchmark, mode: str = "performance") -> Sequence[Sequence[int]]:
        """The token ids of each sample's prompt."""
        workload = self.workload(benchmark)
        key = (benchmark.id, workload.part(mode).load)
        if key not in self._prompts:
            items = self.samples(benchmark, mode).items
            self._prompts[key] = workload.prompt.encode(items, self.tokenizer)
        return self._prompts[key]

    def lengths(self, benchmark: Benchmark, mode: str = "performance") -> TokenLengths:
        """The lengths of prompts and answers, in tokens, for time estimates."""
        most = self.generation(benchmark, mode).max_new_tokens
        answer = min(self.workload(benchmark).part(mode).mean_tokens, most)
        return TokenLengths([len(prompt) for prompt in self.prompts(benchmark, mode)], answer)

    def check_prompts(
        self, benchmark: Benchmark, max_model_len: int, mode: str = "performance"
    ) -> None:
        """Raise UsageError for a prompt that leaves no room to answer in an engine's context."""
        room = max_model_len - max(1, self.generation(benchmark, mode).min_new_tokens)
        for index, prompt in enumerate(self.prompts(benchmark, mode)):
            if len(prompt) > room:
                remote = source_of(self.settings).is_remote
                raise UsageError(
                    f"sample {index}: its prompt of {len(prompt):,} tokens does not fit the "
                    f"engine's context of {max_model_len:,}: "
                    + ("start the server with more" if remote else "raise --max-model-len")
                    + " or leave it out"
                )

    @cached_property
    def eos_token_ids(self) -> tuple[int, ...]:
        """The token ids with which the model ends an answer."""
        return end_of_text_ids(self.model_path, self.tokenizer, self.settings.token)

    def generation(self, benchmark: Benchmark, mode: str = "performance") -> Generation:
        """The generation settings of a mode, with the longest answer that the user allows."""
        return self.settings.generation(benchmark, mode)

    def generation_by_mode(self, benchmark: Benchmark) -> dict[str, object]:
        """config.json's `generation_by_mode`: the modes with generation settings of their own."""
        modes = self.workload(benchmark).parts
        value = {mode: self.generation(benchmark, mode).as_json() for mode in modes}
        return {"generation_by_mode": value} if value else {}

    @property
    def context_needed(self) -> int | None:
        """The longest sequence that any of the benchmarks needs, in tokens."""
        return self.settings.context_needed(self.benchmarks)

    @cached_property
    def _model_facts(self) -> Mapping[str, object] | None:
        """What the model's files say of it, None if they cannot be read."""
        from transformers.utils.hub import cached_file

        def read(name: str) -> str | None:
            path = cached_file(
                self.model_path,
                name,
                token=self.settings.token,
                _raise_exceptions_for_missing_entries=False,
            )
            return Path(path).read_text(encoding="utf-8") if path else None

        try:
            return model_facts(read)
        # The hub's client and transformers raise many kinds of errors; all mean the same here.
        except Exception:
            return None

    def _is_model(self, workload: Workload) -> bool:
        """Whether the model is the workload's; a folder's name says nothing."""
        name = self.settings.model
        by_files = bool(workload.model_identity.shape) and Path(self.model_path).is_dir()
        if not by_files and workload.is_model(name, None):
            return True
        return workload.is_model(name, self._model_facts)

    def possible_models(self, benchmark: Benchmark) -> str:
        """Other models that it may be, though nothing shows it; empty if that is not a question."""
        workload = self.workload(benchmark)
        if not workload.model_identity.shape or not self._is_model(workload):
            return ""
        if source_of(self.settings).is_remote:
            only = f"only the server says that it is {workload.model}"
            return f"{only}: its files are not on this machine"
        if not Path(self.model_path).is_dir():
            return ""
        names = workload.model_identity.possible_models(self._model_facts or {})
        others = " or ".join([*names, "a model trained further from it"])
        return f"its files do not distinguish {workload.model} from {others}"

    def reference(
        self,
        benchmark: Benchmark,
        answers: int,
        mode: str = "accuracy",
        *,
        reference: ReferenceAccuracy | None = None,
    ) -> tuple[ReferenceAccuracy | None, str]:
        """The reference accuracy of this model over the first `answers` samples; None, and why, if
        there is no measurement of it. `reference`: a scenario's, in place of the workload's."""
        workload, settings = self.workload(benchmark), self.settings
        workload = replace(workload, reference=reference or workload.reference)
        return find_reference(
            workload,
            settings.model,
            settings.dataset,
            answers,
            is_model=self._is_model(workload),
            available=len(self._all_samples(benchmark, mode).items),
            whole=benchmark.own_samples_of(mode),
        )

    def deviations(
        self,
        benchmark: Benchmark,
        scenario: Scenario,
        engine_settings: Mapping[str, object],
        *,
        mode: str = "performance",
        max_model_len: int | None = None,
    ) -> tuple[str, ...]:
        """How the generation of answers differs from the benchmark's, a few words each.

        `engine_settings`: the engine's own description of its settings. `max_model_len`: the
        engine's context, if known.
        """
        room = None
        if max_model_len:
            room = max_model_len - max(map(len, self.prompts(benchmark, mode)))
        longest = self.generation(benchmark, mode).max_new_tokens
        workload = self.workload(benchmark)
        deviations = find_deviations(workload, longest, engine_settings, mode, room=room)
        return deviations + self.speculation(benchmark, scenario, engine_settings).deviations

    def speculation(
        self, benchmark: Benchmark, scenario: Scenario, engine_settings: Mapping[str, object]
    ) -> SpeculationFaults:
        """The faults and unknown settings of an engine's speculative decoding."""
        return find_speculation(benchmark, scenario, self.settings.round, engine_settings)

    def data_json(self, benchmark: Benchmark) -> dict[str, object]:
        """config.json's `dataset`; `parts` holds the modes with separate data that was read."""
        parts = {
            mode: self._data_of(benchmark, mode)
            for mode, part in self.workload(benchmark).parts.items()
            if part.load in self._loaded
        }
        return {**self._data_of(benchmark, "performance"), **({"parts": parts} if parts else {})}

    def _data_of(self, benchmark: Benchmark, mode: str) -> dict[str, object]:
        samples = self.samples(benchmark, mode)
        return {"name": samples.name, "samples": len(samples.items), "sha256": samples.sha256}

    def prompts_sha256(self, benchmark: Benchmark) -> str | None:
        """A fingerprint of the prompts, None if they were not made yet."""
        key = (benchmark.id, self.workload(benchmark).load)
        prompts = self._prompts.get(key)
        if prompts is None:
            return None
        if key not in self._prints_of_prompts:
            self._prints_of_prompts[key] = _sha256(prompts)
        return self._prints_of_prompts[key]


def _sha256(prompts: Sequence[Sequence[int]]) -> str:
    """The hash of the whole list as JSON, fed piece by piece since prompts can be long.

    That of a prompt's media follows its tokens.
    """
    digest = hashlib.sha256(b"[")
    for index, prompt in enumerate(prompts):
        digest.update(f"{', ' if index else ''}{json.dumps(list(prompt))}".encode())
        if isinstance(prompt, MediaPrompt):
            digest.update(prompt.media.sha256.encode())
    digest.update(b"]")
    return digest.hexdigest()
