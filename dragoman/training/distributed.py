"""Train one model in several processes started by torchrun, or in a single one.

Every rank holds the same model and the same position in the data. Ranks share out the micro-batches
of a step and sum their results in one all-reduce (`DistContext.all_reduce`). With sharding, each
rank holds a part of every weight (`fully_shard`) and gathers a layer's parts when it needs them.
Only rank 0 writes files and prints.
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
from dragoman.errors import ConfigError, DragomanError, RunError
from dragoman.model.build import pick_device
from dragoman.model.transformer import DecoderLayer, Transformer

_AHEAD, _FAILURES = "ahead", "failures"


class DistContext:
    """This process as one of the ranks that train together."""

    def __init__(
        self,
        device: torch.device = torch.device("cpu"),
        rank: int = 0,
        size: int = 1,
        store: Store | None = None,
    ):
        self.device, self.rank, self.size, self._store = device, rank, size, store

    @property
    def is_main(self) -> bool:
        """True for rank 0, which writes files and prints."""
        return self.rank == 0

    @property
    def is_distributed(self) -> bool:
        """True if torchrun started this process, even as the only one."""
        return self._store is not None

    def all_reduce(self, tensor: Tensor) -> None:
        """Sum a tensor over all ranks, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)

    def all_reduce_min(self, number: int) -> int:
        """Return the smallest of the ranks' numbers."""
        if self.size == 1:
            return number
        shared = torch.tensor(number, device=self.device)
        dist.all_reduce(shared, dist.ReduceOp.MIN)
        return int(shared)

    def shard(self, items: list[Any]) -> list[Any]:
        """Return this rank's share of some items."""
        return items[self.rank :: self.size]

    def gather_objects(self, share: list[Any]) -> list[Any]:
        """Gather the shares of all ranks, in the order before `shard`."""
        if self.size == 1:
            return share
        # `shard` deals items out in turn, so item i is with rank i % size.
        shares: list[list[Any]] = [[] for _ in range(self.size)]
        dist.all_gather_object(shares, share)
        return [shares[i % self.size][i // self.size] for i in range(sum(map(len, shares)))]

    def barrier(self) -> None:
        """Wait until all ranks get here."""
        if self.size > 1:
            dist.barrier()

    @contextmanager
    def rank_zero_first(self) -> Iterator[None]:
        """Let the others enter after rank 0 has left, which may take hours; exit if it failed."""
        if self._store is None:
            yield
            return
        if self.is_main:
            try:
                yield
            except BaseException:
                self._store.set(_AHEAD, "failed")
                raise
            self._store.set(_AHEAD, "done")
            return
        # Poll: a barrier would time out if rank 0 prepares a large corpus.
        while not self._store.check([_AHEAD]):
            time.sleep(0.1)
        if self._store.get(_AHEAD) != b"done":
            raise SystemExit(1)
        yield

    def shard_model(self, model: nn.Module) -> None:
        """Keep only this rank's part of every weight.

        Each layer is sharded by itself, the remaining weights together.
        """
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

        mesh = init_device_mesh(self.device.type, (self.size,))
        layers: list[nn.Module] = (
            [*model.encoder, *model.decoder] if isinstance(model, Transformer) else []
        )
        # Inner modules first: the outermost call shards the parameters that remain.
        for module in [*layers, model]:
            sharded = fully_shard(module, mesh=mesh)
            # The loss is already divided by the tokens of the whole step.
            sharded.set_gradient_divide_factor(1.0)
            sharded.set_force_sum_reduction_for_comms(True)  # the only reduction that gloo supports
            if isinstance(module, DecoderLayer):
                # reads the layer's weights outside of forward()
                register_fsdp_forward_method(module, "memory")

    def exit_unless_first_failure(self) -> None:
        """Exit silently if another rank has already reported an error."""
        # `add` is atomic, so exactly one rank gets a 1.
        if self._store is not None and self._store.add(_FAILURES, 1) > 1:
            raise SystemExit(1)


SINGLE = DistContext()


def is_restartable() -> bool:
    """True if torchrun restarts lost ranks.

    Such a run then resumes by itself.
    """
    return environment_number("TORCHELASTIC_MAX_RESTARTS", 0) > 0


@contextmanager
def dist_context(device: str) -> Iterator[DistContext]:
    """Join the ranks that torchrun started, each with its own device.

    The first rank that meets an error reports it; the others exit silently.
    """
    # Without torchrun there is a single rank, and no process group.
    if not dist.is_torchelastic_launched():
        yield DistContext(pick_device(device))
        return
    store, rank, size = next(rendezvous("env://"))
    store = _of_this_launch(store, rank, size)
    ranks = DistContext(rank=rank, size=size, store=store)
    try:
        ranks.device = _own(pick_device(device))
        backend = "nccl" if ranks.device.type == "cuda" else "gloo"
        own = ranks.device if ranks.device.type == "cuda" else None
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, device_id=own)
        yield ranks
    except DragomanError:
        ranks.exit_unless_first_failure()
        raise
    except RuntimeError as error:
        # gloo raises plain RuntimeErrors when a connection breaks.
        if not (isinstance(error, dist.DistError) or "gloo" in str(error)):
            raise
        ranks.exit_unless_first_failure()
        raise RunError(
            "another rank was lost. With torchrun --max-restarts, the run continues from its "
            "last checkpoint by itself; otherwise restart it with --resume."
        ) from None
    dist.destroy_process_group()


def _of_this_launch(store: Store, rank: int, size: int) -> Store:
    """Return a part of torchrun's store that is free of the addresses of dead ranks.

    The store outlives its ranks, and restarted ranks would find stale addresses in it.

    Each rank publishes a fresh id and the ids that it sees, until all ranks see the same ids. A
    dead rank cannot have seen the new ones.
    """
    store.set(f"arrived {rank}", uuid4().hex)
    while True:
        seen = b" ".join(store.multi_get([f"arrived {r}" for r in range(size)]))
        store.set(f"saw {rank}", seen.decode())
        if set(store.multi_get([f"saw {r}" for r in range(size)])) == {seen}:
            return PrefixStore(hashlib.sha256(seen).hexdigest(), store)
        time.sleep(0.1)


def _own(device: torch.device) -> torch.device:
    """Select the GPU of this process: each process of a machine has its own."""
    if device.type != "cuda":
        return device
    local = environment_number("LOCAL_RANK", 0)
    gpus = torch.cuda.device_count()
    if local >= gpus:
        raise ConfigError(
            f"there are {gpus} GPUs for {local + 1} processes: lower torchrun's --nproc-per-node."
        )
    torch.cuda.set_device(local)
    return torch.device("cuda", local)
