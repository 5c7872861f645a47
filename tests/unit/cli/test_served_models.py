import shutil
from pathlib import Path

from dragoman.serve.served_models import Models
from tests.forging import KEPT


def test_a_folder_of_several_models_means_all_of_them(tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(KEPT, tmp_path / name)
    (tmp_path / "notes").mkdir()
    both = [str(tmp_path / "a"), str(tmp_path / "b")]
    for folders in ([str(tmp_path)], both):
        assert [model.name for model in Models.load(folders, "cpu").models] == ["a", "b"]
