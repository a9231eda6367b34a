"""The plan of `hack/bench --cluster`: both agents as nodes, in turn, beside the bare CRI calls."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from benchmark import api_cases as cases
from benchmark.apiserver import Apiserver, PodWatch
from benchmark.calm import wait_for_calm
from benchmark.cases import Case
from benchmark.contestants import Agent, BareCalls
from benchmark.manifests import pod
from benchmark.observe import Observer
from benchmark.room import say
from benchmark.sessions import IDLE_SECONDS, Samples, Sessions

_SETTLE_SECONDS = 2.0
_POD_SECONDS = 60.0
_MIB = 1 << 20
_PODS, _MORE_PODS = 30, 110


class APISessions:
    """The sessions of agents in a cluster."""

    def __init__(
        self,
        apiserver: Apiserver,
        observer: Observer,
        samples: Samples,
        wanted: Callable[[Case], bool],
    ) -> None:
        self._apiserver = apiserver
        self._observer = observer
        self._samples = samples
        self._wanted = wanted
        self._watch = PodWatch(apiserver)
        self._numbers = 0

    @contextmanager
    def _running(self, agent: Agent) -> Iterator[None]:
        agent.start()
        try:
            time.sleep(_SETTLE_SECONDS)
            yield
        finally:
            agent.stop()
            self._observer.purge()

    def _names(self, word: str, count: int) -> list[str]:
        self._numbers += 1
        return [f"{word}{self._numbers}-{number}" for number in range(count)]

    def few(self, agent: Agent, repeats: int) -> None:
        """Measure pods one by one: created, Ready, deleted, gone."""
        with self._running(agent):
            for name in self._names("one", repeats):
                self._start(agent, name, cases.READY)
                self._requests(agent, name)
                self._end(agent, name)
            if self._wanted(cases.READY_INITS):
                for name in self._names("inits", repeats):
                    self._start(agent, name, cases.READY_INITS, inits=3)
                    self._end(agent, name)

    def _start(self, agent: Agent, name: str, case: Case, inits: int = 0) -> None:
        agent.prepare([pod(name, inits=inits)])
        wait_for_calm()
        asked = agent.add([name])
        self._samples.add(case, agent.name, self._watch.ready_at([name], _POD_SECONDS) - asked)
        self._observer.check_order(name)
        time.sleep(_SETTLE_SECONDS)

    def _end(self, agent: Agent, name: str) -> None:
        wait_for_calm()
        asked = agent.remove(name)
        gone = self._watch.gone_at([name], _POD_SECONDS) - asked
        self._samples.add(cases.GONE, agent.name, gone)

    def _requests(self, agent: Agent, name: str) -> None:
        """Count what the node asked for about one pod, once its start has settled."""
        about = [event.get("objectRef", {}) | event for event in self._apiserver.audit()]
        own = [e for e in about if e.get("resource") == "pods" and e.get("name") == name]
        counted = [e for e in own if e["verb"] in ("get", "patch", "update")]
        self._samples.add(cases.REQUESTS, agent.name, len(counted))
        events = [
            e
            for e in about
            if e.get("resource") == "events" and str(e.get("name", "")).startswith(f"{name}.")
        ]
        self._samples.add(cases.EVENTS, agent.name, len(events))

    def many(self, agent: Agent, pods: int, *, idle: bool) -> None:
        """Measure pods that are all created at once, and then what they cost."""
        case = cases.MANY_30 if pods == _PODS else cases.MANY_110
        names = self._names("many", pods)
        with self._running(agent):
            agent.prepare([pod(name) for name in names])
            wait_for_calm()
            asked = agent.add(names)
            seen = self._watch.ready_at(names, _POD_SECONDS + pods)
            self._samples.add(case, agent.name, seen - asked)
            if idle:
                self._idle(agent)
            for name in names:
                agent.remove(name)
            self._watch.gone_at(names, _POD_SECONDS + pods)

    def _idle(self, agent: Agent) -> None:
        say(f"  {agent.name}: idle for 2 x {IDLE_SECONDS:.0f} s")
        time.sleep(IDLE_SECONDS)
        before = agent.meter.cpu_seconds()
        time.sleep(IDLE_SECONDS)
        used = (agent.meter.cpu_seconds() - before) / (IDLE_SECONDS / 60)
        self._samples.add(cases.CPU, agent.name, used)
        self._samples.add(cases.MEMORY, agent.name, agent.meter.rss_bytes() / _MIB)


class Plan:
    """What is measured how often: the slow parts in the last round and every second before."""

    def __init__(self, wanted: Collection[Case], rounds: int, repeats: int, *, quick: bool) -> None:
        self._wanted = frozenset(wanted)
        self._rounds = rounds
        self._repeats = repeats
        self._quick = quick

    def run(
        self, bare: BareCalls, alone: Sessions, agents: Sequence[Agent], both: APISessions
    ) -> None:
        """Measure: the bare calls and each agent, in turn."""
        few, of_30 = bool(self._wanted & cases.FEW), bool(self._wanted & cases.OF_30)
        for number in range(self._rounds):
            say(f"round {number + 1} of {self._rounds}")
            slow = not self._quick and (self._rounds - 1 - number) % 2 == 0
            if few:
                alone.few(bare, self._repeats, gone=False)
                for agent in agents:
                    both.few(agent, self._repeats)
            if of_30:
                alone.many(bare, _PODS, idle=False)
                for agent in agents:
                    both.many(agent, _PODS, idle=slow)
            if slow and cases.MANY_110 in self._wanted:
                alone.many(bare, _MORE_PODS, idle=False)
                for agent in agents:
                    both.many(agent, _MORE_PODS, idle=False)
