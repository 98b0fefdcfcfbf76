"""Write the pages of a wiki as MDX for another site generator, with front matter of its own."""

import json
import sys
from pathlib import Path

from rag import Engine, load_settings
from rag.service import locate
from rag.wiki import WikiPage, page_markdown, wiki_structure

engine = Engine(load_settings())
repository = engine.repository(locate(sys.argv[1] if len(sys.argv) > 1 else "data/sample_repo"))
folder = Path(sys.argv[2] if len(sys.argv) > 2 else "wiki-mdx")
folder.mkdir(parents=True, exist_ok=True)
structure = wiki_structure(repository)


class SiteLinks:
    """Addresses of this site: other pages by their file, lines of code by what the site shows them with."""

    def lines(self, path: str, start: int, end: int) -> str:
        """Return no address: a citation is then shown as `path:start-end`."""
        return ""

    def page(self, page: WikiPage) -> str:
        """Return the address of another page."""
        return f"./{page.id}.mdx"


for number, page in enumerate(structure.pages, start=1):
    front = {"title": page.title, "description": page.description, "sidebar_position": number}
    lines = [f"{name}: {json.dumps(value)}" for name, value in front.items()]
    text = page_markdown(structure, page.id, links=SiteLinks())
    (folder / f"{page.id}.mdx").write_text("\n".join(["---", *lines, "---", "", text]), encoding="utf-8")
    print(f"{page.id}.mdx")
engine.close()
