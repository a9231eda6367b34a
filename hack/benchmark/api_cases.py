"""The cases of a node of a cluster: pods come through an apiserver, its watch says when."""

from benchmark.cases import INITS, START, Case, many

READY = Case("api-ready", "created through the apiserver → Ready seen by a watch", share=0.7)
READY_INITS = Case("api-inits", "the same with 3 init containers", share=0.4)
GONE = Case("api-gone", "deleted (exits on TERM) → gone from the API", share=0.5)
REQUESTS = Case(
    "api-requests",
    "gets and patches of the pod per start, by the audit log",
    "requests",
    share=0.99,
)
EVENTS = Case("api-events", "events per start", "events", share=1.0)
MANY_30 = Case("api-many30", "30 pods created at once, all Ready", share=0.8)
MANY_110 = Case("api-many110", "110 pods created at once, all Ready", share=0.8)
CPU = Case("api-agent30", "idle with 30 pods of the API: CPU of the agent", "s/min", share=0.3)
MEMORY = Case("api-rss30", "memory (VmRSS) of the agent with 30 pods of the API", "MiB", share=1.0)
ALL = (READY, READY_INITS, GONE, REQUESTS, EVENTS, MANY_30, MANY_110, CPU, MEMORY)

FEW = frozenset({READY, READY_INITS, GONE, REQUESTS, EVENTS})
OF_30 = frozenset({MANY_30, CPU, MEMORY})

BARE = {
    READY.key: START,
    READY_INITS.key: INITS,
    MANY_30.key: many(30).running,
    MANY_110.key: many(110).running,
}
"""What the bare CRI calls do of a case."""
