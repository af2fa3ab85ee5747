"""MMLU: its data, its reports, and the score from several engines."""
