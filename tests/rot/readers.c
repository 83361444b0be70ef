/* Readers of every mode, opened before the damage and after it. */
#include "tests/rot/rot.h"

const char *const view_names[N_VIEWS] = {
    [LAZY] = "lazy",
    [KNOWN] = "as the catalog opens it",
    [FULL] = "full",
    [STRICT] = "strict",
    [NONE] = "no checks",
    [LIVE] = "opened before",
    [LIVE_STRICT] = "opened before, strict",
    [WARM] = "opened before, pages remembered",
    [GREW] = "opened before it grew",
};

/* Strict probes copy a page each, so such readers get few keys. A reader that is not
 * always asked meets one damage in one_in. */
static const struct reader {
    enum view view;
    enum tamis_check check;
    bool is_known, gets_few;
    unsigned one_in, from;
} newcomers[] = {{LAZY, TAMIS_CHECK_LAZY, false, false, 1, 0},
                 {KNOWN, TAMIS_CHECK_LAZY, true, false, 1, 0},
                 {FULL, TAMIS_CHECK_FULL, false, false, 2, 0},
                 {STRICT, TAMIS_CHECK_STRICT, false, true, 2, 1},
                 {NONE, TAMIS_CHECK_NONE, false, false, 16, 0}},
  onlookers[] = {{LIVE, TAMIS_CHECK_LAZY, false, false, 4, 0},
                 {LIVE_STRICT, TAMIS_CHECK_STRICT, false, true, 4, 0},
                 {WARM, TAMIS_CHECK_LAZY, false, false, 4, 0}};
enum {
    N_NEWCOMERS = sizeof newcomers / sizeof newcomers[0],
    N_ONLOOKERS = sizeof onlookers / sizeof onlookers[0]
};

enum { WINDOW = 1024, FEW = 24 };

struct question {
    const struct file *f;
    const struct damages *d;
    struct tamis_filter *filter;
    enum view view;
    bool knows; /* `read` is of this filter */
    struct tamis_filter_info read;
    bool seen[N_EXCEPTIONS];
};

static _Noreturn void complain(const struct question *q, const char *what)
{
    lost("%s: %s, seen by a reader %s: %s", q->f->kind->name, what, view_names[q->view],
         damage_say(q->d));
}

/* An ABSENT for a key that is there. */
static void absent(struct question *q, size_t key)
{
    const struct kind *k = q->f->kind;
    /* A reader from before goes on with the header that it knew. */
    if (!q->knows && tamis_filter_info(q->filter, &q->read, NULL) != 0) {
        memcpy(q->read.uuid, k->id.uuid, UUID_BYTES);
        q->read.sequence = k->commit.sequence;
    }
    q->knows = true;
    enum exception e = judge(q->f, q->view, &q->read, key);
    if (e == LOST)
        complain(q, "a present key is ABSENT");
    q->seen[e] = true;
}

/* A window of the keys, another one each time. A reader tries again and again to read a
 * floor sector that fails, at every probe, so there it is a small one. */
static void ask_many(struct question *q)
{
    const struct kind *k = q->f->kind;
    uint64_t bitmap[WINDOW / 64], tag = steps_domain().tag;
    size_t n = q->d->part == BITS_OF_FLOORS ? WINDOW / 8 : WINDOW;
    n = n < k->n_keys ? n : k->n_keys;
    size_t first = (size_t)random_below(k->n_keys - n + 1);
    /* A caller may hash by what the filter says, and would ask for other keys. */
    if (filter_domain(q->filter).tag != tag)
        complain(q, "it says that it is of another domain");
    if (!tamis_filter_probe_batch(q->filter, tag, k->keys + first, n, bitmap, NULL))
        return;
    for (size_t i = 0; i < n; i++)
        if (bitmap[i / 64] >> (i % 64) & 1)
            absent(q, first + i);
}

static void ask_one(struct question *q, size_t i)
{
    struct tamis_key key = {.tag = steps_domain().tag, .hash = q->f->kind->keys[i]};
    if (tamis_filter_probe(q->filter, &key, NULL) == TAMIS_ABSENT)
        absent(q, i);
}

/* The keys that need a page that was hit. */
static void ask_focus(struct question *q)
{
    const struct kind *k = q->f->kind;
    uint64_t end = k->commit.committed_bytes / PAGE_BYTES;
    for (size_t i = 0; i < q->d->n; i++) {
        uint64_t at = q->d->of[i].at, page = (at - k->offset) / PAGE_BYTES;
        for (size_t n = 0; at >= k->offset && page < end && n < FOCUS; n++)
            if (k->focus[page][n] < k->n_keys)
                ask_one(q, k->focus[page][n]);
    }
}

