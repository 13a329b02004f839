"""Gymnasium environments that can be played in text.

The observation is shown as text. An action is read from the reply: for a Text space the reply
itself, for a Discrete space its last integer, which must be in the space. A reply that is no action
is told so; it costs a turn and no step is made.
"""

import hashlib
import re

from mainspring_env.protocol import Turn


def seed_of(seed, index):
    """A seed that gymnasium takes, different for different tasks."""
    digest = hashlib.sha256(f"{seed}/{index}".encode()).digest()
    return int.from_bytes(digest[:4], "little")


class Gymnasium:
    def __init__(self, settings):
        try:
            import gymnasium
        except ImportError as error:
            raise RuntimeError(
                "gymnasium cannot be imported; install it for this Python "
                "(python3 -m pip install gymnasium) or name another one with python = ..."
            ) from error
        self._gymnasium = gymnasium
        self._id = settings["id"]
        self._config = dict(settings.get("config", {}))
        self.max_turns = settings.get("max_turns", 100)
        self.system = settings.get("system", "")
        self.name = "gymnasium/" + self._id
        environment = self.make()
        self.read_action("", environment.action_space)  # refuses spaces that are no text
        environment.close()

    def make(self):
        return self._gymnasium.make(self._id, **self._config)

    def episode(self, seed, index):
        return _Play(self, seed_of(seed, index))

    def read_action(self, text, space):
        """(action, problem): one of them is None."""
        spaces = self._gymnasium.spaces
        if isinstance(space, spaces.Text):
            if space.contains(text):
                return text, None
            return None, f"That is no action: expected a text of {space}."
        if isinstance(space, spaces.Discrete):
            first, last = int(space.start), int(space.start + space.n) - 1
            found = re.findall(r"-?\d+", text)
            if found and first <= int(found[-1]) <= last:
                return int(found[-1]), None
            return None, f"That is no action: expected a number from {first} to {last}."
        raise ValueError(f"the action space {space} is neither Text nor Discrete")


class _Play:
    def __init__(self, gym, seed):
        self._gym = gym
        self._environment = gym.make()
        self._seed = seed
        self._turns = 0

    def start(self):
        observation, _ = self._environment.reset(seed=self._seed)
        system = [{"role": "system", "content": self._gym.system}] if self._gym.system else []
        return system + [{"role": "user", "content": str(observation)}]

    def step(self, text, is_complete):
        self._turns += 1
        done = not is_complete or self._turns >= self._gym.max_turns
        reward = 0.0
        said = "That is no action: it was cut."
        if is_complete:
            action, said = self._gym.read_action(text, self._environment.action_space)
            if said is None:
                observation, reward, terminated, truncated, _ = self._environment.step(action)
                done = done or terminated or truncated
                said = str(observation)
        return Turn(done, {"reward": float(reward)}, said)

    def close(self):
        self._environment.close()
