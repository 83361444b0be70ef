/* Words of writers, and of filters in files that are the engine's own. */
#include "tests/steps/words.h"
#include "lib/writer/inside.h"

void path_in(const struct player *p, const char *name, char path[2 * STEPS_PATH_BYTES])
{
    snprintf(path, (size_t)2 * STEPS_PATH_BYTES, "%s/%s", p->dir, name);
}

void path_in_store(const struct player *p, const char *name,
                   char path[2 * STEPS_PATH_BYTES])
{
    snprintf(path, (size_t)2 * STEPS_PATH_BYTES, "%s/%s%s%s", p->dir,
             p->store_name ? p->store_name : "store", *name ? "/" : "", name);
}

struct tamis_growth growth_of(const struct step *s)
{
    return (struct tamis_growth){.first_capacity = (uint64_t)s->number[0],
                                 .factor = s->number[1],
                                 .error = s->number[2]};
}

/* ---- writers ---- */

static void note_size(struct player *p, size_t i)
{
    struct stat st;
    struct tamis_writer *w = p->writer[i];
    p->bytes_at_open[i] =
        fstat(w->guard.fd, &st) == 0 ? (uint64_t)st.st_size : UINT64_MAX;
    p->stages_at_open[i] = w->commit.n_stages;
}

/* Bytes that a growth or a seal has left behind the stages when it was cut may not be
 * zero: bits there would be taken for keys. New stages come after it (R10). */
static void expect_fresh_stages(const struct player *p, size_t i)
{
    const struct commit *c = &p->writer[i]->commit;
    for (uint32_t k = p->stages_at_open[i]; k < c->n_stages; k++)
        if (c->stages[k].offset < p->bytes_at_open[i])
            broken_steps("stage %u begins at byte %llu, the file had %llu", k,
                         (unsigned long long)c->stages[k].offset,
                         (unsigned long long)p->bytes_at_open[i]);
}

int run_lone(struct player *p, const struct step *s)
{
    struct object *o = first_object(p, s);
    size_t i = number_of(p, o);
    struct tamis_domain domain = steps_domain();
    struct tamis_writer_options opt = {
        .size = sizeof opt, .growth = growth_of(s), .domain = &domain};
    char path[2 * STEPS_PATH_BYTES];
    if (o->standing == THERE)
        return 0;
    o->place = LONE;
    path_in(p, o->name, path);
    if (o->standing == NOT_THERE) {
        o->standing = COMING;
        o->grows = true;
        o->keys = log_of(p, o);
    }
    int rc = TRY(p, tamis_writer_create(path, &opt, &p->writer[i], &p->diag));
    if (rc && p->writer[i])
        model_broken("creating failed, and there is a writer");
    if (rc)
        return rc;
    o->standing = THERE;
    note_size(p, i);
    happened(p);
    return 0;
}

static void expect_resumed(struct player *p, struct object *o, size_t i)
{
    struct tamis_filter_info info;
    if (IN_LIB(tamis_writer_info(p->writer[i], &info, NULL)) != 0)
        model_broken("no info of a writer");
    steps_expect_watermark("the writer", info.watermark, o, false);
    o->watermark =
        (uint32_t)info.watermark; /* it has been opened anew: it is durable */
}

static int open_writer(struct player *p, struct object *o, bool past)
{
    size_t i = number_of(p, o);
    struct tamis_writer *w = NULL;
    char path[2 * STEPS_PATH_BYTES];
    bool lone = o->place == LONE || past;
    int want = o->standing != THERE || !o->grows ? TAMIS_ERR_NO_SEGMENT
               : o->seal == THERE                ? TAMIS_ERR_SEALED
               : p->writer[i]                    ? TAMIS_ERR_BUSY
                                                 : 0;
    if (want == TAMIS_ERR_NO_SEGMENT || (!lone && !with_store(p)))
        return 1;
    if (lone)
        path_of_object(p, o, path);
    p->diag.code = NO_DIAG;
    int rc = lone
                 ? IN_LIB(tamis_writer_open(path, NULL, &w, &p->diag))
                 : IN_LIB(tamis_store_writer(p->store, NAME_OF(o), NULL, &w, &p->diag));
    /* A seal that was not acknowledged may stand. */
    if (rc == TAMIS_ERR_SEALED && o->seal == COMING && !want) {
        want = rc;
        o->sealed = true;
    }
    if (rc == TAMIS_ERR_BUSY && p->writer[i])
        want = rc; /* its lock may be met before its seal */
    tried(p, rc, want, "opening a writer");
    if (rc)
        return rc;
    p->writer[i] = w;
    expect_resumed(p, o, i);
    note_size(p, i);
    happened(p);
    return 0;
}

