"""The worker's side of Mainspring's protocol: one JSON object per line, one answer per request.

Only the standard library is used. What the environment prints goes to stderr, so that it cannot
spoil an answer.
"""

import dataclasses
import json
import os
import sys
import traceback

PROTOCOL = 1


@dataclasses.dataclass
class Turn:
    """What the environment says to an action.

    rewards: numbers by part; the turn's reward is their sum.
    messages: a string (one user message) or a list of {"role", "content"}; needed unless done.
    """

    done: bool
    rewards: dict = dataclasses.field(default_factory=dict)
    messages: object = ()


def as_messages(said):
    if isinstance(said, str):
        return [{"role": "user", "content": said}]
    return [{"role": str(m["role"]), "content": str(m["content"])} for m in said]


class _Session:
    """The environment and its open episodes."""

    def __init__(self, make):
        self._make = make
        self._environment = None
        self._episodes = {}

    def answer(self, request):
        kind = request["type"]
        if kind == "hello":
            if request["protocol"] != PROTOCOL:
                raise ValueError(f"protocol {request['protocol']} is not {PROTOCOL}")
            self._environment = self._make(request.get("settings", {}))
            return {
                "type": "ready",
                "protocol": PROTOCOL,
                "name": getattr(self._environment, "name", ""),
                "num_tasks": getattr(self._environment, "num_tasks", 0),
            }
        number = request["episode"]
        if kind == "start":
            episode = self._environment.episode(request["seed"], request["index"])
            messages = as_messages(episode.start())
            self._episodes[number] = episode
            return {"type": "observation", "episode": number, "messages": messages}
        if kind == "step":
            turn = self._episodes[number].step(request["text"], request["is_complete"])
            return {
                "type": "feedback",
                "episode": number,
                "done": bool(turn.done),
                "rewards": {str(part): float(reward) for part, reward in turn.rewards.items()},
                "messages": as_messages(turn.messages),
            }
        if kind == "close":
            episode = self._episodes.pop(number, None)
            if hasattr(episode, "close"):
                episode.close()
            return {"type": "closed", "episode": number}
        raise ValueError(f"unknown request {kind!r}")


def serve(make):
    """Answers requests until stdin ends. `make(settings)` gives the environment."""
    requests = sys.stdin
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    session = _Session(make)
    for line in requests:
        number = None
        try:
            request = json.loads(line)
            number = request.get("episode")
            answer = session.answer(request)
            text = json.dumps(answer, allow_nan=False)
        except MemoryError:
            answers.write('{"type": "error", "kind": "memory", "message": "out of memory"}\n')
            answers.flush()
            return
        except Exception as error:  # every failure of the environment is told, none ends the loop
            traceback.print_exc(file=sys.stderr)
            text = json.dumps(
                {
                    "type": "error",
                    "kind": "exception",
                    "episode": number,
                    "message": f"{type(error).__name__}: {error}",
                }
            )
        answers.write(text + "\n")
        answers.flush()
