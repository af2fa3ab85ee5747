"""MMLU on the suite's engines, with lm-eval's own tasks, prompts and aggregation.

`lm_eval_tasks` and `engine_lm` import lm_eval, and therefore torch; they are imported when MMLU
runs.
"""
