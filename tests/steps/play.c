/* Plays steps: edits as a whole, everything else one by one. */
#include "tests/steps/words.h"

_Thread_local int in_lib;
bool in_new_catalog;

void will_try(struct player *p)
{
    p->diag.code = NO_DIAG;
    if (p->calling)
        p->calling(p);
}

int tried(struct player *p, int rc, int expected, const char *call)
{
    if (p->returned)
        p->returned(p, rc, expected, call);
    else if (rc != expected)
        broken_steps("%s: %s: %s", call, tamis_strerror(rc),
                     p->diag.code == NO_DIAG ? "" : p->diag.what);
    return rc;
}

void happened(struct player *p)
{
    if (p->event)
        p->event(p);
}

/* ---- objects ---- */

struct object *promised_object(struct promises *p, const char *name)
{
    for (size_t i = 0; i < p->n_objects; i++)
        if (strcmp(p->object[i].name, name) == 0)
            return &p->object[i];
    if (p->n_objects == MAX_OBJECTS)
        model_broken("a script of too many names");
    struct object *o = &p->object[p->n_objects++];
    memset(o, 0, sizeof *o);
    snprintf(o->name, sizeof o->name, "%s", name);
    o->standing = NOT_THERE;
    return o;
}

void promises_settle(struct promises *p, uint32_t edit, bool done)
{
    for (size_t i = 0; i < p->n_objects; i++) {
        struct object *o = &p->object[i];
        if (o->edit != edit || o->place != IN_STORE)
            continue;
        if (o->standing == CHANGING && done) {
            o->rank++;
            o->keys = o->next;
            o->bare = o->next_bare;
            o->grows = false;
            o->worth = GOOD;
        }
        if (o->standing == COMING)
            o->standing = done ? THERE : NOT_THERE;
        else if (o->standing == GOING)
            o->standing = done ? NOT_THERE : THERE;
        else if (o->standing == CHANGING)
            o->standing = THERE;
    }
}

void promises_lose_catalog(struct promises *p)
{
    p->lost = true;
    for (size_t i = 0; i < p->n_objects; i++)
        p->object[i].forgotten = p->object[i].bare || p->object[i].worth == GONE;
}

const char *name_in_store(const char *name)
{
    enum { LONGEST = 255 };
    static _Thread_local char longs[32][LONGEST + 1];
    if (name[0] != '~')
        return name;
    char *text = longs[(uint8_t)name[1] % 32];
    memset(text, name[1], LONGEST);
    text[1] = '\t';
    return text;
}

/* By no call of the library: harnesses count these. */
struct tamis_domain steps_domain(void)
{
    enum { SEED = 7 };
    static struct tamis_domain d;
    if (!d.tag)
        d = (struct tamis_domain){1, SEED, hash_domain_tag(1, SEED)};
    return d;
}

struct tamis_key key_number(uint32_t number, uint8_t bytes[8])
{
    struct tamis_domain d = steps_domain();
    uint64_t state = number, mixed = draw(&state);
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(mixed >> 8 * i);
    return (struct tamis_key){
        .hash = hash_key(d.seed, bytes, 8), .tag = d.tag, .bytes = bytes, .n_bytes = 8};
}

struct tamis_key key_of_helper(const struct object *o, uint32_t helper, uint32_t i,
                               uint8_t bytes[8])
{
    return key_number(o->keys.range[0].from + HELPER_KEYS + 5000 * helper + i, bytes);
}

/* ---- edits ---- */

static int begin_edit(struct player *p)
{
    p->edit = NULL;
    p->edit_failed = true;
    if (!with_store(p))
        return 1;
    p->edit_number = ++p->p->n_edits % MODEL_EDITS;
    int rc = TRY(p, tamis_edit_begin(p->store, NULL, &p->edit, &p->diag));
    p->edit_failed = rc != 0;
    return rc;
}

static void leave_edit(struct player *p)
{
    if (p->packer)
        IN_LIB_VOID(tamis_packer_free(p->packer));
    p->packer = NULL;
    if (p->edit)
        IN_LIB_VOID(tamis_edit_abort(p->edit));
    p->edit = NULL;
    p->edit_failed = false;
}

