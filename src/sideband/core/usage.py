"""What a request took."""

import msgspec


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a request cost, in tokens; `prompt_tokens` is the whole current prompt, cached or not.

    `cached_tokens` of them were read from the provider's cache, `written_tokens` were written to it.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0
    output_tokens: int = 0
