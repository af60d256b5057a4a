"""A role hint that only one family of models has a place for."""

import sideband as sb


async def quote_policy(session) -> None:  # noqa: ANN001 - any session will do
    await session.remind(
        "The policy excerpt in docs/policy.md applies to this turn.",
        ttl_turns=1,
        role_hint="user_block",  # HARN-RMD-003: the model below has no user blocks
    )
    await sb.agent_loop("Answer the ticket", session=session, model="openai:gpt-5.6")
