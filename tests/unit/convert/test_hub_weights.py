"""The weights of a model are fetched in its first available format."""

from pathlib import Path

import pytest

from dragoman.convert import hub
from dragoman.convert.from_huggingface import INDEX, PICKLE, SAFETENSORS

SHARD = "model-00001-of-00001.safetensors"


@pytest.mark.parametrize(
    ("there", "asked"),
    [
        ({SAFETENSORS, PICKLE}, [SAFETENSORS]),
        ({INDEX, SHARD, PICKLE}, [SAFETENSORS, INDEX, SHARD]),
        ({PICKLE}, [SAFETENSORS, INDEX, PICKLE]),
    ],
    ids=["one file", "shards", "pickle"],
)
def test_weights_are_fetched_in_the_best_available_format(
    tmp_path: Path, monkeypatch, there: set[str], asked: list[str]
) -> None:
    wanted: list[str] = []

    def download(name: str, file: str, revision: str) -> Path | None:
        wanted.append(file)
        return tmp_path / file if file in there else None

    (tmp_path / INDEX).write_text(f'{{"weight_map": {{"a": "{SHARD}"}}}}')
    monkeypatch.setattr(hub, "_download", download)
    hub._download_weights("somebody/something", tmp_path)
    assert wanted == asked
