"""whisper: transcripts of LibriSpeech's clips by whisper-large-v3, Offline.

Sources: speech2text/README.md, QSL.py and reference_SUT.py of mlcommons/inference (prompt, at most
200 tokens, temperature 0, a context of 448, the reference's word error rate of 2.0671%), and
compliance/TEST01/whisper/audit.config (as long as a performance run, 4,096 answers logged).
"""

from __future__ import annotations

from dataclasses import replace

from mlperf_suite.benchmarks.audits import Audit
from mlperf_suite.benchmarks.definition import (
    ALL_ROUNDS,
    COUNTED_IN_A_SENTENCE,
    NO_MARKS,
    WORD_ACCURACY,
    Benchmark,
    Generation,
    ReferenceAccuracy,
    Workload,
    at_least,
    from_a_file,
    offline,
)
from mlperf_suite.benchmarks.model_marks import ModelMarks, Sibling
from mlperf_suite.benchmarks.prompts import TokensBesideMedia
from mlperf_suite.features.multimodal.speech import load_speech
from mlperf_suite.features.multimodal.word_accuracy import WordAccuracyScorer
from mlperf_suite.random_models import RANDOM_WHISPER

_SAMPLES, _OWN_CLIPS, _SMOKE_TOKENS = 1_633, 32, 48
_REFERENCE = ReferenceAccuracy((at_least(WORD_ACCURACY, 100 - 2.0671),), _SAMPLES)
_OFFICIAL = Workload(
    model="openai/whisper-large-v3",
    marks=ModelMarks(
        shape={
            "model_type": "whisper",
            "d_model": 1280,
            "encoder_layers": 32,
            "decoder_layers": 32,
            "num_mel_bins": 128,
            "vocab_size": 51866,
        },
        siblings=(
            Sibling("openai/whisper-large-v2", "num_mel_bins"),
            Sibling("openai/whisper-large-v3-turbo", "decoder_layers"),
        ),
    ),
    load=from_a_file("the manifest of its repacked clips (dev-all-repack.json)", load_speech),
    prompt=TokensBesideMedia(
        ("<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>")
    ),
    generation=Generation(max_new_tokens=200, min_new_tokens=0, top_k=0, seed=None),
    scorer=WordAccuracyScorer(),
    reference=_REFERENCE,
    # Of the references' lengths: some 75 words in clips that approach 30 s. Not published.
    mean_tokens=100,
    prompt_tokens=4,
    context=448,
    media="sound",
)
TEST01 = Audit(
    "test01",
    queries=_SAMPLES,
    logged=4096,
    compares=True,
    also_verified_in="verify_performance.txt",
)
WHISPER = Benchmark(
    "whisper",
    "datacenter",
    _SAMPLES,
    (offline("whisper"),),
    ALL_ROUNDS,
    # The id of <|endoftext|>.
    (50257,),
    _REFERENCE,
    (TEST01,),
    workload=_OFFICIAL,
    smoke=replace(
        _OFFICIAL,
        model=RANDOM_WHISPER,
        marks=NO_MARKS,
        load=load_speech,
        dataset="embedded",
        generation=replace(_OFFICIAL.generation, max_new_tokens=_SMOKE_TOKENS),
        mean_tokens=_SMOKE_TOKENS,
        ungated="random weights: no answer is meant",
        own_samples=_OWN_CLIPS,
    ),
    counted_as=COUNTED_IN_A_SENTENCE,
    required=(("Offline",),),
    answers_as_text=True,
    # `labels` in accuracy_eval.py: space, a to z, the apostrophe, digits and $%+-.
    letters=42,
    also="edge",
)
BENCHMARKS = (WHISPER,)