int run_writer(struct player *p, const struct step *s)
{
    struct object *o = first_object(p, s);
    int rc = open_writer(p, o, s->word->text[0] == 'p');
    return rc == TAMIS_ERR_SEALED || rc == TAMIS_ERR_BUSY ? 0 : rc;
}

int run_alone(struct player *p, const struct step *s)
{
    size_t i = number_of(p, first_object(p, s));
    if (p->writer[i])
        writer_own(p->writer[i]);
    return !p->writer[i];
}

static int add_at(struct player *p, struct object *o, uint32_t at)
{
    uint8_t bytes[8];
    struct tamis_key key = key_number(o->keys.range[0].from + at, bytes);
    if (o->n_added <= at)
        o->n_added = at + 1;
    int rc = TRY(
        p, tamis_writer_add_hashes(p->writer[number_of(p, o)], key.tag, &key.hash, 1));
    if (rc == 0 && o->n_done == at)
        o->n_done = at + 1;
    happened(p);
    return rc;
}

/* Positions from .. to - 1 of the log, in one call. */
static int add_many(struct player *p, struct object *o, uint32_t from, uint32_t to)
{
    uint8_t bytes[8];
    uint64_t *hashes = malloc((to - from + 1) * sizeof *hashes);
    if (!hashes)
        abort();
    for (uint32_t i = from; i < to; i++)
        hashes[i - from] = key_number(o->keys.range[0].from + i, bytes).hash;
    if (o->n_added < to)
        o->n_added = to;
    int rc = TRY(p, tamis_writer_add_hashes(p->writer[number_of(p, o)],
                                            steps_domain().tag, hashes, to - from));
    free(hashes);
    if (rc == 0 && o->n_done >= from && o->n_done < to)
        o->n_done = to;
    happened(p);
    return rc;
}

/* From the watermark on, in the log's order or, as an engine with many threads might,
 * in another: a new key first, then the others backwards. */
static int replay(struct player *p, struct object *o, bool backwards)
{
    uint32_t from = o->watermark, to = o->n_added;
    int rc = 0;
    if (!p->event && to - from > 64)
        return add_many(p, o, from, to);
    if (backwards)
        rc = add_at(p, o, to);
    for (uint32_t i = from; i < to && !rc; i++)
        rc = add_at(p, o, backwards ? to - 1 - (i - from) : i);
    if (rc == 0)
        o->n_done = o->n_added;
    return rc;
}

/* The object's writer, opened and brought up to date if needed; NULL: sealed. */
static struct tamis_writer *writer_of(struct player *p, struct object *o)
{
    size_t i = number_of(p, o);
    if (!p->writer[i] && o->standing == THERE && o->grows && !is_sealed(o) &&
        open_writer(p, o, false) == 0)
        replay(p, o, false);
    return is_sealed(o) ? NULL : p->writer[i];
}

int run_replay(struct player *p, const struct step *s)
{
    struct object *o = first_object(p, s);
    bool open = p->writer[number_of(p, o)] && !is_sealed(o);
    return open ? replay(p, o, s->number[0] > 0) : 1;
}

