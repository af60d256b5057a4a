"""Agent loops that all do the same: ask a model that answers at once, run the tool it calls, and ask again.

Each module has one loop. Its `run(turns, watch)` lets the model call the tool in so many turns, tells the watch when the
model has the word, and returns how many results the conversation has in the end.
"""
