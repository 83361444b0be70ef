/* Writers that find the file damaged, go on, and close it or seal it. What was
 * acknowledged before stays MAYBE, and damage stays known as damage: a page that
 * failed before still fails, or is all ones. */
#include "tests/rot/rot.h"

#include <fcntl.h>
#include <unistd.h>

enum { N_NEW = 400 };
static uint64_t new_keys[N_NEW];

struct session {
    struct file *f;
    struct damage d[2];
    size_t n;
    bool seal;
    size_t n_new;             /* keys: few leave most pages as they are */
    bool *absent_before;      /* per key: an exception that SPEC.md names */
    bool *failed[MAX_STAGES]; /* per page */
};

static struct tamis_filter *open_lone(const struct file *f)
{
    struct tamis_filter *filter;
    tamis_filter_open_fd(f->fd, 0, 0, NULL, &filter, NULL);
    return filter;
}

static void complain(const struct session *s, const char *what, unsigned long long n)
{
    char first[200], second[200] = "";
    damage_say(first, sizeof first, &s->d[0]);
    if (s->n > 1)
        damage_say(second, sizeof second, &s->d[1]);
    lost(s->f->kind, "after a session (%s): %s %llu: %s; %s",
         s->seal ? "sealed" : "closed", what, n, first, second);
}

/* Notes the faults before the session; false if nobody can read the file. */
static bool look_before(struct session *s)
{
    const struct kind *k = s->f->kind;
    struct tamis_filter *filter = open_lone(s->f);
    struct tamis_filter_info info;
    if (!filter)
        return false;
    uint64_t tag = tamis_filter_domain(filter).tag;
    bool known = tamis_filter_info(filter, &info) == 0;
    for (size_t i = 0; i < k->n_acked; i++) {
        struct tamis_key key = tamis_key_of_hash(tag, k->keys[i]);
        s->absent_before[i] = tamis_filter_probe(filter, &key, NULL) == TAMIS_ABSENT;
        if (s->absent_before[i] && judge(s->f, LAZY, &info, i) == LOST)
            complain(s, "and before it, absent key", i);
    }
    /* Pages can be compared only if it is the same table. */
    bool same = known && info.generation == k->commit.generation;
    tamis_filter_close(filter);
    for (uint32_t i = 0; i < k->commit.n_stages; i++)
        for (uint64_t p = 0; p < k->commit.stages[i].length / PAGE_BYTES; p++)
            s->failed[i][p] = same && page_fails(s->f, i, p);
    return true;
}

/* Adds, grows perhaps, commits, and closes or seals. */
static bool work(struct session *s)
{
    struct tamis_writer *w;
    struct tamis_filter_info info;
    if (tamis_writer_open(s->f->path, &w, NULL) != 0)
        return false;
    if (s->n_new % 2)
        CHECK(tamis_writer_one_thread(w) == 0);
    uint64_t watermark = tamis_writer_watermark(w) + 1;
    uint64_t tag = tamis_writer_domain(w).tag;
    CHECK(tamis_writer_info(w, &info) == 0);
    for (size_t i = 0; i < s->n_new; i++)
        new_keys[i] = random_u64();
    CHECK(tamis_writer_add_hashes(w, tag, new_keys, s->n_new) == 0);
    CHECK(tamis_writer_commit(w, watermark, NULL) == 0);
    if (s->seal)
        CHECK(tamis_writer_seal(w, watermark, NULL, NULL) == 0);
    CHECK(tamis_writer_close(w) == 0);
    return true;
}

static bool all_ones(const uint8_t *page)
{
    for (size_t i = 0; i < PAGE_BYTES; i++)
        if (page[i] != 0xff)
            return false;
    return true;
}

static void ask_after(struct session *s, struct tamis_filter *filter, const char *what)
{
    const struct kind *k = s->f->kind;
    uint64_t tag = tamis_filter_domain(filter).tag;
    for (size_t i = 0; i < k->n_acked + s->n_new; i++) {
        uint64_t h = i < k->n_acked ? k->keys[i] : new_keys[i - k->n_acked];
        struct tamis_key key = tamis_key_of_hash(tag, h);
        if (tamis_filter_probe(filter, &key, NULL) == TAMIS_ABSENT &&
            (i >= k->n_acked || !s->absent_before[i]))
            complain(s, what, i);
    }
}

