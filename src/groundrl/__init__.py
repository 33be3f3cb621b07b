"""GroundRL: reinforcement learning of vision-language models that must ground what they say."""

__version__ = "0.1.0"
