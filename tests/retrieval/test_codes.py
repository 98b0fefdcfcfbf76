"""Exit codes and status codes are found by the lines that set them, in any language."""

from __future__ import annotations

import pytest

from rag.retrieval.answerability import judge
from rag.retrieval.kinds.asked_codes import asked_code
from rag.retrieval.search import search


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("Which exit codes are there?", ("exit", None)),
        ("What exit codes can the tool return?", ("exit", None)),
        ("list all exit codes", ("exit", None)),
        ("Where are the exit codes defined?", ("exit", None)),
        ("Which return codes does it have?", ("exit", None)),
        ("When does it exit with 3?", ("exit", 3)),
        ("When does it return 3?", ("exit", 3)),
        ("What does exit code 2 mean?", ("exit", 2)),
        ("In which case is exit status 65 used?", ("exit", 65)),
        ("Which function sets the exit code to 1?", ("exit", 1)),
        ("When is the exit code 4?", ("exit", 4)),
        ("Which status codes does the API return?", ("status", None)),
        ("Which HTTP codes does the server send?", ("status", None)),
        ("When does the server answer with a 404?", ("status", 404)),
        ("When is 204 returned?", ("status", 204)),
        ("Where do we respond with HTTP 413?", ("status", 413)),
        ("Why do I get status code 429?", ("status", 429)),
    ],
)
def test_a_question_for_codes_is_recognized(question, asked):
    assert asked_code(question) == asked


@pytest.mark.parametrize(
    "question",
    [
        "",
        "When does the timer exit?",
        "Where is the exit code of the child checked?",
        "How is exit code 3 handled?",
        "Where are status codes parsed?",
        "What exit code do I get if the file is missing?",
        "What is the exit code for a usage error?",
        "When does parse return 0?",
        "When does it return 3 items?",
        "When does it return None?",
        "How many status updates are sent?",
        "Which status can an order have?",
        "What is returned when the status is unknown?",
        "Where is the return type of 200 functions inferred?",
        "Which error codes are there?",
        "Where is version 1.200 returned?",
        "Exit code 1 is used here",
        "Which codec is used for 404 frames?",
        "How are HTTP errors 500 retried?",
        "What happens on exit?",
        "What is the status code of an order with 3 items?",
        "Why does get_size return 512?",
        "When does the scheduler send 250?",
        "What return code does malloc have for 0 bytes?",
        "When did the loop exit 3 times?",
        "Where do we exit with 2 threads still running?",
        "Which status codes does the client retry?",
        "Which status codes are considered successful?",
        "What status codes are accepted by the health check?",
        "Which HTTP codes does the proxy pass through?",
        "What happens with status code 304?",
        "What does the client do with status 404?",
        "Which hooks run on exit code 1?",
        "Where is status 404 mapped to NotFound?",
        "Which class represents status 404?",
        "What headers are sent with status 304?",
        "What is the difference between exit code 1 and 2?",
        "When is exit code 3 not an error?",
    ],
)
def test_other_questions_are_none_for_codes(question):
    assert asked_code(question) is None


def found(searcher_of, files, question):
    facts = search([searcher_of(files)], question).code_facts
    assert facts is not None and facts.kind == "codes"
    return facts, [(item.path, item.start) for item in facts.items]


EXITS = {
    "src/errors.ts": "export enum ExitCode {\n  Success = 0,\n  Usage = 64,\n  Broken = 3,\n}\n",
    "src/main.ts": (
        "import { ExitCode } from './errors';\n\nexport function run(file) {\n  if (!file) {\n"
        "    process.exit(ExitCode.Usage);\n  }\n  if (code === ExitCode.Broken) {\n    return;\n  }\n"
        "  process.exitCode = 3;\n}\n"
    ),
    "tool.sh": "check() {\n  if [ $1 -eq 3 ]; then\n    exit 3\n  fi\n  exit 0\n}\n",
    "app.py": "import sys\n\n\ndef main(argv):\n    if not argv:\n        sys.exit(64)\n"
    "    raise SystemExit(3)\n",
    "main.c": "#define EXIT_BROKEN 3\nint main(void) {\n  if (exit_code == 3)\n    exit(3);\n"
    "  exit(EXIT_BROKEN);\n}\n",
    "test/test_app.py": "def test_exit():\n    sys.exit(3)\n",
}


