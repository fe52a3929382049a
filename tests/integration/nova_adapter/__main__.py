"""`python -m tests.integration.nova_adapter SEED FILE_OF_OPTIONS`: prints the results as one line of JSON."""

from __future__ import annotations

import json
import sys

from tests.integration.nova_adapter import corpus, decisions

found = {"decisions": decisions.answers(sys.argv[2]), "corpus": corpus.compared(int(sys.argv[1]))}
sys.stdout.write(json.dumps(found, default=str) + "\n")