/* A segment that it drops has a writer, which has not sealed it. */
static bool must_be_busy(const struct player *p)
{
    for (size_t i = 0; i < p->p->n_objects; i++) {
        const struct object *o = &p->p->object[i];
        if (p->writer[i] && !is_sealed(o) && o->edit == p->edit_number &&
            (o->standing == GOING || o->standing == CHANGING))
            return true;
    }
    return false;
}

static int commit_edit(struct player *p)
{
    int rc = 0, want = must_be_busy(p) ? TAMIS_ERR_BUSY : 0;
    if (p->packer)
        rc = TRY(p, tamis_edit_put_packed(p->edit, p->packer, NULL, &p->diag));
    if (rc)
        return rc;
    rc = TRY_FOR(p, want, tamis_edit_commit(p->edit, &p->diag));
    if (rc != TAMIS_ERR_BUSY)
        p->edit = NULL;
    return rc && rc == want ? -1 : rc;
}

/* -1: it must fail, and has failed. */
static int end_edit(struct player *p)
{
    int rc = p->edit_failed ? 1 : commit_edit(p);
    if (!rc || !p->unsure)
        promises_settle(p->p, p->edit_number, rc == 0);
    p->unsure = false;
    leave_edit(p);
    happened(p);
    return rc < 0 ? 0 : rc;
}

static int alone(struct player *p, const struct step *s)
{
    if (begin_edit(p) == 0)
        p->edit_failed = s->word->run(p, s) != 0;
    return end_edit(p);
}

/* ---- scripts ---- */

static int play_step(struct player *p, const struct step *s)
{
    const char *word = s->word->text;
    bool in_edit = p->edit || p->edit_failed;
    if (strcmp(word, "begin") == 0)
        return in_edit ? 1 : begin_edit(p);
    if (strcmp(word, "end") == 0)
        return in_edit ? end_edit(p) : 1;
    if (strcmp(word, "abort") == 0) {
        promises_settle(p->p, p->edit_number, false);
        leave_edit(p);
        happened(p);
        return 0;
    }
    if (!s->word->run)
        return p->own ? p->own(p, s) : 0;
    if (!s->word->in_edit)
        return s->word->run(p, s);
    if (!in_edit)
        return alone(p, s);
    if (!p->edit_failed)
        p->edit_failed = s->word->run(p, s) != 0;
    return p->edit_failed;
}

void play(struct player *p, const struct script *s)
{
    size_t begun = 0;
    for (; p->at < s->n; p->at++) {
        const char *word = s->step[p->at].word->text;
        if (strcmp(word, "now") == 0) {
            p->done[p->at++] = true;
            return;
        }
        if (p->done[p->at])
            continue;
        int rc = play_step(p, &s->step[p->at]);
        p->done[p->at] = rc == 0;
        if (strcmp(word, "begin") == 0)
            begun = p->at;
        /* All of an edit is done, or none. */
        if (strcmp(word, "end") == 0)
            memset(&p->done[begun], rc == 0, p->at - begun + 1);
    }
}

void play_text(struct player *p, const char *format, ...)
{
    char text[SCRIPT_BYTES];
    struct script script;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!script_parse(text, &script))
        broken_steps("no script: %.200s", text);
    size_t at = p->at;
    bool done[MAX_STEPS];
    memcpy(done, p->done, sizeof done);
    memset(p->done, 0, sizeof p->done);
    p->at = 0;
    play(p, &script);
    memcpy(p->done, done, sizeof done);
    p->at = at;
}

void player_end(struct player *p)
{
    if (p->edit)
        promises_settle(p->p, p->edit_number, false);
    leave_edit(p);
    for (size_t i = 0; i < MAX_OBJECTS; i++) {
        if (p->writer[i])
            TRY(p, tamis_writer_close(p->writer[i], NULL));
        if (p->reader[i])
            IN_LIB_VOID(tamis_filter_close(p->reader[i]));
        p->writer[i] = NULL;
        p->reader[i] = NULL;
    }
    if (p->builder)
        IN_LIB_VOID(tamis_builder_free(p->builder));
    p->builder = NULL;
    if (p->held)
        IN_LIB_VOID(tamis_snapshot_release(p->held));
    free(p->promised_then);
    p->promised_then = NULL;
    if (p->store)
        IN_LIB_VOID(tamis_store_close(p->store));
    p->held = NULL;
    p->store = NULL;
}
