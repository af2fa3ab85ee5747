"""Real servers and engines: vLLM, llama.cpp, transformers serve."""
