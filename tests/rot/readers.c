/* Readers of every mode, opened before the damage and after it. */
#include "tests/rot/rot.h"

#include <stdarg.h>

const char *const view_names[N_VIEWS] = {
    [LAZY] = "lazy",
    [KNOWN] = "as the catalog opens it",
    [FULL] = "full",
    [STRICT] = "strict",
    [LIVE] = "opened before",
    [GREW] = "opened before it grew",
    [LIVE_STRICT] = "opened before, strict",
    [WARM] = "opened before, pages remembered",
    [NONE] = "no checks",
};

enum { WINDOW = 1024, SAMPLE = 24 };

struct question {
    struct tamis_filter *about; /* whom `read` is of; NULL: not asked yet */
    struct tamis_filter_info read;
    const struct file *f;
    const struct damage *d;
    size_t n;
    enum damage_class class;
    bool seen[N_EXCEPTIONS];
};

void lost(const struct kind *k, const char *format, ...)
{
    va_list ap;
    char text[500];
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    if (atomic_fetch_add(&tally->n_lost, 1) < 8)
        fprintf(stderr, "LOST: %s: %s\n", k->name, text);
}

static void complain(const struct question *q, enum view view, const char *what)
{
    char first[200], second[200] = "";
    damage_say(first, sizeof first, &q->d[0]);
    if (q->n > 1)
        damage_say(second, sizeof second, &q->d[1]);
    lost(q->f->kind, "%s: %s: %s, by a reader %s: %s; %s", class_names[q->class], what,
         "seen", view_names[view], first, second);
}

/* An ABSENT for a key that is there. */
static void absent(struct question *q, enum view view, struct tamis_filter *filter,
                   size_t key)
{
    if (q->about != filter) {
        /* A reader from before goes on with the header that it knew. */
        if (tamis_filter_info(filter, &q->read) != 0) {
            const struct kind *k = q->f->kind;
            memcpy(q->read.uuid, k->id.uuid, UUID_BYTES);
            q->read.sequence = k->commit.sequence;
        }
        q->about = filter;
    }
    enum exception e = judge(q->f, view, &q->read, key);
    if (e == LOST)
        complain(q, view, "a present key is ABSENT");
    else
        q->seen[e] = true;
}

/* A window of the keys, another one each time. A reader tries again and again to read a
 * floor sector that fails, at every probe, so there it is a small one. */
static void ask_many(struct question *q, enum view view, struct tamis_filter *filter)
{
    const struct kind *k = q->f->kind;
    uint64_t bitmap[WINDOW / 64], tag = hash_domain_tag(k->id.hash_id, k->id.hash_seed);
    size_t n = q->class == ON_BITS_OF_FLOORS ? WINDOW / 8 : WINDOW;
    n = n < k->n_keys ? n : k->n_keys;
    size_t first = (size_t)random_below(k->n_keys - n + 1);
    atomic_fetch_add(&tally->asked[view], 1);
    /* A caller may hash by what the filter says, and would ask for other keys. */
    if (tamis_filter_domain(filter).tag != tag)
        complain(q, view, "it says that it is of another domain");
    if (!tamis_filter_probe_batch(filter, tag, k->keys + first, n, bitmap, NULL))
        return;
    for (size_t i = 0; i < n; i++)
        if (bitmap[i / 64] >> (i % 64) & 1)
            absent(q, view, filter, first + i);
}

static void ask_one(struct question *q, enum view view, struct tamis_filter *filter,
                    size_t i)
{
    struct tamis_key key = tamis_key_of_hash(
        hash_domain_tag(q->f->kind->id.hash_id, q->f->kind->id.hash_seed),
        q->f->kind->keys[i]);
    if (tamis_filter_probe(filter, &key, NULL) == TAMIS_ABSENT)
        absent(q, view, filter, i);
}

/* The keys that need a page that was hit. */
static void ask_focus(struct question *q, enum view view, struct tamis_filter *filter)
{
    const struct kind *k = q->f->kind;
    uint64_t end = k->commit.committed_bytes / PAGE_BYTES;
    for (size_t i = 0; i < q->n; i++) {
        uint64_t page = (q->d[i].at - k->offset) / PAGE_BYTES;
        for (size_t n = 0; q->d[i].at >= k->offset && page < end && n < FOCUS; n++)
            if (k->focus[page][n] < k->n_keys)
                ask_one(q, view, filter, k->focus[page][n]);
    }
}

/* And a few others: strict probes copy a page each. */
static void ask_some(struct question *q, enum view view, struct tamis_filter *filter)
{
    const struct kind *k = q->f->kind;
    atomic_fetch_add(&tally->asked[view], 1);
    ask_focus(q, view, filter);
    for (size_t i = 0; i < SAMPLE && k->n_keys; i++)
        ask_one(q, view, filter, (size_t)random_below(k->n_keys));
}

static struct tamis_filter *open_as(const struct file *f, enum tamis_check check,
                                    bool known)
{
    struct tamis_filter_options o = {.size = sizeof o};
    struct tamis_filter *filter;
    if (known)
        o = f->kind->known;
    o.check = check;
    tamis_filter_open_fd(f->fd, f->kind->offset, 0, &o, &filter, NULL);
    return filter;
}

