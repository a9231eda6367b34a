"""A session: one contestant is started, measured and ended, and all its pods are taken away.

`few` measures pods one by one, `many` a number of them at once and, when asked, how much an idle
agent with them uses. Between two measurements a session waits until the agent has done what the
former one left it to do; the kubelet's late removals, a minute after, are its own.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmark import cases
from benchmark.calm import wait_for_calm
from benchmark.cases import Case, Many
from benchmark.contestants import Contestant
from benchmark.manifests import pod, probed_pod
from benchmark.observe import Observer
from benchmark.room import BenchError, Room, say
from benchmark.target import Target
from benchmark.usage import Meter

_SETTLE_SECONDS = 2.0
_OLD_SECONDS = 10.0
"""A pod that has run so long isn't "just started" for the kubelet: its cache has seen it."""
_YOUNG_SECONDS = 0.1
_POD_SECONDS = 60.0
_GONE_SECONDS = 180.0
IDLE_SECONDS = 60.0
_MIB = 1 << 20
_PROBED_PODS, _PROBED_CONTAINERS, _PROBES_EACH = 10, 25, 2
_PROBED_SECONDS = 300.0
_LEAST_RATE = 0.95


class Samples:
    """All measurements of a run, by case and contestant."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, case: Case, contestant: str, value: float) -> None:
        """Keep one and tell it."""
        self._values[case.key, contestant].append(value)
        say(f"  {contestant}: {case.title}: {value:.3f} {case.unit}")

    def of(self, case: Case, contestant: str) -> list[float]:
        """Return those of one case and contestant."""
        return self._values.get((case.key, contestant), [])


class Sessions:
    """The sessions of a run: they share the watcher, the meter of containerd, the samples."""

    def __init__(
        self, observer: Observer, runtime: Meter, samples: Samples, wanted: Callable[[Case], bool]
    ) -> None:
        self._observer = observer
        self._runtime = runtime
        self._samples = samples
        self._wanted = wanted
        self.taken = 0
        self.restless = 0
        """Of the samples taken, those that the machine gave no calm second before."""

    def _wait_for_calm(self) -> None:
        self.taken += 1
        self.restless += not wait_for_calm()

    @contextmanager
    def _running(self, contestant: Contestant) -> Iterator[None]:
        contestant.start()
        try:
            time.sleep(_SETTLE_SECONDS)
            yield
        finally:
            contestant.stop()
            self._observer.purge()

    def warm_up(self, contestant: Contestant) -> None:
        """Run a pod that counts for nobody: the machine's first is slower than all that follow."""
        with self._running(contestant):
            contestant.prepare([pod("warm")])
            contestant.add(["warm"])
            self._observer.running_at(["warm"], _POD_SECONDS)

    def few(self, contestant: Contestant, repeats: int, *, gone: bool) -> None:
        """Measure pods one by one; `gone`: wait for their removal, too (a kubelet: a minute)."""
        olds = [f"old{number}" for number in range(repeats)]
        with self._running(contestant):
            started = time.monotonic()
            if self._wants(cases.START, cases.STOPPED, cases.GONE):
                for name in olds:
                    self._start(contestant, name, cases.START)
            if self._wants(cases.INITS):
                for number in range(repeats):
                    self._start(contestant, f"inits{number}", cases.INITS, inits=3)
            if self._wants(cases.YOUNG):
                for number in range(repeats):
                    self._young(contestant, f"young{number}")
            if self._wants(cases.STOPPED, cases.GONE):
                time.sleep(max(0.0, started + _OLD_SECONDS - time.monotonic()))
                self._remove(contestant, olds, gone=gone)

    def _wants(self, *some: Case) -> bool:
        return any(self._wanted(case) for case in some)

    def _start(self, contestant: Contestant, name: str, case: Case, inits: int = 0) -> None:
        contestant.prepare([pod(name, inits=inits)])
        self._wait_for_calm()
        asked = contestant.add([name])
        seen = self._observer.running_at([name], _POD_SECONDS)
        self._samples.add(case, contestant.name, seen - asked)
        self._observer.check_order(name)
        time.sleep(_SETTLE_SECONDS)

    def _young(self, contestant: Contestant, name: str) -> None:
        contestant.prepare([pod(name)])
        self._wait_for_calm()
        contestant.add([name])
        self._observer.running_at([name], _POD_SECONDS)
        # Its process must have come as far as to handle TERM.
        time.sleep(_YOUNG_SECONDS)
        asked = contestant.remove(name)
        seen = self._observer.stopped_at(name, _POD_SECONDS)
        self._samples.add(cases.YOUNG, contestant.name, seen - asked)
        time.sleep(_SETTLE_SECONDS)

    def _remove(self, contestant: Contestant, names: list[str], *, gone: bool) -> None:
        asked: dict[str, float] = {}
        seen_gone: dict[str, float] = {}
        for name in names:
            self._wait_for_calm()
            asked[name] = contestant.remove(name)
            seen = self._observer.stopped_at(name, _POD_SECONDS)
            self._samples.add(cases.STOPPED, contestant.name, seen - asked[name])
            # Who is quick is seen at once; for a minute of waiting one wait serves all pods.
            seen_gone |= self._observer.gone_at([name], _SETTLE_SECONDS)
        if gone:
            left = [name for name in names if name not in seen_gone]
            seen_gone |= self._observer.gone_at(left, _GONE_SECONDS)
            for name in names:
                if name not in seen_gone:
                    raise BenchError(f"pod {name} isn't gone after {_GONE_SECONDS:.0f} s")
                self._samples.add(cases.GONE, contestant.name, seen_gone[name] - asked[name])

    def many(self, contestant: Contestant, pods: int, *, idle: bool) -> None:
        """Measure pods that are all asked for at once."""
        case = cases.many(pods)
        names = [f"many{number}" for number in range(pods)]
        with self._running(contestant):
            contestant.prepare([pod(name) for name in names])
            self._wait_for_calm()
            asked = contestant.add(names)
            seen = self._observer.running_at(names, _POD_SECONDS + pods)
            self._samples.add(case.running, contestant.name, seen - asked)
            if idle:
                self._idle(contestant, case)
            else:
                time.sleep(_OLD_SECONDS)
            if contestant.is_agent:
                rss = contestant.meter.rss_bytes() / _MIB
                self._samples.add(case.memory, contestant.name, rss)

    def probes(self, contestant: Contestant, room: Room) -> None:
        """Measure an agent that makes 500 probes a second, once all its containers run."""
        names = [f"probed{number}" for number in range(_PROBED_PODS)]
        with Target(room) as target, self._running(contestant):
            pods = [probed_pod(name, _PROBED_CONTAINERS, target.port) for name in names]
            contestant.prepare(pods)
            contestant.add(names)
            expected = _PROBED_PODS * _PROBED_CONTAINERS * _PROBES_EACH
            _wait_for_rate(target, expected)
            say(f"  {contestant.name}: {expected} probes a second for {IDLE_SECONDS:.0f} s")
            self._wait_for_calm()
            before = contestant.meter.cpu_seconds(), target.connections()
            time.sleep(IDLE_SECONDS)
            after = contestant.meter.cpu_seconds(), target.connections()
            rate = (after[1] - before[1]) / IDLE_SECONDS
            if rate < _LEAST_RATE * expected:
                raise BenchError(f"{contestant.name} made {rate:.0f} probes a second only")
            used = (after[0] - before[0]) / (IDLE_SECONDS / 60)
            self._samples.add(cases.PROBES, contestant.name, used)

    def _idle(self, contestant: Contestant, case: Many) -> None:
        say(f"  {contestant.name}: idle for 2 x {IDLE_SECONDS:.0f} s")
        time.sleep(IDLE_SECONDS)
        before = contestant.meter.cpu_seconds(), self._runtime.cpu_seconds()
        time.sleep(IDLE_SECONDS)
        after = contestant.meter.cpu_seconds(), self._runtime.cpu_seconds()
        minutes = IDLE_SECONDS / 60
        self._samples.add(case.runtime_cpu, contestant.name, (after[1] - before[1]) / minutes)
        if contestant.is_agent:
            self._samples.add(case.agent_cpu, contestant.name, (after[0] - before[0]) / minutes)


def _wait_for_rate(target: Target, expected: int) -> None:
    """Wait until as many probes are made in some seconds as there should be."""
    deadline = time.monotonic() + _PROBED_SECONDS
    before, seconds = target.connections(), 5.0
    while time.monotonic() < deadline:
        time.sleep(seconds)
        now = target.connections()
        if now - before >= _LEAST_RATE * expected * seconds:
            return
        before = now
    raise BenchError(f"waited {_PROBED_SECONDS:.0f} s in vain for {expected} probes a second")
