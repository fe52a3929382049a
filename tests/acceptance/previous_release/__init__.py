"""The previous service version of Novella, for processes that run beside the present one.

The code is the present one with the messages and flows of that release, and nothing newer. A process becomes it by its
settings module (`previous_release.settings`); `previous_release.newer` is the present code with a flow that has another
order of steps than the version before it.
"""
