"""The catalog: what its file says, and what is refused."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from support.servers import store_at

from simindex import Config, ConfigMismatchError, CorruptIndexError, FormatError, scaleout
from simindex.maintenance.object_store import RemoteObjects
from simindex.scaleout.catalog import Catalog, Partition

CONFIG = Config(num_perm=64, seed=7)
CATALOG = Catalog(
    CONFIG,
    (
        Partition("node:10.0.0.1", "/data/00000.simindex", 5),
        Partition("node:10.0.0.2", "/data/00001.simindex"),
        Partition("node:10.0.0.1", "/data/00002.simindex"),
    ),
)


def test_catalog_comes_out_of_its_file_as_it_went_in(tmp_path: Path) -> None:
    uri = tmp_path / "new" / "news.catalog"
    CATALOG.replace(uri, None)
    assert Catalog.load(uri) == CATALOG
    assert CATALOG.places == {"node:10.0.0.1": (0, 2), "node:10.0.0.2": (1,)}
    assert sorted(path.name for path in uri.parent.iterdir()) == ["news.catalog", "news.catalog.lock"]


def test_a_catalog_of_two_names_stays_one(tmp_path: Path) -> None:
    real, link = tmp_path / "real" / "c", tmp_path / "link"
    CATALOG.replace(real, None)
    link.symlink_to(real)
    moved = CATALOG.with_partition(2, replace(CATALOG.partitions[2], place="node:10.0.0.3"))
    moved.replace(link, CATALOG)
    assert Catalog.load(real) == Catalog.load(link) == moved
    with pytest.raises(scaleout.CatalogChangedError, match="found version 2"):
        moved.replace(real, CATALOG)


@pytest.mark.parametrize("kind", ["folder", "memory", "s3"])
def test_catalog_is_replaced_by_the_next_version_only(kind: str, tmp_path: Path) -> None:
    with store_at(kind, tmp_path) as uri:
        with pytest.raises(FileNotFoundError, match=r"scaleout\.create makes one"):
            Catalog.load(uri)
        CATALOG.replace(uri, None)
        with pytest.raises(FileExistsError, match=r"scaleout\.open opens it"):
            CATALOG.replace(uri, None)
        moved = CATALOG.with_partition(2, replace(CATALOG.partitions[2], place="node:10.0.0.3"))
        assert (moved.version, moved.id) == (2, CATALOG.id)
        assert moved.places == {"node:10.0.0.1": (0,), "node:10.0.0.2": (1,), "node:10.0.0.3": (2,)}
        moved.replace(uri, CATALOG)
        with pytest.raises(scaleout.CatalogChangedError, match=r"expected version 1 .* found version 2"):
            moved.replace(uri, CATALOG)
        assert Catalog.load(uri) == moved


def test_of_several_who_replace_a_catalog_in_a_store_one_does(tmp_path: Path) -> None:
    with store_at("memory", tmp_path) as uri:
        CATALOG.replace(uri, None)
        start = threading.Barrier(6)

        def replace_it(number: int) -> bool:
            moved = replace(CATALOG.partitions[0], place=f"node:10.0.0.{number}")
            start.wait()
            try:
                CATALOG.with_partition(0, moved).replace(uri, CATALOG)
            except scaleout.CatalogChangedError:
                return False
            return True

        with ThreadPoolExecutor(6) as writers:
            assert sum(writers.map(replace_it, range(6))) == 1


def test_a_store_that_proves_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def overwrite(self: RemoteObjects, name: str, content: bytes) -> bool:
        self.put(name, content)
        return True

    monkeypatch.setattr(RemoteObjects, "create", overwrite)
    refused = pytest.raises(scaleout.UnprovenStoreError, match="cannot keep a catalog")
    with store_at("memory", tmp_path) as uri, refused:
        CATALOG.replace(f"{uri}/unproven", None)


def test_durability_in_a_store_needs_one() -> None:
    with pytest.raises(ValueError, match='found "store"; give store='):
        replace(CATALOG, durability="store")
    with pytest.raises(ValueError, match='expected "node" or "store", found \'disk\''):
        replace(CATALOG, durability="disk")  # type: ignore[arg-type] # what is tested
    kept = replace(CATALOG, durability="store", store="s3://bucket/backups/")
    assert Catalog.from_json(kept.to_json()) == kept
    assert kept.backup_uri(1) == f"s3://bucket/backups/{CATALOG.id}/00001"


@pytest.mark.parametrize("old", ['"closed": 5', '"version": 1', '"num_perm": 64', "00001.simindex"])
def test_catalog_that_was_changed_by_hand_is_refused(tmp_path: Path, old: str) -> None:
    uri = tmp_path / "c"
    CATALOG.replace(uri, None)
    text = uri.read_text()
    assert old in text
    uri.write_text(text.replace(old, old.replace("1", "2").replace("4", "5").replace(" 5", " 6")))
    with pytest.raises(CorruptIndexError, match="that fits its seal") as caught:
        scaleout.open(uri)
    assert caught.value.path == str(uri)


def test_what_is_no_catalog_is_refused(tmp_path: Path) -> None:
    for text, found in (("no json", "no JSON"), ("[]", "other JSON"), ('{"a": 1}', "other JSON")):
        (tmp_path / "c").write_text(text)
        with pytest.raises(FormatError, match=found):
            scaleout.open(tmp_path / "c")
    with pytest.raises(FormatError, match="found a folder"):
        scaleout.open(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"scaleout\.create makes one"):
        scaleout.open(tmp_path / "none")


def test_catalog_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    content = json.loads(CATALOG.to_json()) | {"simindex_catalog": 2}
    (tmp_path / "c").write_text(json.dumps(content))
    with pytest.raises(
        FormatError, match="expected a catalog of format 1, found 2; open it with the simindex"
    ):
        scaleout.open(tmp_path / "c")


def test_another_configuration_is_refused(tmp_path: Path) -> None:
    CATALOG.replace(tmp_path / "c", None)
    with pytest.raises(ConfigMismatchError, match="num_perm: stored 64, asked for 128") as caught:
        scaleout.open(tmp_path / "c", Config(seed=7))
    assert caught.value.fields == {"num_perm": (64, 128)}


def test_what_cannot_be_a_catalog_is_refused() -> None:
    with pytest.raises(ValueError, match='found "random", which is drawn'):
        Catalog(Config(seed="random"), CATALOG.partitions)
    with pytest.raises(ValueError, match=r"partitions: expected 1\.\.65536"):
        Catalog(CONFIG, ())