static void ask(struct question *q, const struct reader *r, struct tamis_filter *filter)
{
    if (!filter)
        return;
    q->filter = filter;
    q->knows = false;
    tally->asked[q->view]++;
    if (!r->gets_few)
        ask_many(q);
    ask_focus(q);
    for (size_t i = 0; i < FEW && r->gets_few && q->f->kind->n_keys; i++)
        ask_one(q, (size_t)random_below(q->f->kind->n_keys));
}

static struct tamis_filter *open_as(const struct file *f, const struct reader *r)
{
    struct tamis_filter_options o = {.size = sizeof o};
    struct tamis_filter *filter;
    if (r->is_known)
        o = f->kind->known;
    o.check = r->check;
    o.fd = f->fd;
    o.offset = f->kind->offset;
    tamis_filter_open(NULL, &o, &filter, NULL);
    return filter;
}

/* The scrub must find the very pages that SPEC.md says are bad. */
static void expect_scrub(const struct question *q, struct tamis_filter *filter)
{
    const struct kind *k = q->f->kind;
    struct tamis_filter_info info;
    struct tamis_verify report;
    tamis_filter_verify(filter, &report, NULL);
    tally->n[report.n_damaged ? DAMAGED : UNHARMED]++;
    if (tamis_filter_info(filter, &info, NULL) != 0 ||
        info.sequence != k->commit.sequence ||
        memcmp(info.uuid, k->id.uuid, UUID_BYTES) != 0)
        return; /* other pages */
    if (report.n_damaged != pages_that_fail(q->f))
        complain(q, "verify finds other pages than SPEC.md");
}

static void ask_newcomers(struct question *q, uint64_t turn)
{
    for (size_t i = 0; i < N_NEWCOMERS; i++) {
        const struct reader *r = &newcomers[i];
        if (turn % r->one_in != r->from)
            continue;
        struct tamis_filter *filter = open_as(q->f, r);
        q->view = r->view;
        ask(q, r, filter);
        if (r->view == LAZY && filter)
            expect_scrub(q, filter);
        else if (r->view == LAZY)
            tally->n[REFUSED]++;
        tamis_filter_close(filter);
    }
}

/* ---- those that look on ---- */

/* A file cut short under a reader is SIGBUS: not asked for here. */
static bool shrinks(const struct file *f, const struct damages *d)
{
    for (size_t i = 0; i < d->n; i++)
        if (d->of[i].what == CUT ||
            (d->of[i].what == REPLACE && d->of[i].from->n < f->kind->now.n))
            return true;
    return false;
}

/* The file as it was, for readers that will meet growth and damage together. */
static bool go_back(struct file *f)
{
    const struct kind *k = f->kind;
    struct damages back = {{{.what = REPLACE}}, 1, WHOLE};
    struct identity id;
    struct commit c;
    if (!k->n_past || random_below(2))
        return false;
    back.of[0].from = &k->past[random_below(k->n_past)];
    CHECK(image_decode(back.of[0].from, 0, &id, &c));
    if (c.generation == k->commit.generation)
        return false; /* what a reader remembers of pages stays remembered */
    damage_do(f, &back);
    return true;
}

void readers_try(struct file *f, const struct damages *d)
{
    struct question q = {.f = f, .d = d};
    struct tamis_filter *before[N_ONLOOKERS] = {NULL};
    struct tamis_verify report;
    uint64_t turn = random_below(16);
    bool watched = turn % 4 == 0 && !shrinks(f, d), back = watched && go_back(f);
    tally->damages[d->part]++;
    for (size_t i = 0; i < N_ONLOOKERS && watched; i++) {
        before[i] = open_as(f, &onlookers[i]);
        CHECK(before[i]);
        if (onlookers[i].view == WARM)
            CHECK(tamis_filter_verify(before[i], &report, NULL) == 0);
    }
    if (back)
        file_mend(f);
    damage_do(f, d);
    for (size_t i = 0; i < N_ONLOOKERS && watched; i++) {
        q.view = back ? GREW : onlookers[i].view;
        ask(&q, &onlookers[i], before[i]);
        tamis_filter_close(before[i]);
    }
    ask_newcomers(&q, turn);
    file_mend(f);
    for (size_t i = 0; i < N_EXCEPTIONS; i++)
        tally->exceptions[i] += q.seen[i];
}