static void expect_not_laundered(struct session *s)
{
    const struct kind *k = s->f->kind;
    for (uint32_t i = 0; i < k->commit.n_stages; i++) {
        const struct stage_desc *d = &k->commit.stages[i];
        for (uint64_t p = 0; p < d->length / PAGE_BYTES; p++) {
            if (!s->failed[i][p])
                continue;
            atomic_fetch_add(&tally->pages_kept, 1);
            if (!all_ones(s->f->is.bytes + d->offset + p * PAGE_BYTES) &&
                (s->seal || !page_fails(s->f, i, p)))
                complain(s, "laundered page", p);
        }
    }
}

/* A page that could not be read rightly, and can be again: the writer must not have
 * relied on it, for it held none of the new keys. */
static void heal(struct session *s)
{
    const struct kind *k = s->f->kind;
    for (uint32_t i = 0; i < k->commit.n_stages; i++) {
        const struct stage_desc *d = &k->commit.stages[i];
        if (s->d[0].at < d->offset || s->d[0].at >= d->offset + d->length)
            continue;
        uint8_t sector[SECTOR_BYTES];
        for (size_t b = 0; b < SECTOR_BYTES; b++)
            sector[b] = k->now.bytes[s->d[0].at + b] | s->f->is.bytes[s->d[0].at + b];
        CHECK(pwrite(s->f->fd, sector, sizeof sector, (off_t)s->d[0].at) ==
              sizeof sector);
    }
}

static void look_after(struct session *s)
{
    struct tamis_filter *filter = open_lone(s->f);
    if (!filter) {
        complain(s, "no reader opens it", 0);
        return;
    }
    ask_after(s, filter, "absent key");
    tamis_filter_close(filter);
    file_reread(s->f);
    expect_not_laundered(s);
    if (s->n > 1 || s->seal || s->d[0].what != FILL || s->d[0].value != 0)
        return;
    heal(s);
    filter = open_lone(s->f);
    CHECK(filter);
    ask_after(s, filter, "after the damage has gone, absent key");
    tamis_filter_close(filter);
}

static void run(struct session *s)
{
    for (size_t i = 0; i < s->n; i++)
        damage_do(s->f, &s->d[i]);
    bool readable = look_before(s);
    atomic_fetch_add(&tally->sessions, 1);
    if (!work(s)) {
        atomic_fetch_add(&tally->sessions_refused, 1);
    } else {
        if (s->seal)
            atomic_fetch_add(&tally->seals, 1);
        if (!readable)
            complain(s, "a writer opens what no reader does", 0);
        look_after(s);
    }
    s->f->low = 0;
    s->f->high = s->f->kind->now.n;
    file_mend(s->f);
}

/* Sectors of bits, which writers could launder, more often than others. */
static struct damage one_damage(const struct kind *k)
{
    const struct stage_desc *s = &k->commit.stages[random_below(k->commit.n_stages)];
    struct damage d = damage_random(k, 0);
    if (random_below(2))
        return d;
    return (struct damage){.what = FILL,
                           .at = s->offset +
                                 random_below(s->length / SECTOR_BYTES) * SECTOR_BYTES,
                           .n = SECTOR_BYTES};
}

void sessions_run(struct file *f, const struct effort *e)
{
    const struct kind *k = f->kind;
    struct session s = {.f = f};
    if (k->commit.state == STATE_SEALED)
        return;
    s.absent_before = calloc(k->n_acked + 1, 1);
    CHECK(s.absent_before);
    for (uint32_t i = 0; i < k->commit.n_stages; i++) {
        s.failed[i] = calloc(k->commit.stages[i].length / PAGE_BYTES, 1);
        CHECK(s.failed[i]);
    }
    for (uint64_t i = 0; i < e->n_writers && !enough(); i++) {
        s.seal = i % 3 == 2;
        s.n_new = random_below(2) ? N_NEW : 1 + random_below(4);
        s.d[0] = one_damage(k);
        s.d[1] = random_below(2) ? damage_random(k, s.d[0].at) : one_damage(k);
        s.n = 1 + i % 2;
        run(&s);
    }
    free(s.absent_before);
    for (uint32_t i = 0; i < k->commit.n_stages; i++)
        free(s.failed[i]);
}
