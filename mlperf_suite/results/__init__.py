"""The results of a run: its folder and summary, and the regression gate that compares two of
them."""
