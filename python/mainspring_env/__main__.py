"""python3 -m mainspring_env reasoning-gym | gymnasium: a worker on stdin and stdout."""

import sys

from mainspring_env.protocol import serve


def main(arguments):
    if arguments == ["reasoning-gym"]:
        from mainspring_env.reasoning_gym_adapter import ReasoningGym

        serve(ReasoningGym)
    elif arguments == ["gymnasium"]:
        from mainspring_env.gymnasium_adapter import Gymnasium

        serve(Gymnasium)
    else:
        print("usage: python3 -m mainspring_env reasoning-gym | gymnasium", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
