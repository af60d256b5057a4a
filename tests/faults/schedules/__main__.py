"""Play one schedule again and print what happened: `python -m tests.faults.schedules SCENARIO SEED`."""

import sys

from tests.faults.schedules.play import judge, play


def main(scenario: str, seed: str) -> int:
    """Print the journal, the answers, the runs and the laws that were broken; 1 if there are any."""
    verdict = judge(scenario, int(seed))
    if verdict.error is not None:
        raise verdict.error
    history = play(scenario, int(seed))
    lines = [f"{place:4} {event}" for place, event in enumerate(history.events)]
    lines.extend(map(str, (*history.world.told, *history.world.runs, *verdict.broken)))
    sys.stdout.write("\n".join([*lines, ""]))
    return int(bool(verdict))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
