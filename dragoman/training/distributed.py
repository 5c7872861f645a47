"""Several processes that train one model, started by torchrun; or one, which is alone.

Every rank holds the same model and the same place in the data. A step's micro-batches are dealt
out, and what the ranks found is added up once (`Ranks.add`). Sharded, each holds a part of every
weight (`fully_shard`), and gathers a layer's parts when it needs them. Rank 0 alone writes and
speaks.
"""

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from dragoman.config.settings import environment_number
from dragoman.engine.torch_engine import pick_device
from dragoman.errors import ConfigError, DragomanError, RunError
from dragoman.model.blocks import DecoderLayer
from dragoman.model.transformer import Transformer

_AHEAD, _FAILURES = "ahead", "failures"


class Ranks:
    """This process among those that train together."""

    def __init__(
        self,
        device: torch.device = torch.device("cpu"),
        rank: int = 0,
        size: int = 1,
        store: Store | None = None,
    ):
        self.device, self.rank, self.size, self._store = device, rank, size, store

    @property
    def first(self) -> bool:
        """Whether this is the one that writes and speaks."""
        return self.rank == 0

    @property
    def together(self) -> bool:
        """Whether torchrun started us, be it one process only."""
        return self._store is not None

    def add(self, tensor: Tensor) -> None:
        """In place, the sum over all ranks."""
        if self.size > 1:
            dist.all_reduce(tensor)

    def least(self, number: int) -> int:
        """The smallest of the ranks' numbers."""
        if self.size == 1:
            return number
        shared = torch.tensor(number, device=self.device)
        dist.all_reduce(shared, dist.ReduceOp.MIN)
        return int(shared)

    def deal(self, items: list[Any]) -> list[Any]:
        """This rank's share."""
        return items[self.rank :: self.size]

    def collect(self, share: list[Any]) -> list[Any]:
        """All ranks' shares, in the order of what was dealt."""
        if self.size == 1:
            return share
        shares: list[list[Any]] = [[] for _ in range(self.size)]
        dist.all_gather_object(shares, share)
        return [shares[i % self.size][i // self.size] for i in range(sum(map(len, shares)))]

    def meet(self) -> None:
        """Wait for the others."""
        if self.size > 1:
            dist.barrier()

    @contextmanager
    def first_goes_ahead(self) -> Iterator[None]:
        """The others enter when rank 0 has left, and not at all if it failed. It may take hours."""
        if self._store is None:
            yield
            return
        if self.first:
            try:
                yield
            except BaseException:
                self._store.set(_AHEAD, "failed")
                raise
            self._store.set(_AHEAD, "done")
            return
        while not self._store.check([_AHEAD]):
            time.sleep(0.1)
        if self._store.get(_AHEAD) != b"done":
            raise SystemExit(1)
        yield

    def shard(self, model: nn.Module) -> None:
        """Leave this rank its part of every weight.

        Each layer is shared out by itself, and the rest together.
        """
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

        mesh = init_device_mesh(self.device.type, (self.size,))
        layers: list[nn.Module] = (
            [*model.encoder, *model.decoder] if isinstance(model, Transformer) else []
        )
        for module in [*layers, model]:
            sharded = fully_shard(module, mesh=mesh)
            # the tokens of the step have been divided by already
            sharded.set_gradient_divide_factor(1.0)
            sharded.set_force_sum_reduction_for_comms(True)  # gloo can do no other
            if isinstance(module, DecoderLayer):
                register_fsdp_forward_method(module, "memory")  # it needs the whole weights too

    def end_unless_first_to_fail(self) -> None:
        """An error that one rank has reported is not reported again."""
        if self._store is not None and self._store.add(_FAILURES, 1) > 1:
            raise SystemExit(1)


ALONE = Ranks()


def may_be_restarted() -> bool:
    """Whether torchrun starts lost ranks again.

    A run that is there already then goes on.
    """
    return environment_number("TORCHELASTIC_MAX_RESTARTS", 0) > 0


@contextmanager
def joined(device: str) -> Iterator[Ranks]:
    """The ranks that torchrun started, each with its device.

    The first rank that meets an error reports it, no other.
    """
    if not dist.is_torchelastic_launched():
        yield Ranks(pick_device(device))
        return
    store, rank, size = next(rendezvous("env://"))
    store = _of_this_launch(store, rank, size)
    ranks = Ranks(rank=rank, size=size, store=store)
    try:
        ranks.device = _own(pick_device(device))
        backend = "nccl" if ranks.device.type == "cuda" else "gloo"
        own = ranks.device if ranks.device.type == "cuda" else None
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, device_id=own)
        yield ranks
    except DragomanError:
        ranks.end_unless_first_to_fail()
        raise
    except RuntimeError as error:
        if not (isinstance(error, dist.DistError) or "gloo" in str(error)):
            raise
        ranks.end_unless_first_to_fail()
        raise RunError(
            "another rank was lost. With torchrun --max-restarts, the run continues from its "
            "last checkpoint by itself; otherwise restart it with --resume."
        ) from None
    dist.destroy_process_group()


def _of_this_launch(store: Store, rank: int, size: int) -> Store:
    """A part of torchrun's store without the addresses of dead ranks.

    The store outlives its ranks and would give them to the restarted ones.

    Each rank says who it is and whom it sees there, until all see the same. Nobody dead has seen
    the newcomers.
    """
    store.set(f"arrived {rank}", uuid4().hex)
    while True:
        seen = b" ".join(store.multi_get([f"arrived {r}" for r in range(size)]))
        store.set(f"saw {rank}", seen.decode())
        if set(store.multi_get([f"saw {r}" for r in range(size)])) == {seen}:
            return PrefixStore(hashlib.sha256(seen).hexdigest(), store)
        time.sleep(0.1)


def _own(device: torch.device) -> torch.device:
    """Each process of a machine has a GPU of its own."""
    if device.type != "cuda":
        return device
    local = environment_number("LOCAL_RANK", 0)
    there = torch.cuda.device_count()
    if local >= there:
        raise ConfigError(
            f"there are {there} GPUs for {local + 1} processes: lower torchrun's --nproc-per-node."
        )
    torch.cuda.set_device(local)
    return torch.device("cuda", local)
