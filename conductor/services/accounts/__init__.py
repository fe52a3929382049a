"""Users of the portal: sign-in, passwords, second factors and preferences.

Users, projects, roles and assignments are read and changed here for callers; their tables and rules belong to
`conductor/identity`.
"""
