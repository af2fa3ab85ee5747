"""Programs that a model might write to do harm, and what becomes of them in the sandbox."""
