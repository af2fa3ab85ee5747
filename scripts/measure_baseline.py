"""Measure the embedded task's baseline by a path that shares nothing with the engine.

Hugging Face transformers, greedy, one prompt at a time in float32, on the embedded news with the
embedded task's own prompts. Prints the figures that stand in mlperf_suite/benchmarks/tasks.py.

    python scripts/measure_baseline.py [--dtype float32]
"""

from __future__ import annotations

import argparse
import dataclasses
import json

import torch
from transformers import AutoModelForCausalLM

from mlperf_suite.accuracy.rouge import score_rouge
from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.tasks import EMBEDDED
from mlperf_suite.datasets.news import load_news
from mlperf_suite.datasets.prompts import encode_prompts, load_tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    dtype = parser.parse_args().dtype
    folder = str(embedded_model_dir())
    tokenizer = load_tokenizer(folder)
    news = load_news("embedded")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()
    predictions = []
    for prompt in encode_prompts(news.items, EMBEDDED, tokenizer):
        with torch.inference_mode():
            output = model.generate(
                torch.tensor([prompt]),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                do_sample=False,
                max_new_tokens=EMBEDDED.generation.max_new_tokens,
                min_new_tokens=EMBEDDED.generation.min_new_tokens,
            )
        predictions.append(tokenizer.decode(output[0, len(prompt) :], skip_special_tokens=True))
        print(f"{len(predictions)}/{len(news.items)}", flush=True)
    scores = score_rouge(predictions, [item.highlights for item in news.items])
    print(json.dumps({"dtype": dtype, **dataclasses.asdict(scores)}, indent=2))


if __name__ == "__main__":
    main()
