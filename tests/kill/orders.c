/* How the next writer is to die, and what it does till then. */
#include "tests/kill/kill.h"

/* At the n-th call of a kind, of all its life or in one phase of it. */
static void draw_trap(struct orders *o, uint64_t *rng)
{
    static const uint64_t calls[N_TRAPS] = {1, 200, 120, 60, 16, 16, 8};
    static const enum phase phases[] = {PHASE_ADD, PHASE_COMMIT, PHASE_SEAL,
                                        PHASE_EDIT};
    o->trap = 1 + (enum trap_kind)rng_below(rng, N_TRAPS - 1);
    o->when = (enum trap_when)rng_below(rng, 3);
    o->nth = 1 + rng_below(rng, calls[o->trap]);
    if (o->mode == MODE_CREATE) {
        o->nth = 1 + o->nth / 8;
    } else if (o->mode == MODE_STORE && o->trap == TRAP_LOCK && rng_below(rng, 3)) {
        o->armed = PHASE_EDIT; /* the locks of what an edit drops */
        o->nth = 1 + rng_below(rng, 2);
    } else if (rng_below(rng, 2)) {
        o->armed = phases[rng_below(rng, o->mode == MODE_LONE ? 3 : 4)];
        o->nth = 1 + rng_below(rng, 8);
    }
}

struct orders draw_orders(uint64_t *rng, enum mode left)
{
    struct orders o = {.seed = rng_next(rng)};
    uint64_t mode = rng_below(rng, 8);
    o.mode = mode < 4 ? MODE_STORE : mode < 6 ? MODE_LONE : MODE_CREATE;
    o.slow = rng_below(rng, 3) == 0;
    o.patient = rng_below(rng, 2);
    if (left != N_MODES && rng_below(rng, 2)) {
        o.mode = left;
        o.patient = true;
        return o;
    }
    if (rng_below(rng, 2))
        draw_trap(&o, rng);
    /* A process that dies while it locks should leave another that may have the lock.
     */
    if (rng_below(rng, 3) == 0 || (o.trap == TRAP_LOCK && rng_below(rng, 2)))
        o.child =
            o.trap ? CHILD_OF_TRAP : CHILD_OF_MAIN + (enum child)rng_below(rng, 2);
    return o;
}
