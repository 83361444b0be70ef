/* Delays terminating signals while the library writes a file or commits an edit. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "endings.h"

/* People, shells and limits end a process by these. */
static const int numbers[N_ENDINGS] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGPIPE,
                                       SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU};
volatile sig_atomic_t endings_came;

static sigset_t before_hold;
static bool holds;

/* Notes the first signal. One that comes more than a second later ends the process.
 * timeout(1) signals its child, and then the child's group: a signal that comes so soon
 * is the same one. */
static void ending_came(int number)
{
    enum { SAME_MS = 1000 };
    static struct timespec first;
    struct timespec now;
    long long ms;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!endings_came) {
        first = now;
        endings_came = number;
        return;
    }
    ms = (now.tv_sec - first.tv_sec) * 1000LL + (now.tv_nsec - first.tv_nsec) / 1000000;
    if (ms > SAME_MS) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

/* The library removes its file when a write fails. A limit of file sizes makes the
 * next write fail. It holds for this process alone, and setting it is one system
 * call. */
static void end(int number)
{
    struct rlimit limit;
    ending_came(number);
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0) {
        limit.rlim_cur = 0;
        setrlimit(RLIMIT_FSIZE, &limit);
    }
}

/* A signal that is ignored, say under nohup, stays ignored. */
static void catch_by(void (*handler)(int number), struct endings *before)
{
    struct sigaction ours = {.sa_handler = handler};
    before->limit = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
    getrlimit(RLIMIT_FSIZE, &before->limit);
    ours.sa_flags = SA_RESTART;
    sigemptyset(&ours.sa_mask);
    for (size_t i = 0; i < N_ENDINGS; i++) {
        sigaction(numbers[i], NULL, &before->actions[i]);
        if (before->actions[i].sa_handler != SIG_IGN)
            sigaction(numbers[i], &ours, NULL);
    }
}

void endings_catch(struct endings *before)
{
    catch_by(end, before);
}

void endings_note(struct endings *before)
{
    catch_by(ending_came, before);
}

/* One that is ignored waits, too, while it is held off. One that was blocked before is
 * not ours to take. */
bool endings_due(void)
{
    struct sigaction action;
    sigset_t held_off;
    sigpending(&held_off);
    for (size_t i = 0; i < N_ENDINGS && holds && !endings_came; i++)
        if (sigismember(&held_off, numbers[i]) == 1 &&
            sigismember(&before_hold, numbers[i]) == 0 &&
            sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            ending_came(numbers[i]);
    return endings_came;
}

void endings_let(const struct endings *before, bool failed)
{
    sigset_t held;
    for (size_t i = 0; i < N_ENDINGS; i++)
        sigaction(numbers[i], &before->actions[i], NULL);
    if (!endings_came)
        return;
    setrlimit(RLIMIT_FSIZE, &before->limit);
    sigprocmask(SIG_BLOCK, NULL, &held);
    if (failed || sigismember(&held, endings_came) == 1) {
        fflush(stdout); /* says which steps were done before */
        raise(endings_came);
    }
    endings_came = 0;
}

void endings_hold(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < N_ENDINGS; i++)
        if (numbers[i] != SIGPIPE)
            sigaddset(&set, numbers[i]);
    sigprocmask(SIG_BLOCK, &set, &before_hold);
    holds = true;
}

void endings_release(void)
{
    if (holds) {
        fflush(stdout); /* what was done; a signal that waited ends the process now */
        sigprocmask(SIG_SETMASK, &before_hold, NULL);
    }
    holds = false;
}
