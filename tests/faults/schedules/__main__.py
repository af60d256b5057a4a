"""Play one schedule again and print what happened: `python -m tests.faults.schedules SCENARIO SEED`."""

import sys

from tests.faults.schedules.playing import judge, play


def main(scenario: str, seed: str) -> int:
    """The journal, the answers, the runs and the laws that were broken; 1 if there are any."""
    verdict = judge(scenario, int(seed))
    if verdict.error is not None:
        raise verdict.error
    history = play(scenario, int(seed))
    for place, event in enumerate(history.events):
        print(f"{place:4} {event}")  # noqa: T201 - this is a command
    for entry in (*history.world.told, *history.world.runs, *verdict.broken):
        print(entry)  # noqa: T201 - the same
    return int(bool(verdict))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
