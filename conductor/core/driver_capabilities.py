"""What compute drivers may be able to do, by name; `compute_driver.py` has the methods."""

from __future__ import annotations

from collections.abc import Mapping

# What a driver may be able to do beside building, ending, starting, stopping and rebooting guests. An action whose
# capability is missing is never offered on the driver's hosts.
CAPABILITIES: Mapping[str, str] = {
    "pause": "pause and unpause",
    "suspend": "suspend and resume",
    "rescue": "rescue and unrescue",
    "rebuild": "rebuild",
    "snapshot": "take images of guests; shelve them",
    "set_password": "set the administrator's password in a guest",
    "crash_dump": "make a guest dump its memory",
    "vnc_console": "show the screen of a guest and take keys and pointer",
    "serial_console": "carry what is typed to a guest's serial line, and what it answers",
    "diagnostics": "tell figures of guests that run",
    "guest_password": "tell what a guest has posted as its password",
    "attach_volume": "attach and detach volumes while the guest runs",
    "swap_volume": "put another volume in the place of one, with its data, while the guest runs",
    "attach_interface": "attach and detach ports while the guest runs",
    "migrate": "resize and move guests that are off",
    "live_migrate": "move guests while they run",
    "live_downtime": "let a guest on its way stand still for longer or shorter than at first",
    "live_throttle": "take processors from a guest on its way, so that it changes less",
    "live_post_copy": "let a guest on its way go on at the destination at once, and fetch the rest",
    "evacuate": "start guests of dead hosts from their disks, which the hosts share",
}
