"""Measure the embedded workload's reference accuracy by a path that shares nothing with the engine.

Runs Hugging Face transformers, greedy, one prompt at a time in float32, on the embedded news with
the embedded workload's own prompts. Writes each sample's scores to the table from which the
reference of the first samples is read, and prints their means.

    python scripts/measure_reference.py [--dtype float32]

With another data type it only prints, since the reference is float32.
"""

from __future__ import annotations

import argparse
import json

import torch
from transformers import AutoModelForCausalLM

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.embedded import EMBEDDED, EMBEDDED_REFERENCE_TABLE
from mlperf_suite.benchmarks.prompts import load_tokenizer
from mlperf_suite.scorers.rouge import ROUGE_NAMES, mean_scores, score_pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    dtype = parser.parse_args().dtype
    folder = str(embedded_model_dir())
    tokenizer = load_tokenizer(folder)
    news = EMBEDDED.load(EMBEDDED.dataset, None)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()
    predictions = []
    for prompt in EMBEDDED.prompt.encode(news.items, tokenizer):
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
    references = [item.reference for item in news.items]
    scored = score_pairs(list(zip(predictions, references, strict=True)))
    if dtype == "float32":
        header = ",".join([*ROUGE_NAMES, "characters"])
        lines = [",".join([*map(repr, row.measures), str(row.characters)]) for row in scored]
        EMBEDDED_REFERENCE_TABLE.write_text("\n".join([header, *lines]) + "\n")
    print(json.dumps({"dtype": dtype, **mean_scores(scored).values}, indent=2))


if __name__ == "__main__":
    main()
