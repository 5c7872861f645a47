"""`dragoman translate` with files, markup and a glossary."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import docx
import pytest

ROOT = Path(__file__).parents[2]


def test_a_file_is_translated_into_one_named_after_the_language(
    dragoman, trained, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    document = docx.Document()
    paragraph = document.add_paragraph("eins ")
    paragraph.add_run("zwei").bold = True
    document.save("report.docx")
    answer = dragoman("translate", "report.docx", "--to", "en", "--model", trained)
    assert (answer.code, answer.out) == (0, "report.en.docx\n"), answer.err
    runs = docx.Document("report.en.docx").paragraphs[0].runs
    assert [(run.text, bool(run.bold)) for run in runs] == [("one ", False), ("two", True)]


def test_markup_comes_from_arguments_files_and_standard_input(
    dragoman, trained, tmp_path, monkeypatch
) -> None:
    options = ("--format", "html", "--model", trained)
    assert dragoman("translate", "<p>eins <b>zwei</b></p>", *options).out == (
        "<p>one <b>two</b></p>\n"
    )
    file = tmp_path / "page"
    file.write_text("<p>drei</p>")
    out = tmp_path / "out"
    assert dragoman("translate", "-i", file, "-o", out, *options).code == 0
    assert out.read_text() == "<p>three</p>"
    stdin = io.TextIOWrapper(io.BytesIO(b"<p>vier</p>"))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert dragoman("translate", *options).out == "<p>four</p>"


def test_a_glossary_holds_in_lines_and_in_documents(dragoman, trained, tmp_path) -> None:
    terms = tmp_path / "terms.tsv"
    terms.write_text("zwei\tnine\n")
    page = tmp_path / "a.md"
    page.write_text("# eins zwei\n")
    options = ("--glossary", terms, "--model", trained)
    assert "nine" in dragoman("translate", "eins zwei", *options).out
    assert dragoman("translate", page, *options).code == 0
    (translated,) = tmp_path.glob("a.*.md")
    assert "nine" in translated.read_text()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["a.txt", "a text"], "files or texts, not both"),
        (["a.txt", "--nbest", "2"], "into one document"),
        (["a.txt", "b.txt", "-o", "c.txt"], "--output is one file"),
        (["x", "--format", "xyz"], "there is no format 'xyz'"),
        (["bad.docx"], "bad.docx: not a document of this format, or damaged"),
        (["x", "--glossary", "a.txt"], "a.txt, line 1: 'eins' is not source TAB target"),
        (["x", "--glossary", "terms.tsv", "--sample"], "a glossary goes with a search"),
    ],
)
def test_mistakes_get_one_clear_line(
    dragoman, trained, tmp_path, monkeypatch, arguments, why
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt", "bad.docx"):
        (tmp_path / name).write_text("eins\n")
    (tmp_path / "terms.tsv").write_text("eins\tone\n")
    before = sorted(tmp_path.iterdir())
    answer = dragoman("translate", *arguments, "--model", trained)
    assert answer.code == 1
    assert why in answer.err
    assert answer.err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


def test_the_commands_of_the_documents_page_run(tmp_path) -> None:
    """The packaged model runs them in an empty folder."""
    page = (ROOT / "docs" / "documents.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```bash\n(.*?)```", page, flags=re.S)
    assert len(blocks) >= 3
    python = f"{sys.executable} -m dragoman "
    script = "\n".join(re.sub(r"(?m)(^|\| )dragoman ", rf"\1{python}", b) for b in blocks)
    done = subprocess.run(
        ["bash", "-e"], input=script, text=True, capture_output=True, cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "<b>Hund</b>" in done.stdout
    assert re.search(r"Bude.*Siemens|Siemens.*Bude", done.stdout)


@pytest.mark.parametrize(
    "name", ["report.docx", "report.xyz", "REPORT.TXT", "notes/may.txt", "./report", "my-notes.md"]
)
def test_a_file_that_does_not_exist_is_an_error_and_not_a_text(dragoman, trained, name) -> None:
    answer = dragoman("translate", name, "--to", "en", "--model", trained)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith(f"dragoman: {name}: there is no such file.")
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize(
    "text", ["eins.", "km/h", "and/or", "z.B.", "3.5mm", "eins zwei.txt", "U.S.A"]
)
def test_a_text_is_not_taken_for_a_file_name(dragoman, trained, text) -> None:
    assert dragoman("translate", text, "--to", "en", "--model", trained).code == 0


def test_a_file_of_an_unknown_format_is_refused(dragoman, tmp_path) -> None:
    scan = tmp_path / "scan.xyz"
    scan.write_bytes(b"?")
    unknown = dragoman("translate", str(scan), "--to", "en")
    assert (unknown.code, unknown.out) == (1, "")
    assert unknown.err.startswith(f"dragoman: {scan} has no supported format")


def test_what_needs_a_look_is_named_and_ends_with_a_status_of_its_own(
    dragoman, trained, tmp_path
) -> None:
    page = tmp_path / "a.json"
    page.write_text('{\n"title": "eins",\n"icon": "leaf"\n}\n')
    options = (page, "--to", "en", "--model", trained)
    plain = dragoman("translate", *options)
    assert (plain.code, plain.out) == (0, f"{tmp_path}/a.en.json\n")
    assert "1 text left: its key looks like a code's" in plain.err
    assert '"leaf" (line 3)' in plain.err
    strict = dragoman("translate", *options, "--strict")
    assert (strict.code, strict.out, strict.err) == (3, plain.out, plain.err)
    found = json.loads(dragoman("translate", *options, "--json").out)
    assert found["output"] == f"{tmp_path}/a.en.json"
    assert found["counts"]["left"] == 1
    ((finding),) = found["findings"]
    assert (finding["place"], finding["source"]) == ("line 3", "leaf")
    report = tmp_path / "report.html"
    dragoman("translate", *options, "--report", report)
    assert "line 3" in report.read_text()
    decided = dragoman("translate", *options, "--skip-keys", "icon", "--strict")
    assert (decided.code, decided.err) == (0, "")
    dragoman("translate", *options, "--only-keys", "icon")
    assert '"title": "eins"' in (tmp_path / "a.en.json").read_text()


def test_a_sentence_that_was_cut_is_named_by_its_line(dragoman, trained, tmp_path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("eins\n" + "zwei drei " * 400 + "\n" + "eins zwei. " * 400 + "\n")
    answer = dragoman("translate", "-i", lines, "--model", trained, "--strict")
    assert answer.code == 3
    assert answer.err == (
        "dragoman: line 2: a sentence is too long for the model and was translated in parts.\n"
    )
    document = tmp_path / "a.txt"
    document.write_text("eins\n\n" + "zwei drei " * 400 + "\n")
    answer = dragoman("translate", document, "--model", trained, "--strict")
    assert answer.code == 3
    assert "a sentence is too long for the model and was translated in parts" in answer.err
    assert "(line 3)" in answer.err
