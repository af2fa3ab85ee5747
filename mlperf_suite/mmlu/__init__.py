"""MMLU on the session's engine: lm-eval's tasks, prompts and aggregation, and nothing of our own.

`tasks` and `model` import lm_eval, and so torch; they are imported when MMLU runs.
"""