/* The scrub must find the very pages that SPEC.md says are bad. */
static void expect_scrub(struct question *q, struct tamis_filter *filter)
{
    const struct kind *k = q->f->kind;
    struct tamis_filter_info info;
    struct tamis_verify report;
    tamis_filter_verify(filter, &report, NULL);
    if (report.n_damaged)
        atomic_fetch_add(&tally->damaged, 1);
    else
        atomic_fetch_add(&tally->unharmed, 1);
    if (tamis_filter_info(filter, &info) != 0 || info.sequence != k->commit.sequence ||
        memcmp(info.uuid, k->id.uuid, UUID_BYTES) != 0)
        return; /* other pages */
    if (report.n_damaged != pages_that_fail(q->f))
        complain(q, LAZY, "verify finds other pages than SPEC.md");
}

static void ask_and_close(struct question *q, enum view view,
                          struct tamis_filter *filter, bool all)
{
    q->about = NULL;
    if (filter && all) {
        ask_many(q, view, filter);
        ask_focus(q, view, filter);
    } else if (filter)
        ask_some(q, view, filter);
    tamis_filter_close(filter);
}

/* ---- those that look on ---- */

struct onlookers {
    struct tamis_filter *live, *live_strict, *warm;
    enum view live_as, warm_as;
};

static void open_onlookers(struct onlookers *o, struct question *q)
{
    struct tamis_verify report;
    o->live = open_as(q->f, TAMIS_CHECK_LAZY, false);
    o->live_strict = open_as(q->f, TAMIS_CHECK_STRICT, false);
    o->warm = open_as(q->f, TAMIS_CHECK_LAZY, false);
    o->live_as = LIVE;
    o->warm_as = WARM;
    CHECK(o->live && o->live_strict && o->warm);
    CHECK(tamis_filter_verify(o->warm, &report, NULL) == 0);
}

/* A file cut short under a reader is SIGBUS: not asked for here. */
static bool shrinks(const struct file *f, const struct damage *d, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (d[i].what == CUT || (d[i].what == REPLACE && d[i].from->n < f->kind->now.n))
            return true;
    return false;
}

/* The file as it was, for readers that will meet growth and damage together. */
static bool go_back(struct file *f, uint64_t turn)
{
    const struct kind *k = f->kind;
    struct damage back = {.what = REPLACE};
    struct identity id;
    struct commit c;
    struct slot_health health;
    if (!k->n_past || turn % 8 != 4)
        return false;
    back.from = &k->past[turn / 8 % k->n_past];
    CHECK(identity_decode(back.from->bytes, back.from->n, &id).code == VERDICT_OK);
    CHECK(commit_choose_slot(back.from->bytes, &id, back.from->n, &c, &health).code ==
          VERDICT_OK);
    if (c.generation == k->commit.generation)
        return false; /* what a reader remembers of pages stays remembered */
    damage_do(f, &back);
    return true;
}

static void ask_onlookers(struct question *q, struct onlookers *o)
{
    ask_and_close(q, o->live_as, o->live, true);
    ask_and_close(q, o->live_as == GREW ? GREW : LIVE_STRICT, o->live_strict, false);
    ask_and_close(q, o->warm_as, o->warm, true);
}

static void ask_newcomers(struct question *q, uint64_t turn)
{
    struct tamis_filter *lazy = open_as(q->f, TAMIS_CHECK_LAZY, false);
    if (lazy) {
        q->about = NULL;
        ask_many(q, LAZY, lazy);
        ask_focus(q, LAZY, lazy);
        expect_scrub(q, lazy);
        tamis_filter_close(lazy);
    } else {
        atomic_fetch_add(&tally->refused, 1);
    }
    ask_and_close(q, KNOWN, open_as(q->f, TAMIS_CHECK_LAZY, true), true);
    if (turn % 2 == 0)
        ask_and_close(q, FULL, open_as(q->f, TAMIS_CHECK_FULL, false), true);
    else
        ask_and_close(q, STRICT, open_as(q->f, TAMIS_CHECK_STRICT, false), false);
    if (turn % 16 == 0)
        ask_and_close(q, NONE, open_as(q->f, TAMIS_CHECK_NONE, false), true);
}

void readers_try(struct file *f, const struct damage *d, size_t n,
                 enum damage_class class, uint64_t turn)
{
    struct question q = {.f = f, .d = d, .n = n, .class = class};
    struct onlookers o;
    bool watched = turn % 4 == 0 && !shrinks(f, d, n);
    atomic_fetch_add(&tally->damages[class], 1);
    if (watched) {
        bool back = go_back(f, turn);
        open_onlookers(&o, &q);
        if (back)
            o.live_as = o.warm_as = GREW;
        file_mend(f);
    }
    for (size_t i = 0; i < n; i++)
        damage_do(f, &d[i]);
    if (watched)
        ask_onlookers(&q, &o);
    ask_newcomers(&q, turn);
    file_mend(f);
    for (size_t i = 0; i < N_EXCEPTIONS; i++)
        if (q.seen[i])
            atomic_fetch_add(&tally->exceptions[i], 1);
}
