"""General SQL code: backends, transactions, group commit, rows with raw SQL; no table of ours."""
