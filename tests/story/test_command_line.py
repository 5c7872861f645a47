"""The command line as people use it, from two text files to scores, and every way they get it
wrong."""

import gzip
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from itertools import islice

import pytest

from dragoman.bundle.folder import Bundle, bundled_models, read_bundle, write_bundle
from dragoman.cli.translating import arriving
from dragoman.config import replace
from dragoman.config.presets import FINE_TUNING, PRESETS
from dragoman.decode.bulk.job import Worker
from dragoman.decode.bulk.run import progress
from dragoman.errors import ConfigError
from dragoman.text.parallel import read_pairs
from tests.conftest import QUICK_RUN, toy_pairs, write_corpus
from tests.processes import Running, refuse_the_compiler, run


def test_from_two_files_to_a_translator(dragoman, tmp_path) -> None:
    corpus = write_corpus(
        tmp_path, "train", [*toy_pairs(300), ("leer", ""), ("zu lang " * 200, "too long " * 200)]
    )
    answer = dragoman("train", *corpus, "--out", tmp_path / "run", *QUICK_RUN)
    assert answer.code == 0
    assert answer.out == ""
    for words in (
        # what is wrong with the corpus
        "1 pairs with an empty side", "1 pairs longer than data.max_length=256",
        # the plan
        "de → "
        "en", "pairs", "target tokens", "parameters", "vocabulary", "MiB", "12 steps",
        "validations",
        "loss", "ppl", "tokens/s", "rate", "validation perplexity",  # progress
        # the end
        "BLEU", "chrF2", "nrefs:1|case:mixed", "version:", "FLOPs",
        "try: dragoman translate --model",
    ):  # fmt: skip
        assert words in answer.err, words
    bundle = {
        "manifest.json",
        "model.safetensors",
        "config.toml",
        "shared.spm",
        "languages.json",
        "card.json",
    }
    assert bundle <= {path.name for path in (tmp_path / "run").iterdir()}
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert {entry["kind"] for entry in log} == {"train", "valid"}
    again = dragoman("train", *corpus, "--out", tmp_path / "run", *QUICK_RUN, "--resume")
    assert again.code == 0
    assert "finished" in again.err


