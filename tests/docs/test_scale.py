"""The page of figures is what its script prints, and its arithmetic holds."""

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def scale() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scale", ROOT / "benchmarks/scale.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["scale"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_script_prints(scale: ModuleType) -> None:
    assert (ROOT / "docs/scale.md").read_text() == scale.document(scale.Assumptions())


def test_a_ring_moves_what_its_members_send(scale: ModuleType) -> None:
    """Counted message by message: each member sends its neighbour a chunk, twice as often as it has
    neighbours."""
    given = replace(scale.Assumptions(), hop=0.0, links=1.0, nvlink=10.0, node=4)
    sent = sum(120.0 / 4 for _ in range(2 * 3))  # bytes from each of four members
    assert scale.all_reduce_s(120.0, 4, given) == pytest.approx(sent / 10.0)
    assert scale.all_reduce_s(120.0, 1, given) == 0.0


def test_infinite_links_leave_only_the_update_undivided(scale: ModuleType) -> None:
    given = replace(scale.Assumptions(), hop=0.0, nvlink=float("inf"), infiniband=float("inf"))
    model = scale.model_of(scale.make_config("base"), 32_000)
    speed = scale.tokens_per_s(model, given)
    assert speed == pytest.approx(given.base_speed)
    one, many = (scale.step_s(model, speed, gpus, given) for gpus in (1, 64))
    assert sum(one) == pytest.approx(given.batch / given.base_speed)
    assert many == pytest.approx((one[0] / 64, one[1], 0.0))


def test_a_run_at_the_assumed_speed_is_predicted_to_the_second(
    scale: ModuleType, trained: Path, tmp_path
) -> None:
    given = scale.Assumptions()
    config = scale.from_tree(scale.read_toml(trained / "run.toml"))
    real = given.share * scale.tokens_per_s(scale.model_of(config, config.text.vocab_size), given)
    (tmp_path / "run.toml").write_text((trained / "run.toml").read_text())
    entries = [
        {"kind": "train", "step": 50 * i, "tokens": 10**9, "tokens_per_s": real} for i in (1, 2)
    ]
    entries.insert(1, {"kind": "valid", "step": 50, "BLEU": 1.0})
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    assert scale.check(tmp_path / "log.jsonl", given).endswith("ratio 1.00")
