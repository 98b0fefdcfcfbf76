import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rag.database import format as store_format
from rag.errors import StoreCorrupt, StoreTooNew, StoreUnwritable

HEADER = {
    "name": "app",
    "languages": ["python", "go"],
    "commit": None,
    "scanned_ns": 12,
    "nested": {"a": [1, 2.5]},
}
COLUMNS = {
    "numbers": np.arange(10, dtype=np.int32),
    "vectors": np.ones((3, 4), np.float32),
    "nothing": np.zeros((0, 7), np.int64),
}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "stores" / "app.pkl"
    store_format.write(path, HEADER, COLUMNS)
    return path


@given(
    columns=st.dictionaries(
        st.text(min_size=1, max_size=8),
        hnp.arrays(
            st.sampled_from([np.uint8, np.int32, np.int64, np.uint64, np.float32]),
            hnp.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=9),
        ),
        max_size=5,
    )
)
def test_what_is_written_is_read(tmp_path_factory, columns):
    path = tmp_path_factory.mktemp("store") / "x.pkl"
    store_format.write(path, HEADER, columns)
    header, found = store_format.read(path)
    assert {name: header[name] for name in HEADER} == HEADER
    assert found.keys() == columns.keys()
    for name, column in columns.items():
        np.testing.assert_array_equal(found[name], column)
        assert found[name].dtype == column.dtype


def test_the_file_is_a_pickle_of_its_header(written):
    with written.open("rb") as file:
        assert pickle.load(file)["name"] == "app"


def test_columns_are_mapped_not_copied(written):
    _, columns = store_format.read(written)
    assert not columns["vectors"].flags.writeable
    assert not columns["vectors"].flags.owndata


class _Hostile:
    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self):
        return os.system, (f"touch {self.witness}",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_hostile_pickle_is_an_error_not_code(tmp_path, protocol):
    witness = tmp_path / "witness"
    path = tmp_path / "x.pkl"
    path.write_bytes(pickle.dumps({"magic": "rag-store", "x": _Hostile(witness)}, protocol))
    with pytest.raises(StoreCorrupt, match=r"not plain data.*--rebuild"):
        store_format.read(path)
    assert not witness.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not a pickle at all",
        pickle.dumps({"magic": "something else"}),
        pickle.dumps([1, 2]),
        b"\x80\x05r\xff\xff\xff\x7f.",  # LONG_BINPUT: asks for a memo of two billion entries
        b"\x80\x05\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",  # BINBYTES8 longer than memory
        b"\x80\x05h\x07.",  # BINGET of what was never memoized
        b"\x80\x05" + b"(" * 100_000 + b".",
    ],
)
def test_a_foreign_file_is_an_error(tmp_path, data):
    path = tmp_path / "x.pkl"
    path.write_bytes(data)
    with pytest.raises(StoreCorrupt):
        store_format.read(path)


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x05}K\x01a.",  # APPEND to a dict
        b"\x80\x05]K\x01K\x02s.",  # SETITEM of a list
    ],
)
def test_a_pickle_that_cannot_be_loaded_is_an_error(tmp_path, data):
    path = tmp_path / "x.pkl"
    path.write_bytes(data)
    with pytest.raises(StoreCorrupt, match="not plain data"):
        store_format.read(path)


def test_a_column_that_has_changed_on_the_disk_is_found(written):
    store_format.verify(written, *store_format.read(written))
    header, columns = store_format.read(written)
    changed = {**columns, "numbers": columns["numbers"] + 1}
    with pytest.raises(StoreCorrupt, match=r"column numbers .*--rebuild"):
        store_format.verify(written, header, changed)
    del header["crc32"]  # as it was before there were any
    store_format.verify(written, header, changed)


@pytest.mark.parametrize("keep", [1, 50, 4095, 4096, 4100, -1])
def test_a_truncated_file_is_an_error(written, keep):
    data = written.read_bytes()
    written.write_bytes(data[:keep])
    with pytest.raises(StoreCorrupt):
        store_format.read(written)


def test_a_column_may_not_lie_outside_the_file(written):
    header, _ = store_format.read(written)
    header["columns"]["numbers"] = ("<i4", (10**9,), 0)
    head = pickle.dumps(header, 5)
    written.write_bytes(head + bytes(4096 - len(head)) + written.read_bytes()[4096:])
    with pytest.raises(StoreCorrupt, match="outside"):
        store_format.read(written)


def test_a_newer_format_is_named(written):
    header, _ = store_format.read(written)
    head = pickle.dumps({**header, "format": store_format.FORMAT + 1}, 5)
    written.write_bytes(head + bytes(4096 - len(head)) + written.read_bytes()[4096:])
    with pytest.raises(StoreTooNew) as caught:
        store_format.read(written)
    assert caught.value.found == store_format.FORMAT + 1


def test_a_write_that_fails_leaves_the_old_store_and_no_litter(written):
    before = written.read_bytes()
    code = textwrap.dedent(f"""
        import resource, numpy as np
        from pathlib import Path
        from rag.database import format as store_format
        from rag.errors import StoreUnwritable
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        try:
            store_format.write(Path({str(written)!r}), {{}}, {{"big": np.zeros(100_000)}})
        except TypeError:
            raise SystemExit("wrong type of column")
        except StoreUnwritable as error:
            assert "no space" in str(error), error
        else:
            raise SystemExit("nothing failed")
    """).replace("np.zeros(100_000)", "np.zeros(100_000, np.float32)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert written.read_bytes() == before
    assert list(written.parent.iterdir()) == [written]


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnwritable, match="RAG_HOME"):
        store_format.write(tmp_path / "file" / "x.pkl", HEADER, COLUMNS)
