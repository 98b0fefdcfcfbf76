"""Save WordLlama's table as a Model2Vec folder: `make_model.py WHEEL FOLDER`.

WordLlama's own loader looks for the tokenizer in a folder that its wheel does not have and then asks a model
hub, so the two files are read from the wheel itself.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import numpy as np
from model2vec import StaticModel
from safetensors.numpy import load
from tokenizers import Tokenizer


def main() -> None:
    wheel, folder = Path(sys.argv[1]), Path(sys.argv[2])
    with zipfile.ZipFile(wheel) as archive:
        tensors = load(archive.read("wordllama/weights/l2_supercat_256.safetensors"))
        text = archive.read("wordllama/tokenizers/l2_supercat_tokenizer_config.json").decode()
    (table,) = tensors.values()
    tokenizer = Tokenizer.from_str(text)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    StaticModel(table.astype(np.float32), tokenizer, normalize=True).save_pretrained(folder)


if __name__ == "__main__":
    main()
