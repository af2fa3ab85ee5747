"""MMLU on the suite's engines, with lm-eval's own tasks, prompts and aggregation.

`engine_lm` imports lm_eval, and therefore torch; it is imported when MMLU runs.
"""
