"""How long steps take, as the probe and the estimator say, on engines of known cost."""
