"""Operations of users and operators, grouped by noun. The first argument of each is the context of the caller.

Each group has modules of operations, and `types.py` for values that several of them use. A group uses only groups below
it (the contract `floors` in `pyproject.toml`). What concerns two nouns belongs to the higher one. Work that takes
longer than a request is done by workflows: see `conductor/workflows`.
"""
