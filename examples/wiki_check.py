"""Check whether a wiki is up to date, and write it only if it is not."""

import sys
from pathlib import Path

from rag import Engine, load_settings
from rag.errors import NotFound
from rag.service import locate
from rag.wiki import check_wiki, write_wiki

engine = Engine(load_settings())
repository = engine.repository(locate(sys.argv[1] if len(sys.argv) > 1 else "data/sample_repo"))
folder = Path(sys.argv[2] if len(sys.argv) > 2 else "wiki")
try:
    outdated = check_wiki(engine, repository, folder).outdated
except NotFound:  # there is no wiki yet
    print("written:", len(write_wiki(engine, repository, folder).pages))
else:
    for page in outdated:
        print(f"{page.status}: {page.file}")
    if outdated:
        write_wiki(engine, repository, folder)
engine.close()
