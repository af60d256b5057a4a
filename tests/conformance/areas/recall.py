"""Facts of a project and how they are found again."""

from typing import Final

from tests.conformance.entry import Rules, Source, rules

RECALL: Final[Rules] = (
    *rules(
        Source.GUIDE_CANONICAL,
        {
            "recall:bm25:lexical-match-ranks": "Facts that share words with the query are ranked by their BM25 score, the highest first.",
            "recall:rank:unscored-by-recency": "Facts that BM25 cannot score come after the scored ones, the newest first.",
            "recall:rank:top-k": "At most the requested number of facts is returned.",
            "recall:filter:schema": "Records whose schema is not `harn.fact.v1` are never recalled.",
            "recall:filter:min-confidence": "Facts below the requested confidence are left out; a fact exactly at it is recalled.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "recall:bm25:parameters": "BM25 uses k1 1.2 and b 0.75.",
            "recall:bm25:smoothed-idf": "The inverse document frequency is smoothed, so that a word in every fact never lowers a score.",
            "recall:bm25:tokens": "Words are runs of letters and digits longer than one character, compared without case.",
            "recall:rank:ties-newest-first": "Facts of equal score are ranked newest first.",
            "recall:filter:kinds": "A filter passes only facts of its kinds; upper and lower case of the kinds make no difference.",
            "recall:fact:fields": "A `harn.fact.v1` record has a schema, id, kind, claim, evidence, confidence, provenance, the time at which it was asserted and optionally the time until which it is valid.",
            "recall:fact:kinds": "The kinds of a fact are observation, claim, hypothesis, decision and constraint, read without case.",
            "recall:fact:evidence-kinds": "The kinds of evidence are `trace_ref`, `file_range`, `tool_output` and `user_input`, also read with dashes and in CamelCase.",
            "recall:fact:confidence-is-required": "A fact without a confidence from 0 to 1 is refused.",
            "recall:fact:id-follows-from-its-content": "The id of a fact is `fact_` and 32 hex digits of a SHA-256 over kind, claim, evidence and provenance, so that equal facts have equal ids.",
            "recall:fact:key": "The key of a fact is `fact:`, its kind, a colon and its id.",
            "recall:fact:errors-have-codes": "A fact that is refused raises an error with a HARN-FACT code.",
            "recall:store:survives-its-process": "A fact that `store_fact(store=…)` has stored is durable, and every later process recalls it from the store.",
            "recall:store:same-content-is-refreshed": "Storing the same content in a store again refreshes the fact and adds none.",
            "recall:store:processes-lose-nothing": "Processes that store facts at the same time lose none of them, and the limit holds for all of them together.",
            "recall:store:one-fact-is-one-record": "Storing a fact writes that fact and no other, however many facts the store has.",
            "recall:store:bounded": "A store has a limit for the number of facts, for the size of a fact and for the length of a namespace; what exceeds one is refused and changes nothing.",
            "recall:store:listed-and-forgotten": "`Store.facts` lists the facts of one or all namespaces, and a fact that `Store.forget_fact` removed is not recalled any more, in any process.",
            "recall:store:reserved-session": "The session that holds the facts is never listed or found, and its id cannot be opened, begun or deleted as a session.",
        },
    ),
)
