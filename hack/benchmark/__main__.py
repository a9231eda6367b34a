"""The plan of a run: rounds in which each contestant has its turn, then the table.

`hack/bench` calls it with everything set up. Contestants alternate, so that a machine that becomes
slower or faster does so for all of them.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from benchmark import api_cases, api_plan, cases, report
from benchmark.api_contestants import JoinedKubelet, JoinedMinikubelet
from benchmark.api_plan import APISessions
from benchmark.apiserver import Apiserver
from benchmark.cases import Case
from benchmark.contestants import BareCalls, Contestant, Kubelet, Minikubelet
from benchmark.observe import Observer
from benchmark.room import BenchError, Room, say, start_containerd
from benchmark.sessions import Samples, Sessions
from benchmark.usage import Meter

_MANY = (30, 110)
_BARE = frozenset(api_cases.BARE.values())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("hack/bench", description="Compare with the kubelet.")
    parser.add_argument("--folder", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--kubelet", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--versions", default="", help=argparse.SUPPRESS)
    parser.add_argument("--cluster", action="store_true", help="as nodes of a cluster")
    parser.add_argument("--quick", action="store_true", help="one short round, nothing idle")
    parser.add_argument("--rounds", type=int, help="6, with --quick 1")
    parser.add_argument("--repeats", type=int, default=2, help="single pods of a kind a round (2)")
    parser.add_argument("--case", action="append", default=[], help="only this one; repeatable")
    parser.add_argument("--pods", type=int, help="this many at once instead of 30 and 110")
    parser.add_argument("--write", type=Path, help="put the table between the document's markers")
    return parser.parse_args()


class Plan:
    """What is measured how often."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        quick: bool = arguments.quick
        self.rounds: int = arguments.rounds or (1 if quick else 6)
        self.repeats: int = arguments.repeats
        self.idle = not quick
        self.counts: tuple[int, ...] = (arguments.pods,) if arguments.pods else _MANY
        if quick and not arguments.pods:
            self.counts = _MANY[:1]
        many = (each for count in self.counts for each in cases.many(count))
        self.cases = [*cases.FEW, *many, cases.PROBES]
        self._only: list[str] = arguments.case
        known = [case.key for case in self.cases]
        unknown = [name for name in self._only if name not in known]
        if unknown:
            raise BenchError(f"no case {', '.join(unknown)}; there are: {', '.join(known)}")
        if quick and not self._only:
            # They take the kubelet minutes.
            slow = (cases.GONE.key, cases.PROBES.key)
            self._only = [name for name in known if name not in slow]

    def wants(self, case: Case) -> bool:
        """Tell whether a case is to be measured."""
        return not self._only or case.key in self._only

    def run(self, contestants: list[Contestant], sessions: Sessions, room: Room) -> None:
        """Measure."""
        for number in range(self.rounds):
            say(f"round {number + 1} of {self.rounds}")
            # What takes minutes and differs little: in the last round and every second before.
            slow = (self.rounds - 1 - number) % 2 == 0
            self._few(contestants, sessions, gone=slow and self.wants(cases.GONE))
            for count in self.counts:
                case = cases.many(count)
                idle = slow and self.idle and count == self.counts[0]
                idle = idle and (self.wants(case.agent_cpu) or self.wants(case.runtime_cpu))
                often = self.wants(case.running) or self.wants(case.memory)
                if idle or (often and (slow or count == self.counts[0])):
                    self._many(contestants, sessions, count, idle=idle)
            if slow and self.wants(cases.PROBES):
                agents = [each for each in contestants if each.is_agent]
                self._each(agents, lambda who: sessions.probes(who, room))

    def _few(self, contestants: list[Contestant], sessions: Sessions, *, gone: bool) -> None:
        if any(self.wants(case) for case in cases.FEW):
            self._each(contestants, lambda who: sessions.few(who, self.repeats, gone=gone))

    def _many(
        self, contestants: list[Contestant], sessions: Sessions, count: int, *, idle: bool
    ) -> None:
        self._each(contestants, lambda who: sessions.many(who, count, idle=idle))

    def _each(self, contestants: list[Contestant], session: Callable[[Contestant], None]) -> None:
        for contestant in contestants:
            session(contestant)


def _measure(arguments: argparse.Namespace) -> str:
    plan = Plan(arguments)
    room = Room(arguments.folder, Path(__file__).resolve().parent.parent, arguments.kubelet)
    runtime = Meter("containerd")
    start_containerd(room, runtime.procs)
    contestants: list[Contestant] = [
        BareCalls(report.BARE, room),
        Kubelet(report.KUBELET, room),
        Minikubelet(report.MINIKUBELET, room),
    ]
    observer = Observer(room.endpoint)
    samples = Samples()
    sessions = Sessions(observer, runtime, samples, plan.wants)
    sessions.warm_up(contestants[0])
    plan.run(contestants, sessions, room)
    observer.close()
    rounds = f"{plan.rounds} rounds with up to {plan.repeats} pods of a kind"
    restless = f"{sessions.restless} of {sessions.taken}"
    wanted = [case for case in plan.cases if plan.wants(case)]
    text = report.circumstances(arguments.versions, rounds, restless)
    return f"{report.table(wanted, samples.of)}\n\n{text}"


def _measure_cluster(arguments: argparse.Namespace) -> str:
    room = Room(arguments.folder, Path(__file__).resolve().parent.parent, arguments.kubelet)
    say("starting a control plane")
    apiserver = Apiserver(room)
    start_containerd(room, Meter("containerd").procs, apiserver.inside)
    observer = Observer(room.endpoint)
    samples = Samples()
    only: list[str] = arguments.case
    wanted = [case for case in api_cases.ALL if not only or case.key in only]
    bare = BareCalls(report.BARE, room)
    alone = Sessions(observer, Meter("containerd"), samples, lambda case: case in _BARE)
    alone.warm_up(bare)
    agents = [
        JoinedKubelet(report.KUBELET, room, apiserver),
        JoinedMinikubelet(report.MINIKUBELET, room, apiserver),
    ]
    both = APISessions(apiserver, observer, samples, lambda case: case in wanted)
    rounds = arguments.rounds or (1 if arguments.quick else 3)
    plan = api_plan.Plan(wanted, rounds, arguments.repeats, quick=arguments.quick)
    plan.run(bare, alone, agents, both)
    observer.close()

    def of(case: Case, contestant: str) -> list[float]:
        same = api_cases.BARE.get(case.key, case) if contestant == report.BARE else case
        return samples.of(same, contestant)

    text = report.circumstances(arguments.versions, f"{rounds} rounds", "no")
    return f"{report.table(wanted, of)}\n\n{text}"


def _main() -> int:
    arguments = _arguments()
    try:
        text = _measure_cluster(arguments) if arguments.cluster else _measure(arguments)
        sys.stdout.write(text + "\n")
        if arguments.write is not None:
            report.write(arguments.write, text, "api-bench" if arguments.cluster else "bench")
    except BenchError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
