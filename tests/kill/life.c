/* The life of a process that is to die: it checks the files that the dead have left,
 * goes on as an engine that comes back, and plays on where the last one died. */
#include "tests/kill/kill.h"
#include "tests/steps/words.h"

#include <poll.h>
#include <sched.h>

/* ---- threads beside ---- */

static void has_added(void)
{
    shared->n_added++;
    tick();
}

void await_adders(uint64_t n, uint64_t patience)
{
    uint64_t goal = shared->n_added + n;
    while (patience-- && helpers_running && shared->n_added < goal)
        sched_yield();
}

/* ---- playing ---- */

static void returned(struct player *p, int rc, int expected, const char *call)
{
    if (strstr(call, "edit_commit") || strstr(call, "builder_finish(b, NULL"))
        atomic_store(&shared->is_settling, true);
    if (rc != expected)
        broken_steps("%s: %s: %s", call, tamis_strerror(rc),
                     p->diag.code == NO_DIAG ? "" : p->diag.what);
}

/* Readers may count on what has been added. */
static void event(struct player *p)
{
    for (size_t i = 0; i < p->p->n_objects; i++)
        if (p->p->object[i].grows)
            atomic_store(&shared->done[i], p->p->object[i].n_done);
    atomic_store(&shared->is_settling, false);
    tick();
    await_adders(draw_below(&p->rng, 64), 50);
}

/* In the place of the one that died. */
static struct player *come_to_life(const struct life *l)
{
    struct player *p = &shared->player, dead = *p;
    *p = (struct player){.p = &shared->promises,
                         .dir = l->dir,
                         .rng = l->rng,
                         .returned = returned,
                         .event = event,
                         .own = helpers_word,
                         .at = dead.at};
    memcpy(p->done, dead.done, sizeof p->done);
    helper_has_added = has_added;
    return p;
}

/* An edit is played from its beginning, threads and repairs as well. */
static size_t resume_at(const struct life *l, size_t at)
{
    for (size_t i = at; i-- > 0;) {
        const char *word = l->script.step[i].word->text;
        if (strcmp(word, "begin") == 0 || strcmp(word, "thread") == 0 ||
            strcmp(word, "repair") == 0) {
            memset(&shared->player.done[i], 0, at - i);
            return i;
        }
        if (strcmp(word, "end") == 0 || strcmp(word, "abort") == 0 ||
            strcmp(word, "unthread") == 0)
            break;
    }
    return at;
}

static void expect_all(struct player *p)
{
    struct look look = {.cache = true};
    steps_expect_kept(p, &look);
    steps_expect(p, &look);
    steps_expect_copy(p, &look);
}

/* Not before a repair: the script says what the repair must report. */
static void go_on(const struct life *l, struct player *p)
{
    char text[SCRIPT_BYTES], name[NAME_BYTES];
    struct script script;
    uint64_t rng = l->rng;
    if (p->p->n_kept)
        return;
    snprintf(name, sizeof name, "new%u", l->number);
    steps_go_on(p->p, &rng, name, text);
    if (!script_parse(text, &script))
        model_broken(text);
    struct player again = *p;
    again.at = 0;
    memset(again.done, 0, sizeof again.done);
    play(&again, &script);
    p->store = again.store;
    memcpy(p->reader, again.reader, sizeof p->reader);
}

void live_prelude(const struct life *l)
{
    struct player *p = come_to_life(l);
    play(p, &l->script);
    player_end(p);
}

void live(const struct life *l, const struct death *d)
{
    /* Only a repair sweeps the remains of a cut creation or first opening. */
    shared->cut_opening |= l->number && !shared->player.store;
    struct player *p = come_to_life(l);
    expect_all(p);
    trap_set(l, d);
    if (l->number > 0)
        go_on(l, p);
    p->at = resume_at(l, p->at);
    play(p, &l->script);
    helpers_stop();
    trap_off();
    expect_all(p);
    p->lenient = shared->cut_opening;
    /* A child has a copy of every lock until it first runs, which keeps sweeps away. */
    if (p->p->n_kept == 0 && !d->forks_at_tick)
        steps_expect_swept(p);
    player_end(p);
}

/* ---- a process that lives on beside those that die, and has opened its store and
 * filters before: it takes over locks of the dead, and sees their keys through mappings
 * that are older than they ---- */

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

/* Keys that had been added before the snapshot was taken are there. */
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
