"""Any data set of reasoning-gym by name: one question, one answer, the library's own score.

A task is the data set's item `index` under the config's seed `seed`. Most data sets draw item i from
seed + i alone and have no end; some hold a list of `size` (500, or the config's). So the items
behind the first `size` are those of the data set of seed + size, which for most are the very same
as if there were no end. The library is imported when it is asked for, not before.
"""

import collections
import difflib
import re

from mainspring_env.protocol import Turn

# Data sets kept by seed: some build tables when they are made.
_KEPT_SEEDS = 16


def find_answer(text, place):
    """The part of a reply that is scored; None where there is none."""
    if place == "whole":
        return text
    if place == "trimmed":
        return text.strip()
    if place == "last_line":
        lines = text.strip().splitlines()
        return lines[-1].strip() if lines else None
    if place == "tag":
        found = re.findall(r"<answer>(.*?)</answer>", text, flags=re.DOTALL)
        return found[-1].strip() if found else None
    raise ValueError(f"answer_at {place!r} is none of whole, trimmed, last_line, tag")


class ReasoningGym:
    def __init__(self, settings):
        try:
            import reasoning_gym
            from reasoning_gym.factory import DATASETS
        except ImportError as error:
            raise RuntimeError(
                "reasoning-gym cannot be imported; install it for this Python "
                "(python3 -m pip install reasoning-gym) or name another one with python = ..."
            ) from error
        self._create = reasoning_gym.create_dataset
        self._dataset = settings["dataset"]
        if self._dataset not in DATASETS:
            near = difflib.get_close_matches(self._dataset, list(DATASETS), n=1, cutoff=0.0)
            raise ValueError(
                f"reasoning-gym has no data set {self._dataset!r}; the nearest is {near[0]!r}, "
                f"of {len(DATASETS)}"
            )
        self._config = dict(settings.get("config", {}))
        if "seed" in self._config:
            raise ValueError("config: the seed is given with each task, not here")
        self._answer_at = settings.get("answer_at", "whole")
        self._system = settings.get("system", "")
        self._by_seed = collections.OrderedDict()
        self.name = "reasoning-gym/" + self._dataset
        self._size = len(self.dataset(0))  # a wrong config is refused now

    def dataset(self, seed):
        if seed not in self._by_seed:
            self._by_seed[seed] = self._create(self._dataset, seed=seed, **self._config)
            if len(self._by_seed) > _KEPT_SEEDS:
                self._by_seed.popitem(last=False)
        return self._by_seed[seed]

    def episode(self, seed, index):
        place = index % self._size
        return _Question(self, self.dataset(seed + index - place), place)

    def messages(self, question):
        system = [{"role": "system", "content": self._system}] if self._system else []
        return system + [{"role": "user", "content": question}]

    def answer(self, text, is_complete):
        return find_answer(text, self._answer_at) if is_complete else None


class _Question:
    def __init__(self, gym, dataset, place):
        self._gym = gym
        self._dataset = dataset
        self._item = dataset[place]

    def start(self):
        return self._gym.messages(self._item["question"])

    def step(self, text, is_complete):
        answer = self._gym.answer(text, is_complete)
        return Turn(True, {"score": self._dataset.score_answer(answer, self._item)})
