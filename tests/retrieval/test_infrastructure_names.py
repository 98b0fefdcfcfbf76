"""Names of Terraform, Helm charts and dbt projects: where they are defined and who uses them."""

from __future__ import annotations

import pytest

from rag.retrieval.answerability import judge
from rag.retrieval.search import search

FILES = {
    "main.tf": (
        'resource "aws_sqs_queue" "builds" {\n  name = var.queue_name\n}\n\n'
        'data "aws_iam_policy_document" "deny" {\n  statement {}\n}\n\n'
        'resource "aws_sqs_queue_policy" "deny" {\n  queue_url = aws_sqs_queue.builds.id\n'
        "  policy    = data.aws_iam_policy_document.deny.json\n}\n\n"
        'module "logs" {\n  source = "./modules/logs"\n}\n\n'
        "# aws_sqs_queue.builds is used above\n"
        'output "queue" {\n  value = ['
        "aws_sqs_queue.builds.arn, module.logs.group, aws_sqs_queue.builds_dead.id]\n}\n"
    ),
    "variables.tf": 'variable "queue_name" {\n  description = "The name."\n  default     = "builds"\n}\n',
    "modules/logs/main.tf": (
        'variable "queue_name" {\n  default = "logs"\n}\n\nresource "aws_sqs_queue" "builds" {\n}\n\n'
        'output "group" {\n  value = aws_sqs_queue.builds.id\n}\n'
    ),
    "charts/app/templates/_helpers.tpl": (
        "{{/*\nThe name of the release.\n*/}}\n"
        '{{- define "app.fullname" -}}\n{{ .Release.Name }}\n{{- end }}\n\n'
        '{{- define "app.redis.server" -}}\n{{ include "app.fullname" . }}:6379\n{{- end }}\n'
    ),
    "charts/app/templates/config.yaml": (
        'kind: ConfigMap\nmetadata:\n  name: {{ template "app.fullname" . }}\n'
        'data:\n  redis: {{ include "app.redis.server" . }}\n  other: {{ include "app.redis.server-ca" . }}\n'
    ),
    "macros/hooks.sql": (
        "{% macro on_run_end() %}\n    {% do shop.store_results(results) %}\n{% endmacro %}\n\n"
        "{%- macro store_results(results) -%}\n    insert into results values (1)\n{%- endmacro -%}\n"
    ),
    "models/orders.sql": "select * from {{ source('shop', 'raw_orders') }}\n",
    "models/raw_orders.sql": "select 1\n",
    "models/revenue.sql": "select sum(total)\nfrom {{ ref('orders') }}\njoin {{ ref('orders_old') }}\n",
    "tests/test_orders.py": "QUERY = \"select * from {{ ref('orders') }}\"\n",
    "macros/tests.sql": "{% test is_even(model, column) %}\n    select * from {{ model }}\n{% endtest %}\n",
}


@pytest.fixture(scope="module")
def searcher(searcher_of):
    return searcher_of(FILES)


@pytest.mark.parametrize(
    ("name", "path", "line"),
    [
        ("aws_sqs_queue_policy.deny", "main.tf", 9),
        ("data.aws_iam_policy_document.deny", "main.tf", 5),
        ("module.logs", "main.tf", 14),
        ("app.redis.server", "charts/app/templates/_helpers.tpl", 8),
        ("store_results", "macros/hooks.sql", 5),
        ("is_even", "macros/tests.sql", 1),
    ],
)
def test_a_block_a_template_and_a_macro_are_found_by_name(searcher, name, path, line):
    first = search([searcher], f"Where is {name} defined?").hits[0]
    assert first.path == path and first.start <= line <= first.end


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("data.aws_iam_policy_document.deny", [("main.tf", 11)]),
        ("module.logs", [("main.tf", 20)]),
        ("var.queue_name", [("main.tf", 2)]),
        ("output.group", [("main.tf", 20)]),
        ("app.fullname", [("charts/app/templates/_helpers.tpl", 9), ("charts/app/templates/config.yaml", 3)]),
        ("app.redis.server", [("charts/app/templates/config.yaml", 5)]),
        ("store_results", [("macros/hooks.sql", 2)]),
    ],
)
@pytest.mark.parametrize("question", ["Who uses {}?", "Where is `{}` used?"])
def test_the_uses_of_a_block_a_template_and_a_macro(searcher, question, name, lines):
    facts = search([searcher], question.format(name)).code_facts
    assert facts is not None
    assert sorted((place.path, place.start) for place in facts.items) == lines


def test_a_block_of_terraform_is_used_in_its_own_folder_and_certainly(searcher):
    facts = search([searcher], "Where is aws_sqs_queue.builds used?").code_facts
    assert facts is not None and facts.certain_count == 3
    used = sorted((place.path, place.start) for place in facts.items)
    assert used == [("main.tf", 10), ("main.tf", 20), ("modules/logs/main.tf", 9)]


@pytest.mark.parametrize(
    "question", ["who uses data.aws_iam_policy_document.deny?", "who uses var.queue_name"]
)
def test_a_block_with_certain_uses_is_here(searcher, question):
    found = search([searcher], question)
    assert found.code_facts is not None and found.code_facts.certain_count
    assert judge([searcher], found).is_sure


def test_what_a_module_has_for_itself_is_not_exported(searcher):
    facts = search([searcher], "Where is aws_sqs_queue_policy.deny used?").code_facts
    assert facts is not None and facts.count == 0 and "exported" not in facts.summary
    facts = search([searcher], "Where is output.queue used?").code_facts
    assert facts is not None and facts.count == 0 and "exported" in facts.summary


def test_the_variable_of_the_outer_module_is_the_setting(searcher):
    facts = search([searcher], "What is the default of queue_name?").code_facts
    assert facts is not None and (facts.items[0].path, facts.items[0].start) == ("variables.tf", 1)


def test_which_templates_include_a_template(searcher):
    facts = search([searcher], "Which templates include app.redis.server?").code_facts
    assert facts is not None and [place.start for place in facts.items] == [5]
