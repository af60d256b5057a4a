"""Hooks: the events they may hang on and what they may return."""

from typing import Final

from tests.conformance.entry import Rules, Source, rules

EFFECTS: Final[Rules] = (
    *rules(
        Source.GUIDE_HOOK,
        {
            "hooks:worker:reminder-is-008": "A reminder effect returned from a worker event is HARN-RMD-008, and the error names the event.",
            "hooks:effects:reminder-and-then": "`{reminder, then}` is one reminder effect followed by the action in `then`.",
            "hooks:effects:bare-spec": "A bare reminder spec is one reminder effect.",
            "hooks:effects:list": "A list of effects stands for those effects, in that order.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "hooks:events:session-words": "The session events are session_start, session_end, user_prompt_submit, pre_compact, post_compact, post_turn, permission_asked, permission_replied, file_edited, session_error, session_idle, on_budget_threshold, post_tool_use, post_step, post_agent_turn, pre_finish and post_finish.",
            "hooks:events:worker-words": "The worker events are worker_spawned, worker_progressed, worker_waiting_for_input, worker_suspended, worker_resumed, worker_completed, worker_failed and worker_cancelled.",
            "hooks:effects:none": "A hook that returns `None` has no effect.",
            "hooks:effects:effects-object": "`{effects}` stands for the effects in its list, in that order.",
            "hooks:effects:anything-else-is-reported": "A value of any other form has no effect and is reported once per hook as a problem.",
            "hooks:effects:bad-list-item-is-an-error": "A list item that is not an effect is an error.",
            "hooks:effects:bad-reminder-is-an-error": "A `reminder` that is not a reminder spec is an error.",
            "hooks:then:deny": "`then` before a tool may deny the call and give a reason.",
            "hooks:then:args": "`then` before a tool may replace the arguments of the call.",
            "hooks:then:result": "`then` after a tool may replace its result.",
            "hooks:then:a-shortened-result-says-so": "A result that a hook shortened has `truncated: true` and `dropped_bytes`; without `dropped_bytes` it is an error.",
            "hooks:then:a-deny-keeps-its-effects": "Effects that are returned together with a deny take effect.",
        },
    ),
)

IN_THE_LOOP: Final[Rules] = (
    *rules(
        Source.GUIDE_HOOK,
        {
            "hooks:register:tool": "`register_tool_hook` runs `pre` and `post` around the calls of tools whose name matches its pattern.",
            "hooks:register:step": "`register_step_hook` runs around one iteration.",
            "hooks:register:persona": "`register_persona_hook` runs around the run of an agent whose name matches its pattern.",
            "hooks:register:session": "`register_session_hook` runs at the session event it names.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "hooks:timing:table": "Each session event fires between the two seams its row of the timing table names.",
            "hooks:timing:pre-finish-adds-an-iteration": "A reminder that a hook or provider adds at `pre_finish` adds one iteration that shows it, at most eight in a row.",
            "hooks:timing:earlier-events-add-none": "A reminder that is added at `post_agent_turn` or `post_step` after the last reply adds no iteration; the next request shows it.",
            "hooks:timing:after-the-closing-drain": "A reminder that a hook adds after the closing drain waits for the next prompt.",
            "hooks:timing:effects-precede-the-action": "Effects are injected in their order before the action is applied.",
            "hooks:timing:a-deny-still-injects": "A hook that denies a call still injects its reminder.",
            "hooks:failure:raising-stops-nothing": "A hook that raises is reported and stops nothing.",
            "hooks:failure:slow-hook-stops-nothing": "A hook that takes longer than 5 seconds is reported and stops nothing.",
        },
    ),
)
