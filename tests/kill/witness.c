/* A process that lives on beside those that die, and has opened its store and filters
 * before: the locks of LMDB and of the store are taken over by those that survive, and
 * what the dead have added is seen through mappings that are older than they. */
#include "tests/kill/kill.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The last keys of the log, and some of the others. */
static void ask_log(struct player *p, const struct object *o, uint32_t n,
                    struct tamis_filter *f, struct tamis_snapshot *s)
{
    struct tamis_target t = {0};
    uint8_t bytes[8];
    if (s && tamis_snapshot_find(s, o->name, strlen(o->name), NULL, 0, 0, &t) != 0)
        broken_steps("segment %s is not listed beside", o->name);
    for (uint32_t i = 0; i < 16 && i < n; i++) {
        uint32_t at = i % 2 ? (uint32_t)draw_below(&p->rng, n) : n - 1 - i;
        struct tamis_key key = key_number(o->keys.range[0].from + at, bytes);
        if (tamis_filter_probe(f, &key, NULL) == TAMIS_ABSENT ||
            (s && tamis_snapshot_probe(s, &t, &key, NULL) == TAMIS_ABSENT))
            broken_steps("key %u of %u of %s is ABSENT beside", at, n, o->name);
        shared->n_asked++;
    }
}

/* What had been added before the snapshot was taken is there. */
static void ask_growing(struct player *p, size_t i)
{
    const struct object *o = &p->p->object[i];
    uint32_t n = shared->done[i];
    struct tamis_snapshot *s = NULL;
    char path[2 * STEPS_PATH_BYTES];
    if (n == 0 || strcmp(o->name, "g") != 0)
        return;
    if (!p->reader[i]) {
        path_of_object(p, o, path);
        TRY(p, tamis_filter_open(path, NULL, &p->reader[i], &p->diag));
    }
    if (p->store)
        TRY(p, tamis_snapshot_current(p->store, &s, &p->diag));
    ask_log(p, o, n, p->reader[i], s);
    tamis_snapshot_release(s);
}

/* Locks of the dead are no longer held. LMDB tells readers of an edit whose process
 * died right behind its last write only when somebody has locked for the next. */
static void look(struct player *p)
{
    struct tamis_edit *e;
    struct look look = {.cache = true};
    if (p->store && TRY(p, tamis_edit_begin(p->store, NULL, &e, &p->diag)) == 0)
        TRY(p, tamis_edit_commit(e, &p->diag));
    steps_expect(p, &look);
    expect_added(p);
}

void witness(const struct life *l, int asked)
{
    struct player p = {.p = &shared->promises, .dir = l->dir, .rng = l->rng};
    struct pollfd wait = {.fd = asked, .events = POLLIN};
    int pause = !l->template->is_asked ? -1 : l->rng % 8 ? 1 : 0; /* ms */
    char byte = 0;
    with_store(&p);
    if (write(asked, &byte, 1) != 1)
        abort();
    for (;;) {
        while (poll(&wait, 1, pause) == 0)
            for (size_t i = 0; i < MAX_OBJECTS; i++)
                ask_growing(&p, i);
        if (read(asked, &byte, 1) != 1)
            break;
        look(&p);
        if (write(asked, &byte, 1) != 1)
            abort();
    }
    player_end(&p);
}
