"""Environments for Mainspring, played in a Python process of their own.

An environment is an object with `episode(seed, index)`; `serve` answers Mainspring for it. The
protocol is described in docs/howto/add_an_environment.md.
"""

from mainspring_env.protocol import PROTOCOL, Turn, serve

__all__ = ["PROTOCOL", "Turn", "serve"]
