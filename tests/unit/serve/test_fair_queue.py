"""Whose turn it is, by how much work each has had."""

from typing import NamedTuple

from dragoman.serve import fair_queue
from dragoman.serve.fair_queue import FairQueue


class Job(NamedTuple):
    name: str
    work: int


def served(queue: FairQueue[Job], count: int) -> list[str]:
    return [queue.pop().name for _ in range(count)]


def test_jobs_of_one_request_keep_their_order() -> None:
    queue: FairQueue[Job] = FairQueue()
    for name in "abc":
        queue.push("client", "request", Job(name, 5))
    assert queue.peek().name == "a"
    assert queue.first_work == 5
    assert served(queue, 3) == ["a", "b", "c"]
    assert not queue


def test_clients_share_by_work_not_by_jobs() -> None:
    queue: FairQueue[Job] = FairQueue()
    for _ in range(20):
        queue.push("large", 1, Job("large", 30))
        queue.push("small", 2, Job("small", 10))
    first = served(queue, 16)
    assert first.count("small") == 12
    assert first.count("large") == 4


def test_work_is_charged_by_its_actual_cost() -> None:
    queue: FairQueue[Job] = FairQueue()
    for _ in range(40):
        queue.push("slow", 1, Job("slow", 10))
        queue.push("quick", 2, Job("quick", 10))
    names = []
    for _ in range(20):
        names += served(queue, 1)
        if names[-1] == "slow":
            queue.correct("slow", 30)
    assert names.count("slow") == 4
    queue.correct("slow", -1000)  # no time is saved for later
    assert served(queue, 20).count("slow") <= 12


def test_the_actual_cost_is_charged_even_if_the_queue_was_empty_meanwhile() -> None:
    queue: FairQueue[Job] = FairQueue()
    queue.push("slow", 0, Job("slow", 10))
    served(queue, 1)
    queue.correct("slow", 300)
    for _ in range(40):
        queue.push("slow", 1, Job("slow", 10))
        queue.push("quick", 2, Job("quick", 10))
    assert served(queue, 30).count("slow") <= 1


def test_a_late_client_starts_level_with_the_others() -> None:
    queue: FairQueue[Job] = FairQueue()
    for _ in range(20):
        queue.push("early", 1, Job("early", 10))
    served(queue, 10)
    for _ in range(10):
        queue.push("late", 2, Job("late", 10))
    assert served(queue, 8).count("late") == 4


def test_one_large_job_after_another_does_not_pass_for_the_first_each_time() -> None:
    queue: FairQueue[Job] = FairQueue()
    for _ in range(100):
        queue.push("small", 0, Job("small", 10))
    names = []
    for request in range(40):  # whenever its job is done, the next one is there
        if request == 0 or names[-1] == "large":
            queue.push("large", request + 1, Job("large", 80))
        names.append(queue.pop().name)
    assert 3 <= names.count("large") <= 6  # of an even share: 40 / (1 + 8)


def test_requests_of_one_client_share_its_turns() -> None:
    queue: FairQueue[Job] = FairQueue()
    for i in range(6):
        queue.push("busy", "long", Job(f"long {i}", 10))
        queue.push("other", "other", Job(f"other {i}", 10))
    queue.push("busy", "short", Job("short", 10))
    assert sorted(served(queue, 4)) == ["long 0", "other 0", "other 1", "short"]


def test_discarding_a_request_keeps_the_others() -> None:
    queue: FairQueue[Job] = FairQueue()
    queue.push("a", 1, Job("left", 10))
    queue.push("a", 2, Job("stays", 10))
    queue.push("b", 3, Job("left too", 10))
    for client, request in (("a", 1), ("b", 3), ("b", 3), ("nobody", 0)):
        queue.discard(client, request)
    assert queue.first_work == 10
    assert served(queue, 1) == ["stays"]
    assert not queue


def test_clients_that_come_once_are_forgotten() -> None:
    queue: FairQueue[Job] = FairQueue()
    for client in range(3000):
        queue.push(client, 0, Job("only", 10))
        queue.pop()
        queue.correct(client, 10)
    assert len(queue._clocks._gone) <= fair_queue._REMEMBERED


def test_a_bounded_number_of_clocks_is_kept_while_clients_wait(monkeypatch) -> None:
    monkeypatch.setattr(fair_queue, "_REMEMBERED", 20)
    queue: FairQueue[Job] = FairQueue()
    queue.push("large", 0, Job("large", 1))
    queue.push("large", 0, Job("large", 10**9))
    for client in range(60):
        queue.push(client, 0, Job("small", 10 + client))
    for _ in range(60):
        queue.pop()
        assert len(queue._clocks._gone) <= 20
    assert len(queue._clocks._gone) >= 10


def test_a_client_that_used_less_than_its_share_goes_first_until_it_has_caught_up() -> None:
    queue: FairQueue[Job] = FairQueue(credit=50)
    queue.push("modest", 0, Job("modest", 10))
    for _ in range(40):
        queue.push("greedy", 1, Job("greedy", 10))
    served(queue, 21)
    for _ in range(20):
        queue.push("modest", 2, Job("modest", 10))
        queue.push("stranger", 3, Job("stranger", 10))
    assert queue.lead("greedy") >= 50
    assert served(queue, 5) == ["modest"] * 5  # and no more for having been away for longer
    assert {*served(queue, 6)} == {"modest", "stranger", "greedy"}


def test_a_correction_earns_no_credit() -> None:
    queue: FairQueue[Job] = FairQueue(credit=50)
    for _ in range(40):
        queue.push("cheap", 1, Job("cheap", 10))
        queue.push("other", 2, Job("other", 10))
    served(queue, 20)
    for _ in range(10):
        queue.correct("cheap", -10)
    assert served(queue, 10).count("cheap") <= 6


def test_a_lead_is_the_work_that_a_client_has_had_beyond_the_next() -> None:
    queue: FairQueue[Job] = FairQueue()
    for client in ("first", "second"):
        for _ in range(3):
            queue.push(client, client, Job(client, 10))
    assert served(queue, 3) == ["first", "second", "first"]
    assert (queue.lead("first"), queue.lead("second"), queue.clock) == (10, 0, 10)
