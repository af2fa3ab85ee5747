"""What MLCommons' official HTTP client (mlcommons/endpoints, inference-endpoint) writes, read."""