def test_translate_in_all_its_forms(dragoman, trained, tmp_path) -> None:
    model = ("--model", trained)
    assert dragoman("translate", "eins zwei", "drei", *model).out == "one two\nthree\n"
    source = tmp_path / "in.gz"
    source.write_bytes(gzip.compress("vier\n\nfünf sechs\n".encode()))
    answer = dragoman("translate", "--input", source, "--output", tmp_path / "out.txt", *model)
    assert answer.code == 0
    assert (tmp_path / "out.txt").read_text() == "four\n\nfive six\n"
    rows = dragoman("translate", "eins", "--nbest", 3, *model).out.splitlines()
    assert len(rows) == 3
    scores = [float(row.split("\t")[0]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert dragoman("translate", "eins zwei", "--alignments", *model).out == "one two\t0-0 1-1\n"
    answer = json.loads(dragoman("translate", "eins zwei", "--json", "--beam", 2, *model).out)
    assert answer["source"] == "eins zwei"
    assert answer["translations"][0]["text"] == "one two"
    assert "alignment" not in answer["translations"][0]
    aligned = json.loads(dragoman("translate", "eins zwei", "--json", "--alignments", *model).out)
    assert aligned["translations"][0]["alignment"] == [[0, 0], [1, 1]]
    assert dragoman("translate", "eins", "--prefix", "nine", *model).out.startswith("nine")
    drawn = [
        dragoman("translate", "eins zwei", "--sample", "--top-k", 1, "--seed", s, *model).out
        for s in (1, 2)
    ]
    assert drawn == ["one two\n", "one two\n"]
    ensemble = f"{trained},{trained}"
    assert dragoman("translate", "sieben acht", "--model", ensemble).out == "seven eight\n"


def test_lines_come_from_standard_input(trained, tmp_path) -> None:
    command = ["translate", "--model", trained, "--device", "cpu"]
    done = run(tmp_path, *command, given="eins\nzwei drei\n", first=refuse_the_compiler)
    assert (done.code, done.out) == (0, "one\ntwo three\n"), done.err


def test_a_co_process_answers_each_line_when_it_comes(trained, tmp_path) -> None:
    """A process that writes a line gets its translation before the end of the input."""
    command = ["translate", "--model", trained, "--device", "cpu"]
    process = Running(tmp_path, command, given=None)
    said = ""
    for line, translation in (("eins", "one"), ("zwei drei", "two three"), ("", "")):
        process.write(f"{line}\n")
        said += f"{translation}\n"
        process.heard(f"^{said}$")
    process.end_input()
    assert process.answer() == (0, said, "")


def test_lines_that_wait_are_translated_together() -> None:
    windows = list(arriving([str(number) for number in range(5000)], most=2048))
    assert [line for window in windows for line in window] == [str(n) for n in range(5000)]
    assert max(map(len, windows)) == 2048

    def broken():
        yield "eins"
        raise ConfigError("the file ends here")

    windows = arriving(broken())
    assert next(windows) == ["eins"]
    with pytest.raises(ConfigError, match="ends here"):
        next(windows)


def test_a_file_job_resumes_where_it_stopped(dragoman, trained, tmp_path, monkeypatch) -> None:
    source = tmp_path / "in.txt"
    source.write_text("eins\nzwei\ndrei\nvier\n")
    out = tmp_path / "out.txt"
    job = ["translate", "--input", source, "--output", out, "--model", trained, "--shard-lines", 1]
    translate_all = Worker.translate_all

    def stopped(self: Worker, shards):
        yield from islice(translate_all(self, shards), 2)
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(Worker, "translate_all", stopped)
        assert dragoman(*job).code == 130
    assert not out.exists()
    answer = dragoman(*job)
    assert "shards done before: 2 of 4" in answer.err
    assert out.read_text() == "one\ntwo\nthree\nfour\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.txt"]


def test_without_a_terminal_progress_is_a_line_now_and_then(capsys, monkeypatch) -> None:
    now = 0.0
    monkeypatch.setattr("dragoman.decode.bulk.run.time.monotonic", lambda: now)
    with progress(total=1000, done=100) as advance:
        for _ in range(4):
            now += 20.0
            advance(100)
    assert capsys.readouterr().err.splitlines() == [
        "300 of 1,000 lines, 5 lines/s, 0:02:20 left",
        "500 of 1,000 lines, 5 lines/s, 0:01:40 left",
    ]


def test_sigterm_leaves_nothing_half_written(trained, tmp_path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    command = ["translate", "--model", trained, "--device", "cpu", "--output", out / "out.txt"]
    process = Running(tmp_path / "said", command, given=None)
    process.write("eins\n")
    deadline = time.monotonic() + 300
    while not list(out.glob("*.partial")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(out.glob("*.partial"))
    process.send(signal.SIGTERM)
    assert process.answer().code == 128 + signal.SIGTERM
    assert list(out.iterdir()) == []


def test_evaluate_score_info_check(dragoman, trained, tmp_path) -> None:
    source, target = write_corpus(tmp_path, "test", toy_pairs(40, seed=9))
    perfect, poor = tmp_path / "perfect.en", tmp_path / "poor.en"
    shutil.copy(target, perfect)
    poor.write_text("one\n" * 40)
    answer = dragoman("evaluate", source, target, "--hyp", perfect)
    assert f"{perfect}  BLEU 100.00  (nrefs:1|case:mixed|eff:no|tok:13a" in answer.out
    answer = dragoman("evaluate", source, target, "--model", trained, "--hyp", poor, "--json")
    first, second = (json.loads(line) for line in answer.out.splitlines())
    assert {score["metric"] for score in first["scores"]} == {"BLEU", "chrF2", "TER"}
    assert first["scores"][0]["score"] > 90 > second["scores"][0]["score"]
    assert second["p_values"]["BLEU"] < 0.05
    answer = dragoman("evaluate", source, target, "--hyp", poor, "--hyp", poor, "--json")
    assert json.loads(answer.out.splitlines()[1])["p_values"] == {"BLEU": 1.0, "chrF2": 1.0}
    answer = dragoman("score", source, target, "--model", trained)
    rows = [line.split("\t") for line in answer.out.splitlines()]
    assert len(rows) == 40
    assert all(float(row[0]) < 0 < int(row[1]) for row in rows)
    assert "perplexity" in answer.err
    answer = dragoman("info", trained)
    for words in ("de → en", "parameters", "signature of BLEU", "flops", "2+2 layers"):
        assert words in answer.out
    assert "dragoman: " in dragoman("info").out
    assert dragoman("check", source, target).out.startswith("40 pairs")


def test_a_card_is_a_table_and_counts_parameters_by_part(dragoman, trained) -> None:
    facts = json.loads(dragoman("info", trained, "--json").out)
    assert set(facts["scores"]["validation"]) == {"BLEU", "chrF2"}
    shown = dragoman("info", trained).out
    assert shown.count("nrefs:1") == 2  # a signature once, however many scores it signs
    counts = [
        int(count.replace(",", "")) for count in re.findall(r"\d[\d,]*\d", facts["parameters"])
    ]
    assert counts[0] == sum(counts[1:])
    for part in ("embeddings", "encoder", "decoder", "output"):
        assert part in facts["parameters"]


def test_a_card_and_the_plan_list_settings_that_differ_from_defaults(dragoman, tmp_path) -> None:
    corpus = write_corpus(tmp_path, "t", toy_pairs(60))
    unusual = ["model.positions.kind=relative", "model.attention.heads_layout=multi-query"]
    sets = [word for setting in unusual for word in ("--set", setting)]
    folder = tmp_path / "run"
    answer = dragoman(
        "train", *corpus, "--out", folder, *QUICK_RUN, *sets, "--set", "training.max_steps=1"
    )
    card = dragoman("info", folder).out
    for words in ("positions.kind=relative", "attention.heads_layout=multi-query"):
        assert words in answer.err
        assert words in card


def test_settings_are_listed_with_every_presets_value(dragoman) -> None:
    table = dragoman("info", "--settings").out
    assert "training.max_steps" in table
    header = table.splitlines()[0].split()
    assert header == ["setting", "default", *PRESETS, "meaning"]
    rate = next(line.split() for line in table.splitlines() if "training.learning_rate" in line)
    assert rate[1:4] == ["0.0005", "0.004", "0.004"]  # the default, tiny's, small's
    assert "concat (vᵀ[q; k])" in " ".join(table.split())  # brackets are no markup
    few = dragoman("info", "--settings", "attention").out
    assert "model.attention.pattern" in few
    assert "training.max_steps" not in few
    assert "training.learning_rate" in dragoman("info", "--settings", "rate").out
    tiny = dragoman("info", "--settings", "warmup", "--preset", "tiny").out
    assert tiny.startswith("training.warmup_steps = 100  # ")
    assert "no setting has 'nonsense'" in dragoman("info", "--settings", "nonsense").err


def test_a_model_is_tuned_further_with_its_vocabulary_kept(dragoman, trained, tmp_path) -> None:
    corpus = write_corpus(tmp_path, "new", toy_pairs(200, seed=5))
    options = [
        "--device",
        "cpu",
        "--set",
        "training.max_steps=2",
        "--set",
        "training.learning_rate=1e-5",
    ]
    answer = dragoman("train", *corpus, "--out", tmp_path / "tuned", "--init", trained, *options)
    assert answer.code == 0, answer.err
    assert (tmp_path / "tuned" / "shared.spm").read_bytes() == (trained / "shared.spm").read_bytes()
    assert dragoman("translate", "eins neun", "--model", tmp_path / "tuned").out == "one nine\n"


def test_fine_tuning_keeps_search_and_licence_and_says_what_it_does_not_use(
    dragoman, trained, tmp_path
) -> None:
    parent = tmp_path / "parent"
    bundle = read_bundle(trained)
    config = replace(bundle.config, {"decoding.split_sentences": True, "decoding.beam_size": 7})
    card = bundle.card | {"licence": "CC BY 2.0", "attribution": "those who wrote it"}
    write_bundle(parent, Bundle(config, bundle.codec, bundle.weights, card))
    corpus = write_corpus(tmp_path, "new", toy_pairs(200, seed=5))
    answer = dragoman(
        "train", *corpus, "--out", tmp_path / "tuned", "--init", parent, "--preset", "tiny",
        "--device", "cpu", "--set", "training.max_steps=2", "--set", "text.vocab_size=300",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    assert "of preset tiny, only the settings of training are used" in answer.err
    assert "text.vocab_size has no effect" in answer.err
    tuned = read_bundle(tmp_path / "tuned")
    assert tuned.config.decoding == config.decoding
    assert tuned.config.training.learning_rate == FINE_TUNING["training.learning_rate"]
    assert tuned.config.training.warmup_steps == FINE_TUNING["training.warmup_steps"]
    assert tuned.card["licence"] == "CC BY 2.0"
    assert tuned.card["attribution"] == "those who wrote it"
    assert tuned.card["fine_tuned_from"] == "parent"


def test_no_validation_still_leaves_a_model(dragoman, tmp_path) -> None:
    corpus = write_corpus(tmp_path, "t", toy_pairs(12))
    answer = dragoman(
        "train", *corpus, "--out", tmp_path / "run", *QUICK_RUN, "--set", "training.max_steps=2"
    )
    assert answer.code == 0, answer.err
    assert dragoman("translate", "eins", "--model", tmp_path / "run").code == 0


def test_a_long_validation_sentence_does_not_stop_the_run(dragoman, tmp_path) -> None:
    """The sentence is longer than the limits of training and of the model."""
    corpus = write_corpus(tmp_path, "t", toy_pairs(100))
    valid = write_corpus(tmp_path, "v", [*toy_pairs(5), ("eins " * 90, "one " * 90)])
    short = ["--set", "data.max_length=40", "--set", "decoding.max_source_length=40"]
    answer = dragoman(
        "train", *corpus, "--out", tmp_path / "run", "--valid", *valid, *QUICK_RUN, *short
    )
    assert answer.code == 0, answer.err


def test_training_stops_when_validation_no_longer_improves(dragoman, tmp_path) -> None:
    corpus = write_corpus(tmp_path, "t", toy_pairs(100))
    still = [
        "--set",
        "training.learning_rate=0",
        "--set",
        "training.validate_every=1",
        "--set",
        "training.patience=2",
    ]
    answer = dragoman("train", *corpus, "--out", tmp_path / "run", *QUICK_RUN, *still)
    assert answer.code == 0, answer.err
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    # the first, then two no better
    assert [entry["step"] for entry in log if entry["kind"] == "valid"] == [1, 2, 3]
    assert dragoman("train", *corpus, "--out", tmp_path / "run", "--resume").err.endswith(
        "nothing to do.\n"
    )


def test_a_wrong_test_file_shows_before_training(dragoman, tmp_path) -> None:
    corpus = write_corpus(tmp_path, "t", toy_pairs(100))
    answer = dragoman(
        "train", *corpus, "--out", tmp_path / "run", "--test", "nope.de", "nope.en", *QUICK_RUN
    )
    assert answer.code == 1
    assert answer.err == "dragoman: nope.de: no such file.\n"
    assert not (tmp_path / "run" / "log.jsonl").exists()


def test_a_mistake_does_not_block_the_folder(dragoman, tmp_path) -> None:
    corpus = write_corpus(tmp_path, "t", toy_pairs(100))
    out = ["--out", tmp_path / "run", *QUICK_RUN, "--set", "training.max_steps=1"]
    assert dragoman("train", tmp_path / "typo.de", corpus[1], *out).code == 1
    assert dragoman("train", *corpus, *out).code == 0


def test_a_tsv_from_standard_input_is_enough(tmp_path) -> None:
    lines = "".join(f"{source}\t{target}\n" for source, target in toy_pairs(100))
    command = ["train", "-", "--out", tmp_path / "run", "--from", "de", "--to", "en"]
    short = [*QUICK_RUN, "--set", "training.max_steps=2"]
    done = run(tmp_path / "said", *command, *short, given=lines, first=refuse_the_compiler)
    assert done.code == 0, done.err
    assert "de → en" in done.err


def mistakes(tmp_path) -> dict[str, tuple[list[object], str]]:
    """Name: (what the user typed, words that the one line must hold)."""
    good = write_corpus(tmp_path, "good", toy_pairs(60))
    short, broken, empty = tmp_path / "short.en", tmp_path / "broken.de", tmp_path / "empty.de"
    short.write_text("".join(good[1].read_text().splitlines(keepends=True)[:-1]))
    broken.write_bytes(good[0].read_bytes().replace("ü".encode(), b"\xfc"))
    empty.write_text("")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.txt").write_text("precious")
    (tmp_path / "file").write_text("")
    (tmp_path / "bad.toml").write_text("[model\n")
    out = ["--out", tmp_path / "new", "--device", "cpu"]
    return {
        "sides of different length": (["train", good[0], short, *out], "has 60 lines"),
        "invalid UTF-8": (["train", broken, good[1], *out], "is not UTF-8: byte"),
        "no such file": (["train", tmp_path / "nope.de", good[1], *out], "no such file"),
        "empty corpus": (["train", empty, empty, *out], "no pairs to train on"),
        "nothing to train on": (["train", *out], "nothing to train on"),
        "folder with other things": (
            ["train", *good, "--out", tmp_path / "taken"],
            "is not empty (it holds thesis.txt)",
        ),
        "out is a file": (
            ["train", *good, "--out", tmp_path / "file"],
            "file is a file: choose a folder",
        ),
        "one side forgotten": (["train", good[0], *out], "good.de has only one side: name the"),
        "one side forgotten in a check": (["check", good[0]], "good.de has only one side"),
        "a folder is no text": (["translate", "x", tmp_path], "is a folder: give a text"),
        "beam of a sample": (["translate", "x", "--sample", "--beam", 2], "--beam is for a search"),
        "seed of a search": (["translate", "x", "--seed", 7], "--seed is for sampling: add"),
        "drawing without a sample": (
            ["synthesize", "--input", good[0], "--output", tmp_path / "o", "--top-k", 3],
            "--top-k is for sampling: add --sample",
        ),
        "an ensemble to tokenize": (["tokenize", "x", "--model", "a,b"], "takes one model"),
        "an ensemble to adapt": (
            ["adapt", *good, *out[:2], "--model", "a,b"],
            "--model a,b: this command takes one model",
        ),
        "unknown setting": (
            ["train", *good, *out, "--set", "model.d_modle=1"],
            "did you mean model.d_model?",
        ),
        "unknown preset": (["train", *good, *out, "--preset", "tyni"], "did you mean tiny?"),
        "bad config": (["train", *good, *out, "--config", tmp_path / "bad.toml"], "bad.toml"),
        "no such config": (["train", *good, *out, "--config", "nope.toml"], "nope.toml: no such"),
        "vocabulary too small": (
            ["train", *good, *out, "--set", "text.vocab_size=9"],
            "text.vocab_size=9 is too small",
        ),
        "no such model": (["translate", "x", "--model", tmp_path / "nope"], "no such model folder"),
        "not a model": (["translate", "x", "--model", tmp_path / "taken"], "not a model folder"),
        "unknown device": (
            ["translate", "x", "--model", "m", "--device", "tpu"],
            "no such model folder",
        ),
        "reference of another length": (
            ["evaluate", good[0], short, "--hyp", good[1]],
            "line by line",
        ),
    }


MISTAKES = [
    "sides of different "
    "length", "invalid UTF-8", "no such file", "empty corpus", "nothing to train on",
    "one side forgotten", "one side forgotten in a check", "a folder is no text",
    "beam of a sample", "seed of a search", "drawing without a sample", "an ensemble to tokenize",
    "an ensemble to adapt",
    "folder with other things", "out is a file", "unknown setting", "unknown preset", "bad config",
    "no such config",
    "vocabulary too small", "no such model", "not a model", "unknown device",
    "reference of another length",
]  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gets_one_clear_line(dragoman, tmp_path, name: str) -> None:
    arguments, words = mistakes(tmp_path)[name]
    answer = dragoman(*arguments)
    assert answer.code == 1, answer
    said = [line for line in answer.err.splitlines() if not line.startswith("warning:")]
    assert len(said) == 1
    assert said[0].startswith("dragoman: ")
    assert words in said[0]
    assert answer.out == ""
    assert not (tmp_path / "new").exists()  # no empty folder of a run that never began


def test_a_run_is_not_overwritten_nor_resumed_with_other_settings(dragoman, tmp_path) -> None:
    corpus = write_corpus(tmp_path, "t", toy_pairs(100))
    command = [
        "train",
        *corpus,
        "--out",
        tmp_path / "run",
        *QUICK_RUN,
        "--set",
        "training.max_steps=2",
    ]
    assert dragoman(*command, "--resume").code == 0  # nothing to resume: from the beginning
    assert "already contains a run" in dragoman(*command).err
    other = dragoman(*command, "--resume", "--set", "model.dropout=0.5")
    assert other.code == 1
    assert "was started with model.dropout=0.1, not 0.5" in other.err
    longer = dragoman(*command, "--resume", "--set", "training.max_steps=4")
    assert longer.code == 0, longer.err
    assert "resumed at step 2" in longer.err
    elsewhere = write_corpus(tmp_path / "other", "t", toy_pairs(100))
    moved = dragoman("train", *elsewhere, "--out", tmp_path / "run", "--resume")
    assert moved.code == 1
    assert "data.corpora" in moved.err


def test_two_runs_do_not_share_a_folder(dragoman, tmp_path) -> None:
    import fcntl

    corpus = write_corpus(tmp_path, "t", toy_pairs(100))
    (tmp_path / "run").mkdir()
    with open(tmp_path / "run" / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        answer = dragoman("train", *corpus, "--out", tmp_path / "run", *QUICK_RUN)
        assert answer.code == 1
        assert "in use by another training process" in answer.err
    assert (
        dragoman(
            "train", *corpus, "--out", tmp_path / "run", *QUICK_RUN, "--set", "training.max_steps=1"
        ).code
        == 0
    )


def test_usage_errors_exit_with_two(dragoman) -> None:
    assert dragoman("train", "a", "b").code == 2
    assert dragoman("translate", "--beam", "many").code == 2
    assert dragoman("no-such-command").code == 2
    assert dragoman("--version").out.startswith("dragoman ")


def test_an_unknown_command_is_answered_with_the_nearest_and_nothing_else_is_imported() -> None:
    code = (
        "import sys\nfrom dragoman.cli.commands import run_command_line\n"
        "try:\n    run_command_line(['transalte'])\n"
        "except SystemExit as end:\n    print(end.code)\n"
        "print([m for m in sys.modules if m.startswith('dragoman.cli.')])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "did you mean translate?" in done.stderr
    assert done.stdout == "2\n['dragoman.cli.arguments', 'dragoman.cli.commands']\n"


def test_from_python(tmp_path) -> None:
    import dragoman as package

    source, target = write_corpus(tmp_path, "t", toy_pairs(100))
    settings = {
        "model.norm_position": "pre",
        "training.max_steps": 2,
        "training.batch_tokens": 200,
        "text.vocab_size": 400,
    }
    translator = package.train(
        source, target, tmp_path / "run", preset="tiny", settings=settings, device="cpu"
    )
    assert translator.config.model.norm_position == "pre"
    assert isinstance(translator("eins"), str)
    with pytest.raises(package.DragomanError):
        package.load(tmp_path / "nowhere")


def test_a_run_on_prepared_data_is_the_run_that_prepares_it(dragoman, tmp_path) -> None:
    corpus = write_corpus(tmp_path, "t", toy_pairs(120))
    short = [*QUICK_RUN, "--set", "training.max_steps=2"]
    sizes = ["--preset", "tiny", "--set", "text.vocab_size=400"]
    prepared = dragoman("prepare", *corpus, "--out", tmp_path / "data", *sizes)
    assert prepared.code == 0, prepared.err
    assert "pairs" in prepared.out
    assert dragoman("train", *corpus, "--out", tmp_path / "whole", *short).code == 0
    assert (
        dragoman("train", "--prepared", tmp_path / "data", "--out", tmp_path / "run", *short).code
        == 0
    )
    assert not (tmp_path / "run" / "data").exists()
    models = [(tmp_path / run / "model.safetensors").read_bytes() for run in ("run", "whole")]
    assert models[0] == models[1]
    resumed = dragoman(
        "train", "--out", tmp_path / "run", "--resume", "--set", "training.max_steps=3"
    )
    assert "resumed at step 2" in resumed.err
    other = dragoman(
        "train",
        "--prepared",
        tmp_path / "data",
        "--out",
        tmp_path / "o",
        "--set",
        "text.vocab_size=300",
    )
    assert (other.code, "was prepared with text.vocab_size=400" in other.err) == (1, True)
    assert (
        "contains no prepared data"
        in dragoman("train", "--prepared", tmp_path, "--out", tmp_path / "p").err
    )
    assert "already exists" in dragoman("prepare", *corpus, "--out", tmp_path / "data").err


def test_tokenize_shows_what_the_model_reads(dragoman, trained) -> None:
    codec = read_bundle(trained).codec
    pieces = dragoman("tokenize", "eins zwei", "--model", trained).out.split()
    assert pieces[-1] == "</s>"
    assert "".join(pieces[:-1]).replace("▁", " ").strip() == "eins zwei"
    shown = json.loads(dragoman("tokenize", "eins zwei", "--model", trained, "--json").out)
    assert shown["ids"] == codec.encode_source(["eins zwei"])[0]
    numbers = dragoman("tokenize", "one", "--model", trained, "--target", "--ids").out
    assert [int(number) for number in numbers.split()] == codec.encode_target(["one"])[0]
    assert dragoman("tokenize", "Hallo", "--to", "fr").out.startswith(">>fr<< ")


def test_prepared_data_keeps_its_validation_set(dragoman, tmp_path) -> None:
    corpus = write_corpus(tmp_path, "t", toy_pairs(100))
    valid = write_corpus(tmp_path, "v", toy_pairs(7, seed=3))
    data = tmp_path / "data"
    answer = dragoman("prepare", *corpus, "--valid", *valid, "--out", data, "--preset", "tiny")
    assert answer.code == 0, answer.err
    assert "100 pairs" in answer.out  # none of them was held out
    answer = dragoman("train", "--prepared", data, "--out", tmp_path / "run", *QUICK_RUN[:4],
                      "--set", "training.max_steps=1")  # fmt: skip
    assert answer.code == 0, answer.err
    assert "7 pairs for validation" in answer.err


def test_evaluate_takes_the_packages_model_where_none_is_named(dragoman, tmp_path) -> None:
    source, target = write_corpus(tmp_path, "s", [("Guten Morgen.", "Good morning.")])
    answer = dragoman("evaluate", source, target, "--to", "en")
    assert answer.code == 0, answer.err
    assert answer.out.startswith(f"{bundled_models()[0]}  BLEU")


def test_problems_of_two_files_are_reported_once_for_both_directions(dragoman, tmp_path) -> None:
    source, target = write_corpus(tmp_path, "t", [*toy_pairs(100), ("leer", "")])
    config = tmp_path / "both.toml"
    config.write_text(
        f'''[[data.corpora]]
        source = "{source}"
        target = "{target}"
        [[data.corpora]]
        source = "{target}"
        target = "{source}"
        '''
    )
    answer = dragoman(
        "prepare", "--config", config, "--out", tmp_path / "data", "--set", "text.vocab_size=300"
    )
    assert answer.code == 0, answer.err
    assert answer.err.count("1 pairs with an empty side") == 1


def test_check_fails_where_training_would_be_pointless(dragoman, tmp_path) -> None:
    pairs = list(read_pairs("examples/tatoeba.de.gz", "examples/tatoeba.en.gz"))[:2000]
    texts = [(pair.source, pair.target) for pair in pairs]
    good = write_corpus(tmp_path, "good", texts)
    answer = dragoman("check", *good)
    assert answer.code == 0, answer.out
    shifted = [(texts[i][0], texts[i + (i >= 500)][1]) for i in range(len(texts) - 1)]
    answer = dragoman("check", *write_corpus(tmp_path, "shifted", shifted))
    assert answer.code == 1
    assert "the sides are shifted" in answer.out
    assert answer.err.count("\n") == 1
    answer = dragoman("check", *good, "--from", "fr", "--json")
    assert answer.code == 1
    assert json.loads(answer.out)["alarms"][0]["trouble"].endswith("seems to be 'de'")
    empty = write_corpus(tmp_path, "empty", [*texts[:50], *[("leer", "")] * 60])
    assert dragoman("check", *empty).code == 1
    flawed = write_corpus(tmp_path, "flawed", [*texts[:50], ("leer", "")])
    assert dragoman("check", *flawed).code == 0
    assert dragoman("check", *flawed, "--strict").code == 1


def test_training_says_when_a_language_is_another_than_named(dragoman, tmp_path) -> None:
    pairs = list(read_pairs("examples/tatoeba.de.gz", "examples/tatoeba.en.gz"))[:400]
    files = write_corpus(tmp_path, "t", [(pair.source, pair.target) for pair in pairs])
    answer = dragoman(
        "prepare", *files, "--from", "fr", "--to", "es", "--out", tmp_path / "data",
        "--preset", "tiny", "--set", "text.vocab_size=500",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    assert "the source should be 'fr', but seems to be 'de'" in answer.err
    assert "the target should be 'es', but seems to be 'en'" in answer.err
