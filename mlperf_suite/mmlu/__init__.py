"""MMLU on an engine of ours: lm-eval's tasks, prompts and aggregation, and nothing of our own.

`lm_eval_tasks` and `engine_lm` import lm_eval, and so torch; they are imported when MMLU runs.
"""
