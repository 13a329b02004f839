"""Stands in for gymnasium in tests: a walk along a line, and a game of repeating a word."""


class spaces:  # noqa: N801, a module there
    class Discrete:
        def __init__(self, n, start=0):
            self.n = n
            self.start = start

    class Text:
        def contains(self, text):
            return len(text) <= 10

        def __repr__(self):
            return "Text(0, 10)"

    class Box:
        pass


class _Line:
    """Actions 1 (left) and 2 (right) from the seed's place; place 3 is the end."""

    action_space = spaces.Discrete(2, start=1)

    def reset(self, seed):
        self.place = seed % 3
        return f"place {self.place}", {}

    def step(self, action):
        self.place += 1 if action == 2 else -1
        return f"place {self.place}", float(self.place == 3), self.place == 3, False, {}

    def close(self):
        pass


class _Repeat(_Line):
    action_space = spaces.Text()

    def reset(self, seed):
        return "say hi", {}

    def step(self, action):
        return "done", 1.0 if action == "hi" else 0.0, False, True, {}


class _Steer(_Line):
    action_space = spaces.Box()


def make(name, **config):
    assert config in ({}, {"size": 3})
    return {"Line-v0": _Line, "Repeat-v0": _Repeat, "Steer-v0": _Steer}[name]()
