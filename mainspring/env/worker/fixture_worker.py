"""A worker for tests: it does what the text of an action says, badly on request.

It speaks the protocol by itself, as somebody who read only its description would.
"""

import json
import os
import sys
import time


def say(**message):
    print(json.dumps(message), flush=True)


def error(message, kind="exception"):
    say(type="error", kind=kind, message=message)


def misbehave(how):
    """Does what `how` names; True if it gave an answer of its own, False if it names nothing."""
    if how == "hang":
        time.sleep(1000)
    elif how == "exit":
        print("went away", file=sys.stderr, flush=True)
        os._exit(3)
    elif how == "abort":
        os.abort()
    elif how == "raise":
        error("ValueError: as asked")
        return True
    elif how == "garbage":
        print("hello there", flush=True)
        return True
    elif how == "list":
        print("[1]", flush=True)
        return True
    elif how == "memory":
        kept = []
        while True:
            kept.append(bytearray(1 << 24))
    elif how == "said_memory":
        error("no memory", "memory")
        return True
    elif how == "deaf":
        os.close(1)
        time.sleep(1000)
    return False


class Worker:
    def __init__(self):
        self.settings = {}
        self.steps = {}

    def answer(self, request):
        kind = request["type"]
        if misbehave(self.settings.get("on_" + kind)):
            return
        if kind == "hello":
            self.settings = request["settings"]
            if misbehave(self.settings.get("on_hello")):
                return
            say(
                type="ready",
                protocol=self.settings.get("protocol", 1),
                name="fixture",
                num_tasks=self.settings.get("num_tasks", 0),
            )
            return
        number = request["episode"]
        if kind == "start":
            self.steps[number] = []
            task = "%d/%d" % (request["seed"], request["index"])
            messages = [{"role": "user", "content": task}]
            say(type="observation", episode=number, messages=messages)
        elif kind == "step":
            self.step(number, request["text"], request["is_complete"])
        elif kind == "close":
            self.steps.pop(number, None)
            say(type="closed", episode=number)

    def step(self, number, text, is_complete):
        if misbehave(text):
            return
        self.steps[number].append(text)
        said = "so far: " + ",".join(self.steps[number])
        if text == "pid":
            said = str(os.getpid())
        if text == "fork":
            try:
                child = os.fork()
                if child == 0:
                    os._exit(0)
                os.waitpid(child, 0)
                said = "forked"
            except PermissionError:
                said = "refused"
        if text == "nan":
            say(type="feedback", episode=number, done=True, rewards={"x": float("nan")})
        elif text == "text":
            say(type="feedback", episode=number, done=True, rewards={"x": "1"})
        elif text == "other":
            say(type="feedback", episode=number + 1, done=True, rewards={})
        elif text == "mute":
            say(type="feedback", episode=number, done=False, rewards={})
        elif text.startswith("done"):
            rewards = {"length": 0.5 * len(text), "complete": 1.0 if is_complete else 0.0}
            say(type="feedback", episode=number, done=True, rewards=rewards)
        else:
            messages = [{"role": "tool", "content": said}]
            say(type="feedback", episode=number, done=False, rewards={}, messages=messages)


def main():
    worker = Worker()
    for line in sys.stdin:
        worker.answer(json.loads(line))


main()
