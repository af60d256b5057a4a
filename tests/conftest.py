"""The sizes in which property tests run; the environment variable `HYPOTHESIS_PROFILE` chooses one."""

import os
import signal

from hypothesis import HealthCheck, settings

from tests.faults.replay import pytest_terminal_summary

__all__ = ["pytest_terminal_summary"]

# A shell lets what it runs in the background ignore the interrupt, and so would every program that a test starts to
# interrupt it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# The same for the hang-up and `nohup`.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Hypothesis itself starts from other values when it believes to be in CI, hence the named parent. No profile has a
# deadline: how long an example takes says more about the machine than about the code.
settings.register_profile(
    "default",
    settings.get_profile("default"),
    max_examples=50,
    deadline=None,
    print_blob=True,
)
# The same examples in every run: a build turns red because of a change, never because of a lucky draw. New examples
# are looked for by everybody's own runs and by the soak.
settings.register_profile(
    "ci",
    settings.get_profile("default"),
    max_examples=200,
    derandomize=True,
    database=None,
)
settings.register_profile(
    "soak",
    settings.get_profile("default"),
    max_examples=10_000,
    stateful_step_count=200,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
