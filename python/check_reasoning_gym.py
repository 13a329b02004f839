#!/usr/bin/env python3
"""Checks the adapter against reasoning-gym itself: golden items and scores, through the protocol.

    python/check_reasoning_gym.py [--all]     with a Python that has reasoning-gym 0.1.25

The golden items (tests/golden/reasoning_gym.json) were made by the library without this adapter.
With --all, every data set of the library is asked for an item twice, in two processes, and its own
answer is scored.
"""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent / "tests" / "golden" / "reasoning_gym.json"


class Worker:
    def __init__(self, settings):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mainspring_env", "reasoning-gym"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=HERE,
            env={**os.environ, "PYTHONHASHSEED": "0"},  # as Mainspring starts it
        )
        self._episode = 0
        self.ask(type="hello", protocol=1, settings=settings)

    def ask(self, **request):
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if answer["type"] == "error":
            raise RuntimeError(answer["message"])
        return answer

    def question(self, seed, index):
        self._episode += 1
        said = self.ask(type="start", episode=self._episode, seed=seed, index=index)
        return said["messages"][-1]["content"]

    def score(self, text):
        """Of the question asked last."""
        said = self.ask(type="step", episode=self._episode, text=text, is_complete=True)
        self.ask(type="close", episode=self._episode)
        return said["rewards"]["score"]

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=60)


def check_golden():
    wrong = 0
    items = scores = 0
    for task in json.loads(GOLDEN.read_text())["tasks"]:
        config = {key: value for key, value in task["config"].items() if key != "seed"}
        worker = Worker({"dataset": task["task"], "config": config})
        for item in task["items"]:
            items += 1
            for answer, score in item["scores"].items():
                question = worker.question(task["seed"], item["index"])
                if answer == "<null>":
                    continue
                scores += 1
                got = worker.score(answer)
                if question != item["question"] or abs(got - score) > 1e-12:
                    wrong += 1
                    print(f"{task['task']} seed {task['seed']} item {item['index']} {answer!r}: "
                          f"{got}, expected {score}")
        worker.close()
    print(f"golden: {items} items, {scores} scores, {wrong} wrong")
    return wrong


def check_all():
    import reasoning_gym
    from reasoning_gym.factory import DATASETS

    wrong = 0
    for name in sorted(DATASETS):
        if name == "composite":
            continue  # made of other data sets, which its config must name
        try:
            questions = []
            for _ in range(2):
                worker = Worker({"dataset": name})
                questions.append(worker.question(5, 1000))
                # The first item of the third 500: the same as item 1000 where there is no end.
                item = reasoning_gym.create_dataset(name, seed=1005)[0]
                score = worker.score(str(item["answer"]))
                worker.close()
        except Exception as error:  # the report names them all
            print(f"{name}: {type(error).__name__}: {error}")
            wrong += 1
            continue
        if questions[0] != questions[1]:
            print(f"{name}: two processes give two questions")
            wrong += 1
        elif score < 1:
            print(f"{name}: its own answer scores {score}")
    print(f"all: {len(DATASETS)} data sets, {wrong} cannot be used")
    return wrong


def main():
    import importlib.metadata

    print("reasoning-gym", importlib.metadata.version("reasoning-gym"))
    wrong = check_golden()
    if "--all" in sys.argv[1:]:
        wrong += check_all()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