def test_the_places_of_one_exit_code(searcher_of):
    facts, places = found(searcher_of, EXITS, "When does it exit with 3?")
    assert sorted(places) == [
        ("app.py", 7),
        ("main.c", 1),
        ("main.c", 4),
        ("main.c", 5),
        ("src/errors.ts", 4),
        ("src/main.ts", 10),
        ("tool.sh", 3),
    ]
    assert facts.summary == "Exit code 3 is used in 7 lines" and not facts.complete
    _, places = found(searcher_of, EXITS, "What does exit code 64 mean?")
    assert places[0] == ("src/errors.ts", 3) and set(places[1:]) == {("src/main.ts", 5), ("app.py", 6)}


def test_all_exit_codes(searcher_of):
    facts, _ = found(searcher_of, EXITS, "Which exit codes are there?")
    assert facts.summary == "3 exit codes found: 0, 3, 64"


STATUSES = {
    "api/items.go": (
        "package api\n\nfunc Items(w http.ResponseWriter) {\n\tif resp.StatusCode == http.StatusNotFound {\n"
        "\t\treturn\n\t}\n\tw.WriteHeader(http.StatusNotFound)\n}\n"
    ),
    "api/items.py": "def items(request):\n    if status == 404:\n        pass\n"
    "    return JsonResponse({}, status=404)\n",
    "api/items.rb": "def items\n  render json: {}, status: :not_found\nend\n",
    "api/items.ts": "export function items(res) {\n  return res.status(404).end();\n}\n",
    "api/Items.java": "class Items {\n  Object get() {\n"
    "    return new ResponseEntity(HttpStatus.NOT_FOUND);\n  }\n}\n",
    "api/items.rs": "fn items() -> StatusCode {\n    StatusCode::NOT_FOUND\n}\n",
    "api/items.php": "<?php\nfunction items() {\n  http_response_code(404);\n}\n",
    "api/limit.py": "def limit(status):\n    if status in {403, 404}:\n        return\n"
    "    raise HTTPError(\n        404,\n        'no such item',\n    )\n",
    "api/size.py": "def size():\n    height = 404\n    return height\n",
}


def test_the_places_of_one_status(searcher_of):
    facts, places = found(searcher_of, STATUSES, "When does it respond with 404?")
    assert sorted(places) == [
        ("api/Items.java", 3),
        ("api/items.go", 7),
        ("api/items.php", 3),
        ("api/items.py", 4),
        ("api/items.rb", 2),
        ("api/items.rs", 2),
        ("api/items.ts", 2),
        ("api/limit.py", 4),
    ]
    facts, _ = found(searcher_of, STATUSES, "Which status codes does the api return?")
    assert facts.summary == "1 status code found: 404"


def test_the_file_that_a_question_names_is_meant(searcher_of):
    _, places = found(searcher_of, STATUSES, "Which status codes does the limit return?")
    assert places == [("api/limit.py", 4)]


def test_without_a_place_the_search_answers(searcher_of):
    assert search([searcher_of(STATUSES)], "When does it respond with 418?").code_facts is None


@pytest.mark.parametrize(
    "line",
    [
        "response_time = 404",
        "responseTimeout: 404",
        "status_interval = 404",
        "header_size = 404",
        "failover_ms: 404",
        "if status in listOf(HttpStatusCode.NotFound)",
        "if ($e->getStatus() === Response::HTTP_NOT_FOUND) {",
        "HttpStatusCode.NotFound -> {",
        "StatusCode::NOT_FOUND => retry(),",
        "if code in (404, 500):",
    ],
)
def test_a_line_that_does_not_answer_with_a_status_is_not_listed(searcher_of, line):
    files = {"a.kt": f"fun other() {{\n    {line}\n}}\n"}
    facts = search([searcher_of(files)], "When is a 404 returned?").code_facts
    assert facts is None or facts.kind != "codes"


