"""LoadGen beside a clock that is moved, and its own trace beside the suite's times."""
