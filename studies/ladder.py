"""A ladder from the Transformer of 2017 to today's: one change at a time, on equal terms.

    python -m studies.ladder --multi30k DIR --tatoeba DIR --out DIR --device cuda --jobs 10
    python -m studies.ladder --report DIR/results.json     # writes docs/ten-years.md, needs no GPU

Each rung is the rung below it with one change. All are trained on the same pairs for the same
number of floating-point operations, German to English. The learning rate of a rung is the one of
three with the lowest validation loss, with the first seed; if that is the lowest or the highest of
them, the next one beyond it is tried too. Then the other seeds follow. Test sets are translated at
the end, once by each model.

    DIR/ladder.json    what is compared    DIR/flops.json    the cost of a training
    DIR/runs/NAME/     an ordinary run's folder, with result.json beside the model
    DIR/results.json   all figures: small, for the report

The same command goes on where it stopped. Without --flops a few short trainings tell how fast this
machine is, and the cost is chosen so that all of it takes as long as --whole says.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from dragoman.errors import RunError
from dragoman.lab.compare.corpora import ALSO, CorpusFiles
from dragoman.lab.compare.runs import Result, Study, claim_folder, cores, default_jobs, run_all
from dragoman.lab.compare.systems import Scale, System
from dragoman.model.build import pick_device
from dragoman.storage.files import storage_errors, write_atomically
from dragoman.training.journal import LOG
from studies.ladder_page import PAGE, as_page, write_page

_FACTS, _FLOPS, _SPEED, RESULTS = "ladder.json", "flops.json", "speed.json", "results.json"
_MOST_RATES = 5  # tried for a rung
_EXPECTED_RATES = 3.5
_RESERVE = 0.85  # of the time is planned for
_NOAM = (0.15, 0.3, 0.6)  # factors on the paper's rate
_ADAM = (1e-3, 2e-3, 4e-3)
_MUON = (2e-3, 4e-3, 8e-3)

_COMMON: dict[str, Any] = {
    "model.norm_position": "post", "training.optimizer": "adam", "training.schedule": "noam",
    "data.max_length": 100, "data.valid_size": 0,
    "decoding.beam_size": 1, "decoding.max_length_ratio": 1.5, "decoding.max_length_extra": 10,
    "decoding.keep_names": False,
    "training.patience": 0, "training.average_checkpoints": 1, "training.log_every": 1_000_000,
    "training.micro_batch_tokens": 32_768,
}  # fmt: skip
# `flops`: of a short training that tells how fast the machine is
FULL = Scale(
    name="full",
    flops=3e13,
    settings={
        **_COMMON,
        "text.vocab_size": 8000, "model.d_model": 256, "model.num_heads": 4, "model.d_ff": 1024,
        "model.num_encoder_layers": 3, "model.num_decoder_layers": 3, "training.batch_tokens": 4000,
    },
    test_pairs=2000,
    valid_pairs=500,
    validations=1,
    seeds=5,
)  # fmt: skip
TINY = Scale(
    name="tiny",
    flops=2e9,
    settings={
        **_COMMON,
        "text.vocab_size": 500, "model.d_model": 32, "model.num_heads": 4, "model.d_ff": 96,
        "model.num_encoder_layers": 1, "model.num_decoder_layers": 1, "training.batch_tokens": 300,
    },
    test_pairs=20,
    valid_pairs=20,
    validations=1,
    seeds=2,
)  # fmt: skip


@dataclass(frozen=True)
class Rung:
    """A change: its settings override the settings of all rungs below."""

    name: str
    source: str
    settings: Mapping[str, Any]
    rates: Sequence[float]


def rungs(scale: Scale) -> list[Rung]:
    """Return the rungs from the lowest to the highest."""
    # Three matrices instead of two: two thirds of the rows, in a multiple that a GPU likes.
    gated = scale.settings["model.d_ff"] * 2 // 3 // 8 * 8
    return [
        Rung("the paper of 2017", "Vaswani et al. 2017", {}, _NOAM),
        Rung("pre-norm", "Xiong et al. 2020", {"model.norm_position": "pre"}, _NOAM),
        Rung("RMSNorm", "Zhang and Sennrich 2019", {"model.norm_type": "rms"}, _NOAM),
        Rung(
            "SwiGLU", "Shazeer 2020",
            {"model.activation": "swiglu", "model.d_ff": gated}, _NOAM,
        ),
        Rung("rotary positions", "Su et al. 2021", {"model.positions.kind": "rotary"}, _NOAM),
        Rung("QK-norm", "Henry et al. 2020", {"model.attention.similarity": "qk-norm"}, _NOAM),
        Rung(
            "grouped queries", "Ainslie et al. 2023",
            {"model.attention.heads_layout": "grouped", "model.attention.groups": 2}, _NOAM,
        ),
        Rung(
            "cosine schedule", "Loshchilov and Hutter 2017",
            {"training.schedule": "cosine"}, _ADAM,
        ),
        Rung("AdamW", "Loshchilov and Hutter 2019", {"training.weight_decay": 0.1}, _ADAM),
        Rung("Muon", "Jordan et al. 2024", {"training.optimizer": "muon"}, _MUON),
    ]  # fmt: skip


@dataclass(frozen=True)
class Field:
    """A corpus: its name in the study, and what suits its size."""

    corpus: str
    settings: Mapping[str, Any]
    files: tuple[str, str, str]  # to train on, to validate on, to test on


FIELDS = {
    "Multi30k": Field(ALSO, {"model.dropout": 0.2}, ("train", "val", "test_2016_flickr")),
    "Tatoeba": Field("all", {"model.dropout": 0.1}, ("train", "valid", "test")),
}


@dataclass(frozen=True)
class Ladder:
    """The trainings, and their results so far."""

    study: Study
    height: int  # rungs, from the lowest on

    @property
    def rungs(self) -> list[Rung]:
        return rungs(self.study.scale)[: self.height]

    def system(self, field: str, number: int, rate: float, seed: int, kind: str = "") -> System:
        """A training; `kind` is a prefix of its name if it is not part of the comparison."""
        settings: dict[str, Any] = {**FIELDS[field].settings}
        for rung in self.rungs[: number + 1]:
            settings |= rung.settings
        settings |= {"training.learning_rate": rate, "training.seed": seed}
        called = f"{number}-{self.rungs[number].name.replace(' ', '-')}"
        name = f"{kind}{field}.{called}.rate-{rate:.3g}.seed-{seed}"
        return System(name, settings, FIELDS[field].corpus, watched=True, scored=False)

    def tried(self, field: str, number: int) -> dict[float, System]:
        """The rung with each rate, further ones as long as the best is at the edge."""
        rates = [*self.rungs[number].rates]
        while True:
            systems = {rate: self.system(field, number, rate, 1) for rate in rates}
            best = self._best(systems)
            if best is None or rates[0] < best < rates[-1] or len(rates) >= _MOST_RATES:
                return systems
            rates = [best / 2, *rates] if best == rates[0] else [*rates, 2 * best]

    def rate(self, field: str, number: int) -> float | None:
        """The one with the lowest validation loss; None until all have been tried."""
        return self._best(self.tried(field, number))

    def _best(self, systems: Mapping[float, System]) -> float | None:
        if not all(map(self.study.has_result, systems.values())):
            return None
        return min(systems, key=lambda rate: self.study.result(systems[rate]).loss)

    def seeds(self, field: str, number: int) -> list[System]:
        """The rung with its rate, seed by seed; nothing before the rate is known."""
        rate = self.rate(field, number)
        if rate is None:
            return []
        return [
            self.system(field, number, rate, seed) for seed in range(1, self.study.scale.seeds + 1)
        ]

    def trained(self, field: str, number: int) -> list[System]:
        return [s for s in self.seeds(field, number) if self.study.has_result(s)]

    def missing(self) -> list[System]:
        """Return the trainings that are still needed: first the rates, then seed after seed."""
        places = [(field, number) for field in FIELDS for number in range(self.height)]
        needed = [system for place in places for system in self.tried(*place).values()]
        rows = [row for place in places if (row := self.seeds(*place))]
        needed += [system for seed in zip(*rows, strict=True) for system in seed]
        unique = {system.name: system for system in needed}.values()
        return [system for system in unique if not self.study.has_result(system)]

    def tests(self) -> list[System]:
        """Each trained model as an ensemble of one, which is what translates a test set."""
        return [
            tested(system)
            for field in FIELDS
            for number in range(self.height)
            for system in self.trained(field, number)
            if not self.study.result(system).failure
        ]


def tested(system: System) -> System:
    return System(f"{system.name}.test", corpus=system.corpus, members=(system,))


def climb(
    out: str | Path,
    multi30k: str | Path,
    tatoeba: str | Path,
    *,
    scale: Scale = FULL,
    height: int = 100,
    flops: float | None = None,
    whole: float = 14.0,
    minutes: float = math.inf,
    finish: bool = False,
    device: str = "auto",
    jobs: int | None = None,
    console: Console | None = None,
) -> dict[str, Any]:
    """Train, test and time all rungs; what is known in the end.

    `whole`: minutes of all trainings, if `flops` does not give the cost of one. `minutes`: after
    these no training is begun; with `finish`, what is trained by then is tested.
    """
    started = time.monotonic()
    console = console or Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    where = pick_device(device)
    jobs = jobs or default_jobs(where.type)
    ladder = Ladder(Study(Path(out), scale, where.type), min(height, len(rungs(scale))))
    folder = ladder.study.folder
    with storage_errors(f"writing to {out}"):
        facts = {"scale": asdict(replace(scale, seeds=0)), "rungs": [*map(asdict, ladder.rungs)]}
        claim_folder(folder, _FACTS, facts, "other rungs or sizes")
        _write_texts(ladder.study, {"Multi30k": Path(multi30k), "Tatoeba": Path(tatoeba)})
        cost = _cost(ladder, flops, jobs, whole, console)
        ladder = replace(ladder, study=replace(ladder.study, scale=replace(scale, flops=cost)))
        stop_at = started + 60 * minutes
        while missing := ladder.missing():
            if not run_all(ladder.study, missing, jobs, console, stop_at):
                break
        if not missing or finish:
            run_all(ladder.study, ladder.tests(), jobs, console)
            _measure_speed(ladder, scale.flops, console)
        else:
            console.print("not everything is trained: the same command goes on.")
        results = _results(ladder, jobs)
        write_atomically(folder / RESULTS, json.dumps(results, indent=1).encode())
    took = (time.monotonic() - started) / 60
    console.print(f"wrote {folder / RESULTS} after {took:.1f} minutes")
    return results


def _write_texts(study: Study, folders: Mapping[str, Path]) -> None:
    for name, field in FIELDS.items():
        corpus = study.texts.corpus(field.corpus)
        if Path(corpus.target).exists():
            continue
        train, valid, test = (
            (str(folders[name] / f"{part}.de.gz"), str(folders[name] / f"{part}.en.gz"))
            for part in field.files
        )
        before = f"{ALSO}." if field.corpus == ALSO else ""
        study.texts.write_corpus(CorpusFiles(train, valid, test), study.scale, field.corpus, before)


def _cost(ladder: Ladder, flops: float | None, jobs: int, whole: float, console: Console) -> float:
    """Return the FLOPs of each training: of an earlier call, of the options, or what fits."""
    path = ladder.study.folder / _FLOPS
    if not path.exists():
        chosen = flops or _affordable(ladder, jobs, whole, console)
        write_atomically(path, json.dumps(chosen).encode())
    kept = float(json.loads(path.read_text(encoding="utf-8")))
    if flops is not None and flops != kept:
        raise RunError(f"{path.parent} has trainings of {kept:g} FLOPs: choose another --out.")
    return kept


def _affordable(ladder: Ladder, jobs: int, minutes: float, console: Console) -> float:
    """Return the FLOPs of a training with which all of them take about this many minutes here.

    Every rung is trained for a moment, as many in parallel as later: they share the GPU, and a FLOP
    takes longer where kernels are small or not ours.
    """
    study = ladder.study
    probes = []
    for field in FIELDS:
        for number, rung in enumerate(ladder.rungs):
            system = ladder.system(field, number, rung.rates[0], 1, "probe.")
            probes.append(_logged(system))
    probes = probes[: max(jobs, ladder.height)]
    run_all(study, probes, jobs, console)
    results = {s.name: study.result(s) for s in probes if not study.result(s).failure}
    probes = [system for system in probes if system.name in results]
    per_flop = statistics.mean(
        results[s.name].target_tokens / results[s.name].flops / _tokens_per_s(study, s)
        for s in probes
    )
    # Apart from the steps, a model is built, validated and saved, and kernels are compiled.
    beside = statistics.mean(_duration(study, s) - results[s.name].seconds for s in probes)
    trainings = len(FIELDS) * ladder.height * (_EXPECTED_RATES + study.scale.seeds - 1)
    room = 60 * minutes * _RESERVE * jobs / trainings - beside
    flops = max(study.scale.flops, float(f"{room / per_flop:.2g}"))
    console.print(
        f"{trainings:.0f} trainings, {jobs} at once, in {minutes:g} minutes: {max(0, room):.0f} s "
        f"of steps for each and {beside:.1f} s beside them, {1 / per_flop / 1e12:.3g} TFLOP/s in "
        f"each process: {flops:.2g} FLOPs"
    )
    return flops


def _logged(system: System) -> System:
    """Return the system with a log of its speed every few steps."""
    return replace(system, settings={**system.settings, "training.log_every": 10})


def _tokens_per_s(study: Study, system: System) -> float:
    """Return the target tokens per second, once kernels are compiled and shapes recorded."""
    lines = (study.run_of(system) / LOG).read_text(encoding="utf-8").splitlines()
    speeds: list[float] = [
        e["tokens_per_s"] for e in map(json.loads, lines) if e["kind"] == "train"
    ]
    return statistics.median(speeds[len(speeds) // 2 :])


def _duration(study: Study, system: System) -> float:
    """Return the seconds of a whole training, from its settings to its result."""
    began, ended = (
        (study.run_of(system) / name).stat().st_mtime for name in ("run.toml", "result.json")
    )
    return ended - began


def _measure_speed(ladder: Ladder, flops: float, console: Console) -> None:
    """Time each rung on the first corpus, by itself, and save the times rung by rung.

    `flops`: of the training that is timed.
    """
    study = ladder.study
    path = study.folder / _SPEED
    speeds = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    short = replace(study, scale=replace(study.scale, flops=flops))
    field = next(iter(FIELDS))
    for number, rung in enumerate(ladder.rungs):
        models = [s for s in ladder.tests() if s.name.startswith(f"{field}.{number}-")]
        rate = ladder.rate(field, number)
        if rung.name in speeds or rate is None or not models:
            continue
        system = _logged(ladder.system(field, number, rate, 1, "speed."))
        run_all(short, [system], 1, console)
        if study.result(system).failure:
            continue
        translator = study.translator(models[0].members[0])
        sources = study.texts.test_of(system.corpus).sources
        translator(sources)  # what is compiled once is not counted
        started = time.monotonic()
        translator(sources)
        taken = time.monotonic() - started
        speeds[rung.name] = {
            "training": _tokens_per_s(study, system),
            "translation": len(sources) / taken,
        }
        write_atomically(path, json.dumps(speeds).encode())


def _results(ladder: Ladder, jobs: int) -> dict[str, Any]:
    """All that the report needs, as plain data."""
    study = ladder.study
    machine = f"{cores()} CPU cores, torch {torch.__version__}"
    if study.device == "cuda":
        machine = f"one {torch.cuda.get_device_name()}, {machine}"
    path = study.folder / _SPEED
    return {
        "machine": machine,
        "jobs": jobs,
        "flops": study.scale.flops,
        "settings": study.scale.settings,
        "speed": json.loads(path.read_text(encoding="utf-8")) if path.exists() else {},
        "corpora": {
            field: {
                "settings": FIELDS[field].settings,
                "pairs": len(study.texts.sentences(FIELDS[field].corpus).sources),
                "test_pairs": len(study.texts.test_of(FIELDS[field].corpus).sources),
                "rungs": [_rung(ladder, field, number) for number in range(ladder.height)],
            }
            for field in FIELDS
        },
    }


def _rung(ladder: Ladder, field: str, number: int) -> dict[str, Any]:
    study, rung = ladder.study, ladder.rungs[number]
    tried = {
        f"{rate:g}": study.result(system).loss
        for rate, system in ladder.tried(field, number).items()
        if study.has_result(system)
    }
    runs = []
    for system in ladder.trained(field, number):
        result, test = study.result(system), Result()
        if not result.failure:
            if not study.has_result(tested(system)):
                continue
            test = study.result(tested(system))
        kept = ("parameters", "steps", "flops", "seconds", "target_tokens", "valid", "loss")
        facts = {name: getattr(result, name) for name in (*kept, "failure")}
        facts["seed"] = system.settings["training.seed"]
        runs.append({**facts, "bleu": test.bleu, "chrf": test.chrf})
    return {
        "name": rung.name,
        "source": rung.source,
        "settings": rung.settings,
        "tried": tried,
        "rate": ladder.rate(field, number),
        "seeds": runs,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--multi30k", metavar="DIR", help="with train, val, test_2016_flickr.de.gz")
    parser.add_argument("--tatoeba", metavar="DIR", help="with train, valid and test.de.gz")
    parser.add_argument("--out", metavar="DIR", help="folder for the runs and the results")
    parser.add_argument("--device", default="auto", help="cpu, cuda or auto")
    parser.add_argument("--jobs", type=int, help="trainings at once")
    parser.add_argument("--flops", type=float, help="of each training; otherwise from --whole")
    parser.add_argument("--whole", type=float, default=14.0, help="minutes of all trainings")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="begin no training after these"
    )
    parser.add_argument(
        "--finish", action="store_true", help="test what is trained, even if seeds are missing"
    )
    parser.add_argument("--seeds", type=int, help="trainings of each rung")
    parser.add_argument("--rungs", type=int, default=100, help="only so many, from the lowest on")
    parser.add_argument("--tiny", action="store_true", help="a small model: a rehearsal on a CPU")
    parser.add_argument("--report", metavar="FILE", help="results.json: write the page from it")
    parser.add_argument("--page", default=str(PAGE), help="the page that --report writes into")
    options = parser.parse_args(arguments)
    if options.report:
        results = json.loads(Path(options.report).read_text(encoding="utf-8"))
        write_page(Path(options.page), results)
        print(as_page(results))
        return
    if not (options.multi30k and options.tatoeba and options.out):
        parser.error("give --multi30k, --tatoeba and --out, or --report.")
    scale = TINY if options.tiny else FULL
    climb(
        options.out, options.multi30k, options.tatoeba,
        scale=replace(scale, seeds=options.seeds or scale.seeds), height=options.rungs,
        flops=options.flops, whole=options.whole, minutes=options.minutes, finish=options.finish,
        device=options.device, jobs=options.jobs,
    )  # fmt: skip


if __name__ == "__main__":
    main()