@pytest.mark.parametrize(
    "line",
    [
        "should_exit = 3",
        "EXIT_DELAY = 3",
        "exit_count = 3",
        "print('will exit 3 times')",
        "text = '''\n    Exit 3 if nothing is found'''",
    ],
)
def test_a_line_that_has_no_exit_code_is_not_listed(searcher_of, line):
    files = {"a.py": f"def run():\n    {line}\n"}
    facts = search([searcher_of(files)], "When does it exit with 3?").code_facts
    assert facts is None or facts.kind != "codes"


def test_a_timeout_among_the_exit_codes_is_one(searcher_of):
    files = {"status.py": "class ExitStatus:\n    SUCCESS = 0\n    ERROR_TIMEOUT = 3\n"}
    assert found(searcher_of, files, "When does it exit with 3?")[1] == [("status.py", 3)]


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (404, "abort(Response::HTTP_NOT_FOUND);"),
        (404, "response.setStatus(HttpServletResponse.SC_NOT_FOUND);"),
        (404, "call.respond(HttpStatusCode.NotFound)"),
        (500, "abort(Response::HTTP_INTERNAL_SERVER_ERROR);"),
        (409, "http.Error(w, message, http.StatusConflict)"),
    ],
)
def test_a_status_that_has_only_its_name_is_found(searcher_of, number, line):
    searcher = searcher_of({"src/Pages.php": f"<?php\nfunction returned() {{\n    {line}\n}}\n"})
    result = search([searcher], f"When is a {number} returned?")
    assert result.code_facts is not None and [item.start for item in result.code_facts.items] == [3]
    assert judge([searcher], result).unmet == ()


@pytest.mark.parametrize(
    "line",
    [
        'return Response("no such item", 404)',
        "return Response('no such item', 404)",
        'return make_response(f"no {item}", 404)',
        "return Response(json.dumps(body), 404)",
        'http.Error(w, "no such item", 404)',
        'abort("no such item", 404)',
        "raise HTTPException(reason(item), 404)",
    ],
)
def test_a_status_after_the_body_is_found(searcher_of, line):
    files = {"api/items.py": f"def items(request):\n    {line}\n"}
    assert found(searcher_of, files, "When does it respond with 404?")[1] == [("api/items.py", 2)]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "class Codes:\n    OK_STATUS = 200\n    NO_STATUS = 404\n    BAD_STATUS = 500\n"),
        ("a.py", "HTTP_200_OK = 200\nHTTP_404_NOT_FOUND = 404\n"),
        ("a.py", "HTTP_404_NOT_FOUND: int = 404\n"),
        ("a.ts", "export enum Code {\n  OkStatus = 200,\n  NoStatus = 404,\n  BadStatus = 500,\n}\n"),
        ("a.h", "#define HTTP_STATUS_OK 200\n#define HTTP_STATUS_NOT_FOUND 404\n"),
        ("A.java", "class A {\n  public static final int SC_NOT_FOUND = 404;\n}\n"),
    ],
)
def test_what_only_declares_statuses_answers_with_none(searcher_of, path, text):
    for question in ("When is a 404 returned?", "Which status codes does the server send?"):
        facts = search([searcher_of({path: text})], question).code_facts
        assert facts is None or facts.kind != "codes", facts


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.go", "func retried() []int {\n\treturn []int{http.StatusNotFound, http.StatusBadGateway}\n}\n"),
        (
            "a.py",
            "def is_it(code):\n    return code in (HTTPStatus.NOT_FOUND, HTTPStatus.BAD_GATEWAY}\n",
        ),
        ("b.py", "def retried():\n    return [HTTPStatus.NOT_FOUND, HTTPStatus.BAD_GATEWAY]\n"),
    ],
)
def test_a_list_of_statuses_answers_with_none(searcher_of, path, text):
    facts = search([searcher_of({path: text})], "When is a 404 returned?").code_facts
    assert facts is None or facts.kind != "codes", facts


