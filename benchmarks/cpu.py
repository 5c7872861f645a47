"""Translation speed on a CPU: dragoman's ONNX engine and CTranslate2, on the same weights.

    python benchmarks/cpu.py                            the base shape, random weights
    python benchmarks/cpu.py --model pentaglot          a bundle, on validation sentences
    python benchmarks/cpu.py scaling --cores 1 2 4 8    a file of 4,000 lines, text to text
    python benchmarks/cpu.py end-to-end                 text file to text file, whole processes
    python benchmarks/cpu.py end-to-end --device cuda --text de.txt --lines 100000
    python benchmarks/cpu.py cold-start                 from process start to printed text
    python benchmarks/cpu.py memory                     before and after 10,000 lines
    python benchmarks/cpu.py presets --presets base,small

`taskset -c 0,1 python benchmarks/cpu.py ...` sets the cores; `scaling` takes some of those it has.

Cores of a shared machine vary by a fifth from minute to minute. So the systems are measured in
rounds, in which each has a short turn. Speeds are target tokens (or lines) per second, the median
over the rounds. The number in brackets is a ratio to the better of CTranslate2's two modes, all
cores on one batch or one batch per core: the median over the rounds of the ratio within a round.
Which mode is better is decided by their medians. ShortlistBatch of
pieces and ranges of numbers that a bundle holds are used. The base shape
has 16,000 pieces, no list, and ranges measured on its own sentences; these have 12-40 tokens and
are translated into 30 each. A model's own sentences end when they end. Without the `ctranslate2`
package its rows are left out.
"""

import argparse
import multiprocessing
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np

from dragoman.bundle.folder import Bundle, bundled_models, model_folders, read_bundle
from dragoman.bundle.plain_weights import plain_weights
from dragoman.config import DecodingConfig, TextConfig, make_config
from dragoman.convert.to_ctranslate2 import to_ctranslate2
from dragoman.convert.to_onnx import to_onnx
from dragoman.decode.request import Request
from dragoman.decode.search.table import BeamSearch
from dragoman.decode.search.task import Task
from dragoman.decode.translator import WINDOW_LINES, Translator
from dragoman.engine.onnx.kernels import best_factors
from dragoman.engine.onnx_engine import OnnxEngine
from dragoman.engine.protocol import usable_cores
from dragoman.text.codec import Codec
from dragoman.text.languages import Languages
from dragoman.text.parallel import read_lines
from dragoman.text.vocabulary import Vocabulary

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
Cell = tuple[str, int, int]  # its name, beam and batch size
CELLS: list[Cell] = [
    ("greedy, batch 32", 1, 32),
    ("beam 4, batch 32", 4, 32),
    ("greedy, one", 1, 1),
    ("beam 4, one", 4, 1),
]
TOKENS = 30
SINGLE = 200  # source tokens that are translated one sentence at a time
PAUSE = 0.02  # seconds between two turns, in which the threads of the first stop spinning
FIXED = DecodingConfig(max_length_ratio=0, max_length_extra=TOKENS, min_length_ratio=1000)
CORES = usable_cores()
FEATURES = ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "amx_int8", "asimddp", "i8mm", "sve")
PEER = find_spec("ctranslate2") is not None
# of a file that is translated first, to warm up
WARM_UP_LINES = {"cpu": 500, "cuda": 10_000}
PEER_BATCHES = {"cpu": (32,), "cuda": (16_384, 65_536)}  # sentences there, pieces here
Item = TypeVar("Item")
Run = Callable[[list[list[int]], int, int], int]
"""Sources, beam and batch size to the number of target tokens made."""
Turn = Callable[[], float]
"""Some work, and how much of it was done."""
Speeds = dict[str, list[float]]
"""Of each system, round by round."""
PEER_SCRIPT = """\
import sys, ctranslate2, sentencepiece
folder, tag, beam, cores, source, target, device, size = sys.argv[1:]
text = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/shared.spm")
if device == "cpu":
    model = ctranslate2.Translator(folder, compute_type="int8", inter_threads=int(cores),
                                   intra_threads=1)
else:
    model = ctranslate2.Translator(folder, device, compute_type="float16")
lines = [line.rstrip("\\n") for line in open(source)]
pieces = [[*tag.split(), *line, "</s>"] for line in text.encode(lines, out_type=str)]
found = model.translate_batch(pieces, beam_size=int(beam), max_batch_size=int(size),
                              batch_type="examples" if device == "cpu" else "tokens")
with open(target, "w") if target != "-" else sys.stdout as file:
    print("\\n".join(text.decode([done.hypotheses[0] for done in found])), file=file)
"""


