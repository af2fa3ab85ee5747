"""Real servers and engines: vLLM, llama.cpp, transformers serve; LiteLLM in front of a server."""
