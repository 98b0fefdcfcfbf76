"""Lists that are spread over the files of a folder, and registries of pointers."""

from __future__ import annotations

import pytest

from rag.retrieval.search import search

KILNS = 48
WORDS = "Gas Wood Solar Peat Coal".split()
FILES = {
    "kilns/base.py": "class Kiln:\n    def fire(self):\n        raise NotImplementedError\n",
    **{
        f"kilns/kiln_{n}.py": f"from kilns.base import Kiln\n\n\nclass Kiln{n}(Kiln):\n    heat = {n}\n"
        for n in range(KILNS)
    },
    **{
        f"app/Policies/{name}Policy.php": f"<?php\n\nclass {name}Policy\n{{\n    function own() {{}}\n}}\n"
        for name in WORDS
    },
    "app/use_policies.ts": "export const can = {\n  manage: policies.manage,\n  own: policies.own,\n}\n",
    **{
        f"app/Commands/{name}Command.php": (
            f"<?php\n\nuse Framework\\Command;\n\nclass {name}Command extends Command\n{{\n"
            f"    protected $signature = 'shop:{name.lower()}';\n}}\n"
        )
        for name in WORDS
    },
    "app/release.php": "<?php\n$gitCommands = [\n    'git add',\n    'git commit',\n    'git push',\n];\n",
    "app/jobs.js": (
        "const jobs = [\n"
        + "".join(
            f'    {{\n        name: "{name}",\n        at: "03:14",\n        run: fire,\n    }},\n'
            for name in WORDS
        )
        + "];\n"
    ),
    "src/probes.c": (
        "extern probe_t probe_gas;\n\nprobe_t *probe_modules[] = {\n"
        + "".join(f"    &probe_{name.lower()},\n" for name in WORDS)
        + "};\n\nint fields[] = {1, 2};\n"
    ),
}


@pytest.fixture(scope="module")
def searcher(searcher_of):
    return searcher_of(FILES)


@pytest.mark.parametrize(
    ("question", "subject", "count"),
    [
        ("which kilns are there?", "Kiln", KILNS),  # in more files than are read
        ("which policies are there", "app/Policies", len(WORDS)),
        ("what commands does the shop have?", "Command", len(WORDS)),  # of a framework
        ("what jobs run and when?", "jobs", len(WORDS)),  # records, not the fields of one
        ("list all probe modules", "probe_modules", len(WORDS)),
        ("which probe modules run before a firing?", "probe_modules", len(WORDS)),
        ("list all probe moduls", "probe_modules", len(WORDS)),
    ],
)
def test_all_members_are_counted(searcher, question, subject, count):
    found = search([searcher], question).code_facts
    assert (found.kind, found.subject, found.count) == ("list", subject, count)
    assert found.certain_count == count
    assert found.summary.startswith("The list is ")


def test_a_table_with_the_name_is_before_the_folder(searcher):
    found = search([searcher], "which git commands are run?").code_facts
    assert found.subject == "$gitCommands"