/* "add NAME N" one by one, "fill NAME N" in one call. */
int run_add(struct player *p, const struct step *s)
{
    struct object *o = first_object(p, s);
    int rc = 0;
    if (!writer_of(p, o))
        return !is_sealed(o);
    uint32_t n = (uint32_t)s->number[0];
    if (s->word->text[0] == 'f')
        return add_many(p, o, o->n_done, o->n_done + n);
    for (uint32_t i = 0; i < n && !rc; i++)
        rc = add_at(p, o, o->n_done); /* another thread may have added, too */
    return rc;
}

/* Readers that look on see what was added. */
static void expect_seen(struct player *p, const struct object *o)
{
    struct tamis_filter *f = p->reader[number_of(p, o)];
    if (f)
        steps_expect_keys(o, f, o->lost_page != 0);
}

int run_watch(struct player *p, const struct step *s)
{
    struct object *o = first_object(p, s);
    size_t i = number_of(p, o);
    char path[2 * STEPS_PATH_BYTES];
    if (p->reader[i] || o->standing != THERE || o->place == EMBEDDED || o->bare)
        return 0;
    path_of_object(p, o, path);
    int rc = TRY(p, tamis_filter_open(path, NULL, &p->reader[i], &p->diag));
    if (rc)
        p->reader[i] = NULL;
    return rc;
}

int run_commit(struct player *p, const struct step *s)
{
    struct object *o = first_object(p, s);
    struct tamis_writer *w = writer_of(p, o);
    if (!w)
        return !is_sealed(o);
    uint32_t watermark = o->n_done;
    o->asked = watermark > o->asked ? watermark : o->asked;
    uint32_t n_helped[HELPERS];
    for (size_t i = 0; i < HELPERS; i++)
        n_helped[i] = __atomic_load_n(&o->n_helping[i], __ATOMIC_SEQ_CST);
    int rc = TRY(p, tamis_writer_commit(w, watermark, &p->diag));
    if (rc == 0) {
        o->watermark = watermark;
        memcpy(o->n_helped, n_helped, sizeof n_helped);
        expect_fresh_stages(p, number_of(p, o));
    }
    expect_seen(p, o);
    happened(p);
    return rc;
}

int run_seal(struct player *p, const struct step *s)
{
    struct object *o = first_object(p, s);
    struct tamis_writer *w = writer_of(p, o);
    uint64_t n_damaged = 0;
    if (!w || is_sealed(o))
        return !is_sealed(o);
    uint32_t watermark = o->n_done;
    o->asked = watermark > o->asked ? watermark : o->asked;
    o->seal = COMING;
    int rc = TRY(p, tamis_writer_seal(w, watermark, &n_damaged, &p->diag));
    if (rc == 0) {
        if (!p->lenient && o->worth == GOOD && n_damaged != (o->lost_page != 0))
            broken_steps("sealed, %llu pages damaged", (unsigned long long)n_damaged);
        o->watermark = watermark;
        memcpy(o->n_helped, o->n_helping, sizeof o->n_helped);
        o->seal = THERE;
        o->sealed = true;
        expect_fresh_stages(p, number_of(p, o));
    }
    expect_seen(p, o);
    happened(p);
    return rc;
}

/* "kill NAME": nothing is written, the lock is gone. */
int run_shut(struct player *p, const struct step *s)
{
    size_t i = number_of(p, first_object(p, s));
    struct tamis_writer *w = p->writer[i];
    if (!w)
        return 0;
    bool kill = s->word->text[0] == 'k';
    if (kill)
        atomic_store(&w->state, WRITER_POISONED);
    p->writer[i] = NULL;
    int rc = TRY_FOR(p, kill ? TAMIS_ERR_POISONED : 0, tamis_writer_close(w, NULL));
    happened(p);
    return kill ? 0 : rc;
}

/* ---- files of the engine's ---- */

