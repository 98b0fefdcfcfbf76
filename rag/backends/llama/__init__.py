"""A model from a GGUF file, without a server: llama.cpp's own server, in a child process, on demand."""
