"""How fast an engine is, and the consequences for the plan: times, sizes and rates of its runs."""