@pytest.mark.parametrize(
    "statement",
    [
        'return "no such item", 404',
        'return "no such item: %s" % item.name, 404',
        "return {'error': 'no such item'}, 404, {'X-A': 'b'}",
        'return jsonify(error="no such item"), 404  # gone',
        'return (jsonify({"error": [1, 2]}), 404)',
        'return render_template("404.html"), 404',
        'return jsonify(\n        error="no such item",\n    ), 404',
        'return {\n        "error": "no such item",\n    }, 404',
        'return (\n        jsonify(error="no such item"),\n        HTTPStatus.NOT_FOUND,\n    )',
        "raise ApiError(\n        HTTPStatus.NOT_FOUND,\n        message,\n    )",
    ],
)
def test_a_status_that_is_returned_next_to_the_body_is_found(searcher_of, statement):
    files = {"api.py": f"@app.get('/items')\ndef returned(item):\n    {statement}\n"}
    for question in ("Where is 404 returned?", "Which status codes does the server return?"):
        facts, _ = found(searcher_of, files, question)
        assert facts.count == 1 and "404" in facts.summary


@pytest.mark.parametrize(
    "statement",
    [
        "return width, 404",
        'return "no such item", 999',
        "return max(len(items), 404)",
        "return [size(1), 404]",
        "return size(items), 200",
        "self.assertEqual(size(\n        items\n    ), 404)",
        "return 404, 500",
        "return (\n        HTTPStatus.NOT_FOUND,\n        HTTPStatus.BAD_GATEWAY,\n    )",
        "retried = [\n        HTTPStatus.NOT_FOUND,\n    ]",
        "retried = frozenset(\n        HTTPStatus.NOT_FOUND,\n        HTTPStatus.BAD_GATEWAY,\n    )",
        "status_codes = set(\n        404,\n        502,\n    )",
        "return status in (\n        HTTPStatus.NOT_FOUND,\n    )",
    ],
)
def test_a_number_or_list_that_is_returned_is_no_answer(searcher_of, statement):
    facts = search([searcher_of({"api.py": f"def items(x):\n    {statement}\n"})], "When is a 404 returned?")
    assert facts.code_facts is None or facts.code_facts.kind != "codes", facts.code_facts


def test_statuses_in_lines_of_a_list_of_go_are_no_answers(searcher_of):
    text = "package api\n\nvar retried = []int{\n\thttp.StatusNotFound,\n\thttp.StatusBadGateway,\n}\n"
    facts = search([searcher_of({"api.go": text})], "When is a 404 returned?").code_facts
    assert facts is None or facts.kind != "codes"


def test_two_answers_in_one_line_are_no_list(searcher_of):
    files = {"a.py": "def get(x):\n    return HTTPStatus.OK if x else HTTPStatus.NOT_FOUND\n"}
    facts, _ = found(searcher_of, files, "When is a 404 returned?")
    assert facts.summary == "Status code 404 is used in 1 line"


def test_several_answers_in_one_place_are_no_list_of_statuses(searcher_of):
    files = {
        "a.js": "function items(x) {\n  if (x) return {\n    status: 404,\n  };\n  return {\n"
        "    status: 500,\n  };\n}\nfunction other() {\n  return {\n    status: 200,\n  };\n}\n"
    }
    facts, _ = found(searcher_of, files, "Which status codes does the server send?")
    assert facts.summary == "3 status codes found: 200, 404, 500"


COUNTS = {
    "api/count.py": "def count(items):\n    return len(items) or 200\n\n\ndef login(user):\n"
    "    if not user:\n        abort(401)\n    return user\n",
    "api/other.py": "def other():\n    abort(200)\n    abort(401)\n",
}


@pytest.mark.parametrize(
    ("question", "places"),
    [
        ("When does count return 200?", None),
        ("When does `count()` return 200?", None),
        ("When does login return 401?", [("api/count.py", 7)]),
        ("When does the server return 401?", [("api/count.py", 7), ("api/other.py", 3)]),
        ("When does anything return 401?", [("api/count.py", 7), ("api/other.py", 3)]),
    ],
)
def test_the_code_of_a_function_is_in_it(searcher_of, question, places):
    facts = search([searcher_of(COUNTS)], question).code_facts
    if places is None:
        assert facts is None or facts.kind != "codes"
        return
    assert facts is not None and sorted((item.path, item.start) for item in facts.items) == places


def test_the_line_with_the_code_is_shown_where_another_opens_a_list_of_parameters(searcher_of):
    files = {"a.php": "<?php\nfunction returned(\n    int $code = Response::HTTP_FORBIDDEN,\n) {\n}\n"}
    assert found(searcher_of, files, "When is a 403 returned?")[1] == [("a.php", 3)]
