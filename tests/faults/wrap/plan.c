/* The plan of a run: which call is to fail, and how often calls were made. */
#include "tests/faults/wrap/stops.h"

#include <lmdb.h>

#define X(name, ...) [CALL_##name] = {#name, {__VA_ARGS__}},
const struct call_type call_types[N_CALLS] = {CALLS(X)};
#undef X

struct tally tally;

static struct {
    struct plan plan, first;
    bool planned, preceded, old_system, paused;
} now;

void faults_begin(const struct plan *plan, const struct plan *first, bool old_system)
{
    memset(tally.called, 0, sizeof tally.called);
    memset(tally.before, 0, sizeof tally.before);
    tally.n_marks_before = 0;
    tally.fired = tally.planned = tally.bytes = tally.syncs_failed = tally.n_marks = 0;
    tally.excused = tally.no_map_full = tally.homeless = false;
    tally.preceded = first != NULL;
    now.planned = plan != NULL;
    if (plan)
        now.plan = *plan;
    now.preceded = first != NULL;
    if (first)
        now.first = *first;
    now.old_system = old_system;
    wrap_begin(1);
}

void faults_end(void)
{
    now.planned = now.preceded = false;
}

void faults_pause(bool pause)
{
    now.paused = pause;
}

const struct plan *faults_plan(void)
{
    return now.planned ? &now.plan : NULL;
}

/* The answer of a system without the newer calls. */
static const struct fault *old_answer(enum call call)
{
    static const struct fault no_call = {"ENOSYS", ENOSYS, FAIL, true, 0};
    static const struct fault no_flag = {"EINVAL", EINVAL, FAIL, true, 0};
    static const struct fault no_space = {"EOPNOTSUPP", EOPNOTSUPP, FAIL, true, 0};
    return !now.old_system          ? NULL
           : call == CALL_syscall   ? &no_call
           : call == CALL_renameat2 ? &no_flag
           : call == CALL_fallocate ? &no_space
                                    : NULL;
}

static bool strikes(const struct plan *p, enum call call, uint64_t n)
{
    if (p->call != call || n < p->nth)
        return false;
    if (p->ever)
        return !p->fault->at_most || n < p->nth + p->fault->at_most;
    return n == p->nth;
}

const struct fault *fault_of(enum call call)
{
    uint64_t n = ++tally.called[call];
    bool planned = now.planned && strikes(&now.plan, call, n);
    const struct plan *p = planned                                        ? &now.plan
                           : now.preceded && strikes(&now.first, call, n) ? &now.first
                                                                          : NULL;
    if (!p)
        return old_answer(call);
    if (!tally.fired) {
        memcpy(tally.before, tally.called, sizeof tally.before);
        tally.n_marks_before = tally.n_marks;
    }
    tally.fired++;
    tally.planned += planned;
    tally.excused |=
        p->fault->code == MDB_MAP_FULL && (tally.no_map_full || in_new_catalog);
    return p->fault;
}

/* For a fault that is not to be noticed no call may fail, unless another struck. */
bool faults_excuse(void)
{
    if (tally.fired == 0)
        return false;
    if (tally.excused || (now.preceded && !now.first.fault->unseen))
        return true;
    return now.planned ? !now.plan.fault->unseen : !now.preceded;
}

bool plan_parse(const char *text, struct plan *plan)
{
    char call[64], fault[64], times[8];
    unsigned long long nth;
    if (sscanf(text, "%63[^:]:%llu:%63[^:]:%7s", call, &nth, fault, times) != 4)
        return false;
    for (enum call c = 0; c < N_CALLS; c++)
        for (size_t i = 0; strcmp(call_types[c].name, call) == 0 && i < MAX_FAULTS; i++)
            if (call_types[c].faults[i].name &&
                strcmp(call_types[c].faults[i].name, fault) == 0) {
                *plan = (struct plan){c, nth, &call_types[c].faults[i],
                                      strcmp(times, "ever") == 0};
                return true;
            }
    return false;
}

size_t space_for(size_t n)
{
    if (!in_lib || now.paused)
        return n;
    uint64_t before = tally.bytes;
    if (n && tally.n_marks < MAX_MARKS)
        tally.marks[tally.n_marks++] = before;
    tally.bytes += n;
    if (!now.planned || now.plan.call != CALL_space || tally.bytes < now.plan.nth)
        return n;
    tally.fired++;
    tally.planned++;
    return before < now.plan.nth - 1 ? (size_t)(now.plan.nth - 1 - before) : 0;
}

const struct fault *fault_at(enum call call)
{
    at_call(call);
    return in_lib && !now.paused ? fault_of(call) : NULL;
}

const struct fault *due(enum call call)
{
    const struct fault *f = fault_at(call);
    if (f)
        errno = f->code;
    return f;
}

int late(const struct fault *f, int result)
{
    if (!f)
        return result;
    errno = f->code;
    return -1;
}

bool faults_old_system(void)
{
    return now.old_system;
}
