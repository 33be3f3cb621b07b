"""The tiny VLM: real Qwen2.5-VL architecture at 0.8 M parameters, its tokenizer and its warm-up."""

CONFIG_MODULES: tuple[str, ...] = ()
