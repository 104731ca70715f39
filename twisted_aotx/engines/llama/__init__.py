"""
The `llama` engine: GGUF models through llama.cpp, in a child process per engine.

Two processes. `engine`, `process` and `options` belong to the runtime; `child`,
`batch`, `model` and `binding` to the child, which imports neither Twisted nor numba.
`frames` is what they speak, `message_format` and `format_file` say how a model wants a
conversation written. docs/models.md tells how to use it.
"""
