"""The MMLU score, from several engines."""
