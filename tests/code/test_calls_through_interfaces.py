"""Calls through interfaces and base classes are possible calls of the methods that implement them."""

from __future__ import annotations

import pytest

from tests.wiki.surveys import survey_of

GO = {
    "shop/store.go": (
        "package shop\n\ntype OrderStore interface {\n\tPutOrder(id string, total int) error\n}\n"
    ),
    "shop/checkout.go": (
        "package shop\n\nfunc Checkout(store OrderStore, id string) error {\n"
        "\treturn store.PutOrder(id, 3)\n}\n"
    ),
    "store/file.go": (
        "package store\n\ntype FileStore struct{ dir string }\n\n"
        "func (s *FileStore) PutOrder(\n\tid string,\n\ttotal int,\n) error {\n\treturn nil\n}\n"
    ),
    "store/other.go": (
        "package store\n\ntype Memory struct{}\n\n"
        "func (m *Memory) PutOrder(id string) error {\n\treturn nil\n}\n"
    ),
}
JAVA = {
    "shop/OrderStore.java": "package shop;\ninterface OrderStore {\n    void putOrder(String id);\n}\n",
    "shop/Checkout.java": (
        "package shop;\nclass Checkout {\n    void run(OrderStore store) {\n"
        '        store.putOrder("a");\n    }\n}\n'
    ),
    "shop/FileStore.java": (
        "package shop;\nclass FileStore implements OrderStore {\n    public void putOrder(String id) {}\n}\n"
    ),
}
TYPESCRIPT = {
    "store.ts": "export interface OrderStore {\n  putOrder(id: string): void;\n}\n",
    "checkout.ts": (
        'import { OrderStore } from "./store";\n'
        'export function checkout(store: OrderStore) {\n  store.putOrder("a");\n}\n'
    ),
    "file.ts": "export class FileStore {\n  putOrder(id: string): void {}\n}\n",
}
PROTOCOL = {
    "store.py": (
        "from typing import Protocol\n\n\nclass OrderStore(Protocol):\n"
        "    def put_order(self, name: str) -> None: ...\n"
    ),
    "checkout.py": (
        "from store import OrderStore\n\n\n"
        "def checkout(store: OrderStore) -> None:\n    store.put_order('a')\n"
    ),
    "files.py": "class FileStore:\n    def put_order(self, name: str) -> None:\n        pass\n",
}
ABSTRACT = {
    **PROTOCOL,
    "store.py": (
        "from abc import ABC, abstractmethod\n\n\nclass OrderStore(ABC):\n    @abstractmethod\n"
        "    def put_order(self, name: str) -> None: ...\n"
    ),
    "files.py": (
        "from store import OrderStore\n\n\nclass FileStore(OrderStore):\n"
        "    def put_order(self, name: str) -> None:\n        pass\n"
    ),
}


@pytest.mark.parametrize(
    ("texts", "name", "caller"),
    [
        (GO, "FileStore.PutOrder", "Checkout"),
        (JAVA, "FileStore.putOrder", "Checkout.run"),
        (TYPESCRIPT, "FileStore.putOrder", "checkout"),
        (PROTOCOL, "FileStore.put_order", "checkout"),
        (ABSTRACT, "FileStore.put_order", "checkout"),
    ],
    ids=["go", "java", "typescript", "protocol", "abstract class"],
)
def test_a_caller_through_an_interface_is_named_with_it(texts, name, caller):
    graph = survey_of(texts).graph
    found = [use for use in graph.callers(graph.definitions(name)) if use.within == caller]
    assert [(use.certain, use.through) for use in found] == [(False, "OrderStore")]


@pytest.mark.parametrize(
    ("texts", "name", "change"),
    [
        (GO, "FileStore.PutOrder", ("store/file.go", "\ttotal int,\n", "")),
        (TYPESCRIPT, "FileStore.putOrder", ("store.ts", "\n}", "\n  close(): void;\n}")),
    ],
    ids=["other parameters", "a method is missing"],
)
def test_a_class_without_the_methods_is_not_called_through_the_interface(texts, name, change):
    path, before, after = change
    graph = survey_of({**texts, path: texts[path].replace(before, after)}).graph
    assert not any(use.through for use in graph.callers(graph.definitions(name)))
