"""Measure the embedded task's baseline by a path that shares nothing with the engine.

Hugging Face transformers, greedy, one prompt at a time in float32, on the embedded news with the
embedded task's own prompts. Writes each sample's scores to the table beside the embedded news and
prints their means.

    python scripts/measure_baseline.py [--dtype float32]

With another data type it prints only: the baseline is float32's.
"""

from __future__ import annotations

import argparse
import dataclasses
import json

import torch
from transformers import AutoModelForCausalLM

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.prompts import encode_prompts, load_tokenizer
from mlperf_suite.benchmarks.workload import EMBEDDED, EMBEDDED_BASELINE_TABLE, ROUGE_NAMES
from mlperf_suite.datasets.news import load_news
from mlperf_suite.scorers.rouge import mean_scores, score_pairs


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
    references = [item.highlights for item in news.items]
    scored = score_pairs(list(zip(predictions, references, strict=True)))
    if dtype == "float32":
        header = ",".join([*ROUGE_NAMES, "characters"])
        lines = [",".join([*map(repr, row.measures), str(row.characters)]) for row in scored]
        EMBEDDED_BASELINE_TABLE.write_text("\n".join([header, *lines]) + "\n")
    print(json.dumps({"dtype": dtype, **dataclasses.asdict(mean_scores(scored))}, indent=2))


if __name__ == "__main__":
    main()
