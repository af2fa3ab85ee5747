"""Results of MLCommons' HTTP client: damaged ones, published ones, and those of the real client."""
