/* The process that holds a pod's namespaces: waits for signals, reaps orphans, ends on TERM or INT. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    sigset_t set;
    int caught;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGCHLD);
    /* Blocked and taken by sigwait: no handler, so no race between a signal and the wait. */
    sigprocmask(SIG_BLOCK, &set, 0);
    for (;;) {
        if (sigwait(&set, &caught) != 0) continue;
        if (caught != SIGCHLD) return 0;
        /* With a shared pid namespace this is process 1: every orphan of the pod ends here. */
        while (waitpid(-1, 0, WNOHANG) > 0) {}
    }
}
