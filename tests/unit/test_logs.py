"""The log of the protocols: secrets are masked in every record, and in tracebacks."""

import logging

import pytest

from sideband.logs import LOG

KEY = "sk-ant-api03-" + "a" * 40


def test_secrets_are_masked_in_texts_and_tracebacks(caplog: pytest.LogCaptureFixture) -> None:
    LOG.warning("the key is %s", KEY)
    LOG.warning("100 % plain")
    try:
        int(KEY)
    except ValueError as error:
        LOG.exception("it failed")
        LOG.error("it failed again", exc_info=error)
    assert KEY not in caplog.text
    assert caplog.text.count("ValueError: ") == 2
    assert "100 % plain" in caplog.text


def test_a_level_that_is_not_wanted_costs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Unreadable:
        def __str__(self) -> str:
            raise AssertionError

    caplog.set_level(logging.WARNING, logger="sideband")
    LOG.info("%s", Unreadable())
    assert caplog.records == []
