"""A list with the whole name that a question asks for comes before what has a part of it."""

from __future__ import annotations

import pytest

from rag.retrieval.search import search

FILES = {
    "studio/models.py": '''
from django.db import models


class FiringTrigger(models.Model):
    """What starts a firing."""

    class FiringTriggerType(models.IntegerChoices):
        TIMER = 1, "Timer"
        BUTTON = 2, "Button"
        REMOTE = 3, "Remote"

    name = models.CharField(max_length=9)
    kind = models.IntegerField(choices=FiringTriggerType.choices)


class PotRule(models.Model):
    class PotAction(models.IntegerChoices):
        GLAZE = 1, "Glaze"
        DRY = 2, "Dry"
        SELL = 3, "Sell"
''',
    "studio/ui/firing-trigger-dialog.ts": "export class FiringTriggerDialog {\n  addTrigger() {\n"
    "    // the firing trigger with its type\n    const trigger: FiringTrigger = {\n"
    + "".join(f"      filter_trigger_{n}: FiringTriggerType.Timer,\n" for n in range(16))
    + "    }\n    this.firing.triggers.push(trigger)\n  }\n}\n",
    "studio/actions.py": "class BasePotAction:\n    pass\n"
    + "".join(
        f"\n\nclass {n}PotAction(BasePotAction):\n    n = 1\n" for n in ("Dry", "Move", "Sell", "Sort")
    ),
    "studio/views.py": "\n\n".join(
        f"@action(detail=True)\ndef pot_action_{name}(self, request):\n    return self.{name}(request)\n"
        for name in ("glaze", "dry", "sell", "list", "show", "move", "count")
    ),
}


@pytest.mark.parametrize(
    ("question", "subject", "count"),
    [
        ("list all firing trigger types", "FiringTriggerType", 3),
        ("which firing trigger types are there?", "FiringTriggerType", 3),
        ("what pot action types exist", "PotAction", 3),
        ("list all pot actions", "PotAction", 3),
        ("all the pot actions (classes)", "BasePotAction", 4),
    ],
)
def test_the_list_with_the_whole_name_is_meant(searcher_of, question: str, subject: str, count: int):
    found = search([searcher_of(FILES)], question).code_facts
    assert found is not None
    assert (found.kind, found.subject, found.count) == ("list", subject, count)
