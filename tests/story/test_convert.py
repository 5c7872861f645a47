"""`dragoman convert` on the command line."""

from pathlib import Path


def test_a_converted_model_translates_and_is_smaller(
    dragoman, trained: Path, tmp_path: Path
) -> None:
    assert dragoman("convert", "to-onnx", trained, tmp_path / "int8", "--int8").code == 0
    assert dragoman("translate", "eins zwei", "--model", tmp_path / "int8").out == "one two\n"
    sizes = [
        (folder / "model.safetensors").stat().st_size for folder in (trained, tmp_path / "int8")
    ]
    assert sizes[1] < 0.4 * sizes[0]


def test_a_folder_in_use_and_a_model_that_does_not_fit_are_one_line(
    dragoman, trained: Path, tmp_path: Path
) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.txt").touch()
    for arguments, words in (
        (("to-onnx", trained, tmp_path / "taken"), "not empty"),
        (("to-onnx", trained, trained), "the model itself"),
        (("from-huggingface", tmp_path / "nowhere", tmp_path / "out"), "no such folder"),
    ):
        answer = dragoman("convert", *arguments)
        assert answer.code == 1
        assert words in answer.err
        assert answer.err.count("\n") == 1


def test_a_file_streams_with_its_order_kept(dragoman, trained: Path, tmp_path: Path) -> None:
    dragoman("convert", "to-onnx", trained, tmp_path / "float32")
    lines = ["eins", "", "neun acht sieben", "zwei drei"] * 600  # more than a window
    (tmp_path / "in.de").write_text("".join(f"{line}\n" for line in lines))
    answer = dragoman(
        "translate", "--model", tmp_path / "float32", "--input", tmp_path / "in.de", "--beam", 1
    )
    assert answer.out.splitlines() == ["one", "", "nine eight seven", "two three"] * 600