def machine() -> str:
    """The CPU, what of its features int8 is about, and the kernels that the engine uses."""
    facts: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines():
        name, _, value = line.partition(":")
        facts[name.strip()] = value.strip()
    flags = facts.get("flags", facts.get("Features", "")).split()
    features = " ".join(feature for feature in FEATURES if feature in flags)
    name = facts.get("model name", platform.machine())
    return f"{name} ({features}); int8: {best_factors().value}; {CORES} cores"


def random_bundle(preset: str = "base", size: int = 16_000) -> Bundle:
    """A preset's shape with random weights; the pieces are learned from the examples and filled
    up."""
    config = make_config(preset, settings={"text.vocab_size": size})
    # few lines: the pieces are there to be counted, not to be read
    german, english = (
        list(islice(read_lines(str(EXAMPLES / f"tatoeba.{to}.gz")), 2000)) for to in ("de", "en")
    )
    codec = Codec.learn(german, english, TextConfig(vocab_size=1000), Languages(("de",), ("en",)))
    missing = size - len(codec.source)
    pieces = Vocabulary((*codec.source.pieces, *(f"<{i}>" for i in range(missing))))
    codec.source_segmenter.vocabulary = pieces
    draw = np.random.default_rng(1)
    weights = {}
    for name, shape in plain_weights(config.model, size, size, shared=True):
        one_of_a_norm = name.endswith("norm.weight")
        spread = shape[-1] ** -0.5 if len(shape) == 2 else 0.0
        numbers = draw.standard_normal(shape, dtype=np.float32) * spread + one_of_a_norm
        weights[name] = numbers.astype(np.float32)
    return Bundle(config, codec, weights, {})


def random_int8() -> Bundle:
    """The base shape in int8, with the ranges that it has on such sentences as are translated."""
    from dragoman.convert.ranges import measure_ranges  # with torch, which others need not load

    bundle = random_bundle()
    sources = random_sources(bundle)[::4]
    return replace(
        to_onnx(bundle, int8=True),
        ranges=measure_ranges(bundle, [(source, source[:TOKENS]) for source in sources]),
    )


