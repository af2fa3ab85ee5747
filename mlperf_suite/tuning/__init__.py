"""The search for an engine's best settings, each trial a kept run of the suite."""
