"""How fast an engine is, and what follows for the plan: times, sizes and rates of its runs."""