def cut(sources: list[Item], batch: int, at_once: bool) -> list[list[Item]]:
    """Cut sentences into batches. If each core has its own batch, each gets long and short
    sentences, so that all end together."""
    count = -(-len(sources) // batch)
    if at_once and count == CORES:
        return [sources[i::count] for i in range(count)]
    return [sources[i * batch : (i + 1) * batch] for i in range(count)]


def dragoman_run(bundle: Bundle, decoding: DecodingConfig, parallel: bool, threads: int = 0) -> Run:
    engine = OnnxEngine(bundle, threads)

    def run(sources: list[list[int]], beam: int, batch: int) -> int:
        task = Task(replace(decoding, beam_size=beam))
        search = BeamSearch()
        batches = cut(sources, batch, parallel)
        in_order = batch == 1 or not parallel
        one_core = engine.single_threaded
        if in_order or one_core is None or len(batches) == 1:
            results = [search(engine, batch, task) for batch in batches]
        else:
            with ThreadPoolExecutor(CORES) as pool:
                results = list(pool.map(lambda one: search(one_core, one, task), batches))
        return sum(len(hypotheses[0].log_probs) for group in results for hypotheses in group)

    return run


def ctranslate2_run(folder: Path, bundle: Bundle, fixed: bool, parallel: bool) -> Run:
    import ctranslate2

    threads = {"inter_threads": CORES, "intra_threads": 1} if parallel else {"intra_threads": CORES}
    peer = ctranslate2.Translator(str(folder), device="cpu", compute_type="int8", **threads)
    limits = {"min_decoding_length": TOKENS, "max_decoding_length": TOKENS} if fixed else {}

    def run(sources: list[list[int]], beam: int, batch: int) -> int:
        pieces = [[bundle.codec.source.pieces[i] for i in source] for source in sources]
        if batch == 1:  # one after the other
            done = [
                peer.translate_batch([source], beam_size=beam, **limits)[0] for source in pieces
            ]
        elif parallel:
            given = [
                peer.translate_batch(g, beam_size=beam, asynchronous=True, **limits)
                for g in cut(pieces, batch, True)
            ]
            done = [waited.result() for group in given for waited in group]
        else:
            done = peer.translate_batch(pieces, beam_size=beam, max_batch_size=batch, **limits)
        return sum(len(result.hypotheses[0]) + (not fixed) for result in done)

    return run


def measure(turns: dict[str, Turn], rounds: int, seconds: float = 0) -> Speeds:
    """Work per second of each system in at least so many rounds, which take at least so long."""
    speeds: Speeds = {name: [] for name in turns}
    order = list(turns)
    begin = time.perf_counter()
    while len(speeds[order[0]]) < rounds or time.perf_counter() - begin < seconds:
        for name in order:
            time.sleep(PAUSE)
            start = time.perf_counter()
            work = turns[name]()
            speeds[name].append(work / (time.perf_counter() - start))
        # there and back, so that a machine that slows down steadily favors no system
        order.reverse()
    return speeds


def better(speeds: Speeds, beside: Sequence[str]) -> str:
    return max(beside, key=lambda name: median(speeds[name]))


def median_ratio(speeds: Speeds, name: str, beside: str) -> float:
    """Return the median of the ratios within the rounds."""
    pairs = zip(speeds[name], speeds[beside], strict=True)
    return median(ours / theirs for ours, theirs in pairs)


def with_ratios(speeds: Speeds, beside: Sequence[str], unit: str = "") -> dict[str, str]:
    """Return the cells of each system: its speed and, if there are peers, its ratio to the best
    of them."""
    shown = {name: f"{median(some):,.0f}{unit}" for name, some in speeds.items()}
    if beside:
        best = better(speeds, beside)
        for name in shown:
            shown[name] += f" ({median_ratio(speeds, name, best):.2f})"
    return shown


def some_of(sources: list[list[int]], batch: int) -> list[list[int]]:
    """Choose as many sentences as a turn takes, of all lengths, sorted; fewer for one at a time,
    which takes longer."""
    most = 2 * batch * CORES if batch > 1 else SINGLE * len(sources) // sum(map(len, sources))
    return sources[:: -(-len(sources) // most)]


def measure_cells(
    systems: dict[str, tuple[Run, Sequence[Cell]]],
    sources: list[list[int]],
    beside: Sequence[str],
    given: argparse.Namespace,
) -> dict[str, list[str]]:
    """Return the cells of all systems; a system has no entry in the cells of others."""
    shown: dict[str, list[str]] = {name: [] for name in systems}
    for cell in CELLS:
        title, beam, batch = cell
        some = some_of(sources, batch)
        turns: dict[str, Turn] = {
            name: partial(run, some, beam, batch)
            for name, (run, cells) in systems.items()
            if cell in cells
        }
        for turn in turns.values():  # first runs allocate
            turn()
        speeds = measure(turns, given.repeat, given.seconds)
        entries = with_ratios(speeds, beside)
        for name in systems:
            shown[name].append(entries.get(name, ""))
        rounds = len(next(iter(speeds.values())))
        listed = "; ".join(f"{name} {entry}" for name, entry in entries.items())
        say(f"{title}, {rounds} rounds: {listed}")
    return shown


def random_sources(bundle: Bundle) -> list[list[int]]:
    draw = np.random.default_rng(0)
    lengths = draw.integers(12, 40, size=max(64, 32 * CORES))
    sources = [
        [*draw.integers(300, 8000, size=n).tolist(), bundle.codec.source.eos] for n in lengths
    ]
    return sorted(sources, key=len, reverse=True)


def model_sources(bundle: Bundle) -> list[list[int]]:
    to = bundle.codec.languages.default_target("de")
    sources = bundle.codec.encode_source(list(read_lines(str(EXAMPLES / "valid.de.gz"))), to)
    return sorted(sources, key=len, reverse=True)


def table(title: str, columns: Sequence[str], rows: dict[str, list[str]]) -> None:
    print(f"\n{title}\n{machine()}\n\n| | {' | '.join(columns)} |")
    print("|---|" + "---|" * len(columns))
    for name, cells in rows.items():
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def speed(given: argparse.Namespace) -> None:
    """The four cells, base shape or a model."""
    fixed = not given.model
    int8 = bundle = random_int8() if fixed else read_bundle(given.model)
    decoding = FIXED if fixed else bundle.config.decoding
    sources = random_sources(bundle) if fixed else model_sources(bundle)
    batches = [cell for cell in CELLS if cell[2] > 1]
    alone = [cell for cell in CELLS if cell[2] == 1]
    systems: dict[str, tuple[Run, Sequence[Cell]]] = {
        "dragoman int8": (dragoman_run(int8, decoding, True), CELLS)
    }
    if given.plain:
        plain = replace(int8, shortlist=None, ranges={})
        run = dragoman_run(plain, decoding, True)
        systems["dragoman int8, no list, no ranges"] = run, CELLS
    if CORES > 1 and not given.quick:
        # one sentence at a time has all cores in any case
        run = dragoman_run(int8, decoding, False)
        systems["dragoman int8, one batch at a time"] = run, batches
    for threads in given.threads:
        run = dragoman_run(int8, decoding, True, threads)
        systems[f"dragoman int8, threads: {threads}"] = run, alone
    beside = []
    if PEER:
        with tempfile.TemporaryDirectory() as work:
            to_ctranslate2(int8, Path(work))
            for parallel in (False, True)[: 1 + (CORES > 1)]:
                beside.append(f"CTranslate2 int8{', one batch per core' * parallel}")
                run = ctranslate2_run(Path(work), bundle, fixed, parallel)
                systems[beside[-1]] = run, CELLS
    shown = measure_cells(systems, sources, beside, given)
    title = "base shape, random weights" if fixed else given.model
    columns = [name for name, *_ in CELLS]
    table(f"{title}, {len(sources)} sentences, target tokens/s (ratio)", columns, shown)


def presets(given: argparse.Namespace) -> None:
    """Time dragoman on the shapes of presets, relative to the first of them."""
    systems: dict[str, tuple[Run, Sequence[Cell]]] = {}
    sources: list[list[int]] = []
    for preset in given.presets.split(","):
        bundle = random_bundle(preset)
        model = bundle.config.model
        run = dragoman_run(to_onnx(bundle, int8=True), FIXED, True)
        systems[f"`{preset}`, {model.num_encoder_layers}+{model.num_decoder_layers}"] = run, CELLS
        sources = sources or random_sources(bundle)
    shown = measure_cells(systems, sources, [next(iter(systems))], given)
    table("int8, random weights, target tokens/s", [name for name, *_ in CELLS], shown)


def _keep_to(cores: int) -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


@cache
def _dragoman(model: str, processes: int = 0) -> Callable[[list[str], int], list[str]]:
    translator = Translator.load(model, "cpu", "onnx")
    to = _target(translator.codec)

    def translate(lines: list[str], beam: int) -> list[str]:
        decoding = replace(translator.config.decoding, beam_size=beam)
        request = Request(to=to, source_language="de", decoding=decoding)
        return [*translator.stream(lines, request, processes=processes)]

    return translate


def _dragoman_by_threads(model: str) -> Callable[[list[str], int], list[str]]:
    return _dragoman(model, processes=1)


@cache
def _ctranslate2(model: str) -> Callable[[list[str], int], list[str]]:
    import ctranslate2

    codec = read_bundle(model).codec
    with tempfile.TemporaryDirectory() as work:
        to_ctranslate2(read_bundle(model), Path(work))
        peer = ctranslate2.Translator(
            work, compute_type="int8", inter_threads=usable_cores(), intra_threads=1
        )

    def translate(lines: list[str], beam: int) -> list[str]:
        sources = codec.encode_source(lines, _target(codec))
        pieces = [[codec.source.pieces[i] for i in source] for source in sources]
        done = peer.translate_batch(pieces, beam_size=beam, max_batch_size=32)
        ids = [[codec.target.ids[piece] for piece in result.hypotheses[0]] for result in done]
        return [codec.decode_target(target) for target in ids]

    return translate


Translate = Callable[[str], Callable[[list[str], int], list[str]]]


def _translate(make: Translate, model: str, lines: list[str], beam: int) -> int:
    """How many lines were translated."""
    return len(make(model)(lines, beam))


def _target(codec: Codec) -> str:
    return codec.languages.default_target("de")


def german_lines(lines: int, file: str = "") -> list[str]:
    """So many lines of a file, or of the examples."""
    return list(islice(read_lines(file or str(EXAMPLES / "tatoeba.de.gz")), lines))


def scaling(given: argparse.Namespace) -> None:
    """A file of lines, text to text, on more and more cores."""
    lines = german_lines(given.lines)
    cores = [count for count in given.cores if count <= CORES]
    systems: dict[str, Translate] = {"dragoman int8, a process per core": _dragoman}
    if not given.quick:
        systems["dragoman int8, a thread per core"] = _dragoman_by_threads
    if PEER and not given.quick:
        systems["CTranslate2 int8"] = _ctranslate2
    shown: dict[str, list[str]] = {}
    spawn = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        # a process that may use so many of our cores
        pools = {
            count: stack.enter_context(ProcessPoolExecutor(1, spawn, _keep_to, (count,)))
            for count in cores
        }

        def turn(count: int, make: Translate, beam: int, lines: list[str]) -> float:
            return pools[count].submit(_translate, make, given.model, lines, beam).result()

        for name, make in systems.items():
            for beam in (1, 4):
                for count in cores:
                    turn(count, make, beam, lines[:500])
                turns: dict[str, Turn] = {
                    f"{count} cores": partial(turn, count, make, beam, lines) for count in cores
                }
                speeds = measure(turns, given.repeat)
                cells = shown[f"{name}, beam {beam}"] = []
                for count, column in zip(cores, turns, strict=True):
                    ratio = median_ratio(speeds, column, f"{cores[0]} cores")
                    efficiency = ratio * cores[0] / count
                    cells.append(f"{median(speeds[column]):,.0f} ({efficiency:.2f})")
                say(f"{name}, beam {beam}: {', '.join(cells)} lines/s")
    title = f"{given.model}, {len(lines):,} lines, lines/s (efficiency), {given.repeat} rounds"
    table(title, [f"{count} cores" for count in cores], shown)


def process(command: Sequence[str]) -> None:
    """A process from its start to its end.

    Bytecode is kept in a separate folder, since the modules' folder may be read-only.
    """
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir()) / "dragoman-bytecode")
    subprocess.run(
        command, check=True, env=environment, stdout=subprocess.DEVNULL, cwd=tempfile.gettempdir()
    )


def measure_processes(
    commands: dict[str, Sequence[str]],
    work: int,
    rounds: int,
    first: dict[str, Sequence[str]] | None = None,
) -> Speeds:
    """Work per second of whole processes; `first`: what each does before, in place of its work."""

    def turn(command: Sequence[str]) -> float:
        process(command)
        return work

    turns: dict[str, Turn] = {name: partial(turn, command) for name, command in commands.items()}
    for command in (first or commands).values():  # it compiles modules and kernels
        process(command)
    return measure(turns, rounds)


def whole_processes(
    given: argparse.Namespace, work: Path, beam: int, source: Path, target: str
) -> dict[str, Sequence[str]]:
    """The commands that translate a file: ours, and ten lines for CTranslate2 with
    SentencePiece."""
    codec = read_bundle(given.model).codec
    to = _target(codec)
    model = str(Path(given.model).resolve()) if Path(given.model).exists() else given.model
    command = [sys.executable, "-m", "dragoman", "translate", "--model", model, "--beam", str(beam)]
    commands: dict[str, Sequence[str]] = {
        "dragoman": [*command, "--from", "de", "--to", to, "--input", str(source)]
        + ["--device", given.device]
        + (["--output", target] if target != "-" else [])
    }
    if PEER:
        folder = work / "peer"
        if not folder.exists():
            to_ctranslate2(read_bundle(given.model), folder)
        tag = codec.tag(to)
        script = work / "peer.py"
        script.write_text(PEER_SCRIPT)
        shown_tag = "" if tag is None else codec.source.pieces[tag]
        for size in given.peer_batches or PEER_BATCHES[given.device]:
            commands[f"CTranslate2 + SentencePiece, batches of {size:,}"] = [
                sys.executable, str(script), str(folder), shown_tag, str(beam), str(CORES),
                str(source), target, given.device, str(size),
            ]  # fmt: skip
    return commands


def end_to_end(given: argparse.Namespace) -> None:
    """Text file to text file, the start of the process included."""
    lines = german_lines(given.lines, given.text)
    shown: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        source = work / "source.txt"
        source.write_text("\n".join(lines) + "\n")
        fewer = work / "fewer.txt"
        fewer.write_text("\n".join(lines[: WARM_UP_LINES[given.device]]) + "\n")
        for beam in given.beams:
            commands = whole_processes(given, work, beam, source, str(work / "out.txt"))
            first = whole_processes(given, work, beam, fewer, str(work / "out.txt"))
            speeds = measure_processes(commands, len(lines), given.repeat, first)
            for name, cell in with_ratios(speeds, [*commands][1:], " lines/s").items():
                say(f"{name}, beam {beam}: {cell}")
                shown.setdefault(name, []).append(cell)
    title = f"{given.model}, a file of {len(lines):,} lines, {given.repeat} rounds"
    table(title, [f"beam {beam}" for beam in given.beams], shown)


def cold_start(given: argparse.Namespace) -> None:
    """Time a process that translates one line, from its start to its end."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        source = work / "source.txt"
        source.write_text("Wo ist der Bahnhof?\n")
        commands = whole_processes(given, work, 4, source, "-")
        commands["`python -c 'import numpy'`"] = [sys.executable, "-c", "import numpy"]
        rounds = max(5, given.repeat)
        speeds = measure_processes(commands, 1, rounds)
    shown = {
        name: [f"{1 / median(some):.2f} s", f"{1 / max(some):.2f} s"]
        for name, some in speeds.items()
    }
    title = f"{given.model}, one line, process start to end, {rounds} rounds"
    table(title, ["median", "fastest"], shown)


def memory(given: argparse.Namespace) -> None:
    """Resident memory of one process, before and after more and more lines; and of several."""
    translator = Translator.load(given.model, "cpu", "onnx")
    request = Request(to=_target(translator.codec), source_language="de")
    cells = []
    lines = german_lines(10_000)
    for count in (0, 1, 10, 1000, 10_000):
        translator(lines[:count], request)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        cells.append(f"{pages * resource.getpagesize() / 2**20:,.0f}")
        say(f"after {count:,} lines: {cells[-1]} MiB")
    columns = ["loaded", "1 line", "10 lines", "1,000 lines", "10,000 lines"]
    table(f"{given.model}, resident MiB of one process", columns, {"dragoman int8": cells})
    most = 0.0
    for number, _ in enumerate(translator.stream(lines, request, processes=0)):
        if number % WINDOW_LINES == 0:
            most = max(most, _shared_out())
    if CORES > 1:
        say(f"{CORES} processes and the one that feeds them: {most:,.0f} MiB in all")


def _shared_out() -> float:
    """Return the MiB of this process and its children; shared memory is counted once."""
    pids = [os.getpid(), *(child.pid for child in multiprocessing.active_children())]
    found = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                found += int(line.split()[1])
    return found / 1024


MODES: dict[str, Callable[[argparse.Namespace], None]] = {
    "speed": speed,
    "scaling": scaling,
    "end-to-end": end_to_end,
    "cold-start": cold_start,
    "memory": memory,
    "presets": presets,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mode", nargs="?", choices=MODES, default="speed")
    parser.add_argument("--model", default="", help="a bundle; speed has the base shape without")
    parser.add_argument("--repeat", type=int, default=3, help="rounds at least")
    parser.add_argument(
        "--seconds", type=float, default=12, help="speed: the least that the rounds of a cell take"
    )
    parser.add_argument(
        "--threads", type=int, nargs="*", default=[], help="speed: for a sentence alone, as well"
    )
    parser.add_argument("--plain", action="store_true", help="speed: without list and ranges too")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="speed: no batch on several cores; scaling: processes alone",
    )
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--lines", type=int, default=4000, help="of scaling and end-to-end")
    parser.add_argument("--text", default="", help="end-to-end: German lines; default: examples")
    parser.add_argument(
        "--device", default="cpu", choices=("cpu", "cuda"), help="of end-to-end and cold-start"
    )
    parser.add_argument(
        "--peer-batches", type=int, nargs="+", help="end-to-end: of CTranslate2, lines or pieces"
    )
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4], help="end-to-end")
    parser.add_argument("--presets", default="base,base-fast,small,small-fast")
    given = parser.parse_args()
    if given.mode != "speed":
        given.model = given.model or bundled_models()[0]
    if given.model:
        (given.model,) = model_folders(given.model)
    if not PEER:
        say("CTranslate2 is not installed (pip install ctranslate2): its rows are left out.")
    MODES[given.mode](given)


if __name__ == "__main__":
    main()
