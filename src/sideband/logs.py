"""The log of the library. Secrets are masked in what is written, tracebacks included."""

import logging
import traceback
from typing import Any, Final

from sideband.core.masking import mask_text


class MaskedLog(logging.LoggerAdapter[logging.Logger]):
    """Masks the text of each record before it reaches a handler."""

    def log(self, level: int, msg: object, *args: object, **options: Any) -> None:  # noqa: ANN401 - of `Logger.log`
        if not self.isEnabledFor(level):
            return
        text = str(msg) % args if args else str(msg)
        error = options.pop("exc_info", None)
        if isinstance(error, BaseException):
            text = f"{text}\n{''.join(traceback.format_exception(error))}".rstrip()
        elif error:
            text = f"{text}\n{traceback.format_exc()}".rstrip()
        super().log(level, "%s", mask_text(text), **options)


LOG: Final = MaskedLog(logging.getLogger("sideband"), {})


def quieten(library: str) -> None:
    """Let another library log only what is critical: it would write what peers send, neither masked nor escaped."""
    logging.getLogger(library).setLevel(logging.CRITICAL)
