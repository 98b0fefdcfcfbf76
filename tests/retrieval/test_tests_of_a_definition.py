"""Questions about the tests of a definition: "Which tests cover open_file?"."""

from __future__ import annotations

import pytest

from rag.retrieval.answerability import judge
from rag.retrieval.kinds.recognition import subject_of_tests
from rag.retrieval.search import search, search_in_turn

FILES = {
    "shop/cart.py": """class Cart:
    def add_item(self, item):
        return item

def price_of(cart):
    return total_of(cart)

def total_of(cart):
    return sum(cart)

def never_tested():
    return price_of([])
""",
    "shop/invoice.py": """def send_invoice(order):
    return order
""",
    "tests/test_invoice.py": """from shop.invoice import send_invoice

def test_it_is_sent():
    assert send_invoice(1)
""",
    "shop/orders.py": """from shop.cart import price_of

def order(cart):
    return price_of(cart)
""",
    "tests/test_cart.py": """from shop.cart import Cart, price_of, total_of

def test_cart_is_empty():
    assert price_of([]) == 0

def test_price_of():
    assert price_of([1]) == 1

def test_totals():
    assert total_of([2]) == 2

def test_add_item_twice():
    pass
""",
    "src/lib.rs": """pub fn parse_header(line: &str) -> usize {
    line.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_header() {
        assert_eq!(parse_header("ab"), 2);
    }
}
""",
    "lib/store.rb": """class Store
  def fetch_row(key)
    key
  end
end
""",
    "spec/store_spec.rb": """require "store"
# fetch_row is tested here
describe Store do
  it "fetches" do
    expect(Store.new.fetch_row(1)).to eq 1
  end
end
""",
}
FORMS = """which tests cover {}?
Which test calls {}?
What tests are there for {}?
Is {} tested?
is the function {} covered by tests?
Where is `{}` tested?
How is {}() tested?
where do we test {}?
tests for {}
show me the test of {}
Find the unit tests that exercise {}.
Are there tests for `{}`?
Where are the tests for {}?
Does {} have any tests?
what tests {}
and is {} tested anywhere?""".splitlines()


@pytest.fixture(scope="module")
def searcher(searcher_of):
    return searcher_of(FILES)


def facts(searcher, question):
    found = search([searcher], question).code_facts
    return None if found is None else [(item.path, item.start, item.certain) for item in found.items]


@pytest.mark.parametrize("form", FORMS)
def test_the_tests_of_a_function_are_those_that_use_it(searcher, form):
    assert facts(searcher, form.format("price_of")) == [
        ("tests/test_cart.py", 4, True),
        ("tests/test_cart.py", 7, True),
    ]


def test_the_count_is_in_words(searcher):
    found = search([searcher], "Which tests cover price_of?").code_facts
    assert found.summary == "`price_of` is used in tests in 2 places"


def test_tests_inside_the_file_of_the_code_count(searcher):
    assert facts(searcher, "Is parse_header tested?") == [("src/lib.rs", 11, True)]


def test_uses_in_a_language_without_resolved_names_are_possible(searcher):
    assert facts(searcher, "Which tests cover fetch_row?") == [("spec/store_spec.rb", 5, False)]


def test_what_no_test_names_is_said_to_be_used_in_none(searcher):
    found = search([searcher], "Is never_tested tested?").code_facts
    assert found.summary.startswith("`never_tested` is used in tests in 0 places in the ")
    assert (found.count, found.complete) == (0, False) and "a test may use it through" in found.note


WORDS = {
    "a.py": '''"""Handles payments."""


def price():
    return 1


def refund_all():
    return 2
''',
    "tests/test_a.py": "def test_all():\n    assert 'a refund'\n\ndef test_refunds_twice(): pass\n",
}


@pytest.mark.parametrize("form", ["Which tests cover {}?", "Is {} tested?", "tests for `{}`"])
def test_of_a_word_of_prose_the_tests_that_have_it_are_possible(searcher_of, form):
    found = search([searcher_of(WORDS)], form.format("refunds")).code_facts
    assert [(item.path, item.start, item.certain) for item in found.items] == [
        ("tests/test_a.py", 4, False),  # the test that is named after it
        ("tests/test_a.py", 2, False),
    ]
    assert found.summary == "The word `refunds` is in 2 tests, which may test something else"
    assert (found.certain_count, found.complete) == (0, False)


def test_a_word_of_prose_that_no_test_has_is_in_none(searcher_of):
    searcher = searcher_of(WORDS)
    found = search([searcher], "Which tests cover payments?").code_facts
    assert found.summary == "No test has the word `payments`, in the 2 indexed files"
    assert [(item.path, item.start) for item in found.items] == [("a.py", 1)]
    assert (found.count, found.complete) == (0, False)
    found = search([searcher], "Which tests cover the price?").code_facts
    assert found.summary.startswith("`price` is used in tests in 0 places in the 2 indexed files")


def test_a_word_that_occurs_nowhere_is_missing(searcher_of):
    searcher = searcher_of(WORDS)
    found = search([searcher], "Which tests cover invoices?")
    assert found.code_facts is None
    judged = judge([searcher], found)
    assert not judged.is_sure and judged.missing_part.name == "invoices"


def test_it_is_the_subject_of_the_conversation(searcher):
    found = search_in_turn([searcher], "is it tested?", ["Where is send_invoice defined?"]).code_facts
    assert [(item.path, item.start) for item in found.items] == [("tests/test_invoice.py", 4)]


@pytest.mark.parametrize(
    "question",
    [
        "Is there a test that a writer blocks while the buffer is full?",
        "Are Windows device names tested?",
        "Where do we test loading cookies from a file?",
        "Which tests fail without a network?",
        "How is the test client used?",
        "what is price_of?",
    ],
)
def test_a_question_about_more_than_a_name_is_none_of_these(question):
    assert subject_of_tests(question) == ""
