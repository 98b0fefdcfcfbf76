"""Answer several users from one process: one engine, one namespace each, no AdalFlow."""

import sys
from contextlib import closing
from dataclasses import replace

from rag import Dialog, Engine, load_settings
from rag.service import converse, locate

SOURCE = sys.argv[1] if len(sys.argv) > 1 else "data/sample_repo"

for user in ("ada", "bob"):
    with closing(Engine(replace(load_settings(), namespace=user))) as engine:
        dialog = Dialog(engine, [engine.repository(locate(SOURCE))])
        for question in ("How are sessions signed?", "And when do they expire?"):
            *_, answer = converse(dialog, question, engine.generator())
            print(user, len(dialog.turns()), *answer.citations[:1])
