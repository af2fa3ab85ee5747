"""An engine that is a server at an OpenAI-compatible URL, reached over HTTP."""
