"""Write a wiki of a repository without a model, and print its pages."""

import sys
from pathlib import Path

from rag import Engine, load_settings
from rag.service import locate
from rag.wiki import write_wiki

engine = Engine(load_settings())
repository = engine.repository(locate(sys.argv[1] if len(sys.argv) > 1 else "data/sample_repo"))
report = write_wiki(engine, repository, Path(sys.argv[2] if len(sys.argv) > 2 else "wiki"))
print(*(page.file for page in report.pages), sep="\n")
engine.close()
