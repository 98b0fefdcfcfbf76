"""Check whether the stored answers of a conversation are still true; exit with 1 if one is not.

Use it after a change, for example in CI: `python examples/check_answers.py PATH CONVERSATION`.
"""

import json
import subprocess
import sys

source, conversation = (*sys.argv[1:], "data/sample_repo", "examples")[:2]
command = ["rag", "turns", "check", conversation, "--json"]
done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=True)
outdated = [turn for turn in json.loads(done.stdout) if turn["freshness"]["state"] in ("changed", "gone")]
for turn in outdated:
    print(f"{turn['question']}: {turn['freshness']['state']}")
sys.exit(1 if outdated else 0)
