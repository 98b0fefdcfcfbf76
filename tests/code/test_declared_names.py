"""Each member of a grouped or chained declaration is a definition; a local variable is none."""

# ruff: noqa: E501 -- a declaration and what it defines are read on one line

from __future__ import annotations

import pytest

from rag.code.file_graph import graph_of
from rag.code.outline import file_values

CASES = {
    "python tuple": ("python", "A, B = 1, 2\n(C, [D, *E]) = x\n", "A1 B1 C2 D2 E2"),
    "python chain": ("python", "A = B = 3\nC: int = 5\nD: int\n", "A1 B1 C2 D3"),
    "python class": ("python", "class C(Enum):\n  R = 1\n  G, H = 1, 2\n  def f(self):\n    x = 1\n", "R2 G3 H3"),
    "python branches": ("python", "if x:\n  A = 1\nelse:\n  A = 2\ndef f():\n  B = 1\n", "A2 A4"),
    "go group": ("go", "package x\nconst (\n A = iota\n B\n C, D = 1, 2\n _\n)\n", "A3 B4 C5 D5"),
    "go var": ("go", "package x\nvar a, b = 1, 2\nvar (\n c int\n)\nfunc f() { var d = 2 }\n", "a2 b2 c4"),
    "c enum": ("c", "enum e {\n RED,\n GREEN = 3 };\ntypedef enum { P, Q } t;\nenum { R };\n", "RED2 GREEN3 P4 Q4 R5"),
    "c macro": ("c", "#define A 1\n#ifdef X\n#define B\n#endif\n", "A1 B3"),
    "c variables": ("c", "int a = 1, *b = 2, c[3];\nint f(int x);\nextern int z;\nint (*g)(int) = 0;\n", "a1 b1 c1 g4"),
    "c local": ("c", "int main(void) {\n int a = 1, b = 2;\n}\n", ""),
    "cpp": ("cpp", "enum class E { A, B };\nclass C { static const int K = 1, L = 2; int m; };\n", "E1 A1 B1 K2 L2"),
    "java": ("java", "enum E { A,\n B(1) }\nclass C { int c = 1, d = 2; void f() { int l = 1; } }\n", "A1 B2 c3 d3"),
    "csharp": ("csharp", "enum E { A, B = 2 }\nclass C { const int K = 1, L = 2; }\n", "E1 A1 B1 K2 L2"),
    "kotlin": ("kotlin", "enum class E { A, B }\nval (a, b) = p()\nfun f() { val l = 1 }\n", "A1 B1 a2 b2"),
    "swift": ("swift", "enum E { case a, b\n case c(Int) }\nlet x = 1, y = 2\n", "a1 b1 c2 x3 y3"),
    "rust": ("rust", "enum E { A, B(u8) }\nconst X: u8 = 1;\nfn f() { const L: u8 = 1; }\n", "A1 B1 X2"),
    "typescript": ("typescript", "enum E { A, B = 2 }\nconst a = 1, b = 2;\nexport const { c, d: e, ...f } = g;\n", "E1 A1 B1 a2 b2 c3 e3 f3"),
    "javascript": ("javascript", "exports.Y = exports.W = 4;\nconst [a, b = 3] = j;\nconst r = require('r');\nit('x', () => { const l = 1; });\n", "Y1 W1 a2 b2"),
    "php": ("php", "<?php\nconst A = 1, B = C;\nenum E { case X; case Y; }\ndefine('D', 1);\n", "A2 B2 E3 X3 Y3 D4"),
    "scala": ("scala", "enum E { case A, B\n case C(x: Int) }\nobject O { val a, b = 1 }\n", "A1 B1 C2 a3 b3"),
    "ruby": ("ruby", "A, B = 1, 2\nC = D = 3\nmodule M\n E ||= 1\nend\nx = 1\n", "A1 B1 C2 D2 E4"),
    "lua": ("lua", "local a, b = 1, 2\nM.x = 5\nlocal function f() local l = 1 end\n", "a1 b1 x2"),
    "bash": ("bash", "readonly A=1 B=2\nexport C=5 D\nf() {\n local x=1\n}\n", "A1 B1 C2"),
}  # fmt: skip


@pytest.mark.parametrize(("language", "text", "expected"), CASES.values(), ids=CASES)
def test_each_name_of_a_declaration_is_a_definition(language: str, text: str, expected: str) -> None:
    graph = graph_of(file_values(text, language, None)[1])
    assert {f"{one.name}{one.start}" for one in graph.values} == set(expected.split())
