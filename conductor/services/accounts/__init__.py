"""Users of the portal: sign-in, passwords, second factors and preferences.

Users, projects and roles themselves belong to `conductor/identity`.
"""