/* One with the same keys that could not finish is asked to finish again. */
static struct tamis_builder *new_builder(struct player *p, const struct step *s,
                                         const char *binding)
{
    struct tamis_builder *kept = p->builder;
    struct keyset keys = numbers_of(s);
    p->builder = NULL;
    if (kept && memcmp(&p->built, &keys, sizeof keys) == 0)
        return kept;
    IN_LIB_VOID(tamis_builder_free(kept));
    p->built = keys;
    struct tamis_domain domain = steps_domain();
    struct tamis_builder_options opt = {
        .size = sizeof opt,
        .domain = &domain,
        .error = s->number[2],
        .memory_limit = (uint64_t)s->number[3],
        .spool_dir = p->dir,
        .n_threads = s->number[3] > 0 ? 3 : 0,
        .watermark = (uint64_t)s->number[1],
        .identity = {.binding = binding,
                     .binding_bytes = binding ? strlen(binding) : 0}};
    struct tamis_builder *b;
    if (TRY(p, tamis_builder_create(&opt, &b, &p->diag)) != 0)
        return NULL;
    if (fill_builder(p, b, &keys) == 0)
        return b;
    /* It stays failed: half of the keys would be a lie. */
    char path[2 * STEPS_PATH_BYTES];
    path_in(p, "half", path);
    if (IN_LIB(tamis_builder_finish(b, path, NULL, NULL, NULL)) == 0)
        model_broken("a builder that lost keys finishes");
    IN_LIB_VOID(tamis_builder_free(b));
    return NULL;
}

static void leave_builder(struct player *p, struct tamis_builder *b, int rc)
{
    if (b && rc)
        p->builder = b;
    else if (b)
        IN_LIB_VOID(tamis_builder_free(b));
}

/* NAME FROM N ERROR MEMORY: a filter in a file of its own. */
int run_build(struct player *p, const struct step *s)
{
    struct object *o = first_object(p, s);
    char path[2 * STEPS_PATH_BYTES];
    if (o->standing == THERE)
        return 0;
    path_in(p, o->name, path);
    o->place = BUILT;
    o->keys = numbers_of(s);
    o->standing = COMING;
    struct tamis_builder *b = new_builder(p, s, NULL);
    int rc = b ? TRY(p, tamis_builder_finish(b, path, NULL, NULL, &p->diag)) : 1;
    leave_builder(p, b, rc);
    if (rc == 0)
        o->standing = THERE;
    happened(p);
    return rc;
}

/* NAME FROM N ERROR MEMORY: inside a file of the engine's, which syncs it together with
 * what surrounds it; once more at the same place, over the one before. */
int run_embed(struct player *p, const struct step *s)
{
    struct object *o = first_object(p, s);
    char path[2 * STEPS_PATH_BYTES], binding[16];
    uint8_t page[PAGE_BYTES];
    uint64_t n_bytes;
    path_in(p, o->name, path);
    int dir = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    memset(page, 0xab, sizeof page);
    if (dir < 0 || fd < 0 ||
        (o->standing == NOT_THERE && io_calls.pwrite(fd, page, sizeof page, 0) < 0))
        model_broken("the engine's own call failed");
    if (o->standing == THERE)
        o->standing = CHANGING;
    else
        o->standing = COMING, o->rank = 0;
    o->place = EMBEDDED;
    o->next = numbers_of(s);
    if (o->standing == COMING)
        o->keys = o->next;
    snprintf(binding, sizeof binding, "%u", o->rank + (o->standing == CHANGING));
    struct tamis_builder *b = new_builder(p, s, binding);
    int rc =
        b ? TRY(p, tamis_builder_finish(b, NULL, INTO(.fd = fd, .offset = PAGE_BYTES),
                                        &n_bytes, &p->diag))
          : 1;
    leave_builder(p, b, rc);
    if (rc == 0) {
        if (io_calls.pwrite(fd, "footer", 6, PAGE_BYTES + (off_t)n_bytes) != 6 ||
            io_calls.fdatasync(fd) != 0 || io_calls.fsync(dir) != 0)
            model_broken("the engine's own call failed");
        o->rank += o->standing == CHANGING;
        o->keys = o->next;
        o->standing = THERE;
    }
    close(fd);
    close(dir);
    happened(p);
    return rc;
}
