"""Jobs over whole corpora, and what two of their texts share.

`explain` says in which passages two texts are alike. Must not print. Importing `simindex` does not load this
room: `from simindex import corpus` does.
"""

from simindex.corpus.explain import Explanation, Passage, explain

__all__ = ["Explanation", "Passage", "explain"]
