"""Operations of users and operators, by noun: the first argument of each is the context of the caller.

Each group has modules of verbs, and `types.py` for values that several of them use. A group uses only groups below it
(the contract `floors` in `pyproject.toml`); what concerns two nouns belongs to the higher one. A workflow does what
takes longer than a request: see `conductor/workflows`.
"""
