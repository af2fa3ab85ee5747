"""MLCommons' official HTTP client, `inference-endpoint`, as a part: configured, started, ended."""
