"""nvidia-smi: what its outputs say, over the generations of drivers. Pure readers of text; they judge nothing."""
