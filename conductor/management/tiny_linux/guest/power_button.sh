#!/bin/sh
# Called by acpid when the hypervisor presses the power button.
sync
poweroff -f
