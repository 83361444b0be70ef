/* Writers that find the file damaged, go on, and close it or seal it. Keys that were
 * acknowledged before stay MAYBE, and damage stays known as damage: a page that failed
 * before still fails, or is all ones. */
#include "tests/rot/rot.h"

enum { N_NEW = 400 };

struct session {
    struct file *f;
    struct damages d;
    bool seal;
    size_t n_new;             /* keys: few leave most pages as they are */
    uint64_t *keys;           /* the acknowledged ones, then the new */
    bool *absent_before;      /* per key: an exception that SPEC.md names */
    bool *failed[MAX_STAGES]; /* per page */
};

static _Noreturn void complain(const struct session *s, const char *what,
                               unsigned long long n)
{
    lost("%s: after a session (%s): %s %llu: %s", s->f->kind->name,
         s->seal ? "sealed" : "closed", what, n, damage_say(&s->d));
}

static struct tamis_filter *open_lone(const struct session *s)
{
    struct tamis_filter *filter;
    tamis_filter_open(NULL, INSIDE(.fd = s->f->fd), &filter, NULL);
    return filter;
}

static bool is_absent(struct tamis_filter *filter, uint64_t hash)
{
    struct tamis_key key = {.tag = steps_domain().tag, .hash = hash};
    return tamis_filter_probe(filter, &key, NULL) == TAMIS_ABSENT;
}

static uint64_t pages_of(const struct session *s, uint32_t stage)
{
    return s->f->kind->commit.stages[stage].length / PAGE_BYTES;
}

/* Notes the faults before the session; false if nobody can read the file. */
static bool look_before(struct session *s)
{
    const struct kind *k = s->f->kind;
    struct tamis_filter *filter = open_lone(s);
    struct tamis_filter_info info;
    if (!filter)
        return false;
    bool known = tamis_filter_info(filter, &info, NULL) == 0;
    for (size_t i = 0; i < k->n_acked; i++) {
        s->absent_before[i] = is_absent(filter, s->keys[i]);
        if (s->absent_before[i] && judge(s->f, LAZY, &info, i) == LOST)
            complain(s, "and before it, absent key", i);
    }
    /* Pages can be compared only if it is the same table. */
    bool same = known && info.generation == k->commit.generation;
    tamis_filter_close(filter);
    for (uint32_t i = 0; i < k->commit.n_stages; i++)
        for (uint64_t p = 0; p < pages_of(s, i); p++)
            s->failed[i][p] = same && page_fails(s->f, i, p);
    return true;
}

/* Adds, grows perhaps, commits, and closes or seals. */
static bool work(const struct session *s)
{
    struct tamis_writer *w;
    uint64_t *new_keys = s->keys + s->f->kind->n_acked;
    struct tamis_writer_options opt = {.size = sizeof opt, .one_thread = s->n_new % 2};
    if (tamis_writer_open(s->f->path, &opt, &w, NULL) != 0)
        return false;
    struct tamis_filter_info info;
    CHECK(tamis_writer_info(w, &info, NULL) == 0);
    uint64_t watermark = info.watermark + 1;
    for (size_t i = 0; i < s->n_new; i++)
        new_keys[i] = random_u64();
    CHECK(tamis_writer_add_hashes(w, info.domain.tag, new_keys, s->n_new) == 0);
    CHECK(tamis_writer_commit(w, watermark, NULL) == 0);
    if (s->seal)
        CHECK(tamis_writer_seal(w, watermark, NULL, NULL) == 0);
    CHECK(tamis_writer_close(w, NULL) == 0);
    return true;
}

static void ask_after(const struct session *s, const char *what)
{
    size_t n_acked = s->f->kind->n_acked;
    struct tamis_filter *filter = open_lone(s);
    if (!filter)
        complain(s, "no reader opens it", 0);
    for (size_t i = 0; i < n_acked + s->n_new; i++)
        if (is_absent(filter, s->keys[i]) && (i >= n_acked || !s->absent_before[i]))
            complain(s, what, i);
    tamis_filter_close(filter);
}

static bool all_ones(const uint8_t *page)
{
    return page[0] == 0xff && memcmp(page, page + 1, PAGE_BYTES - 1) == 0;
}

static void expect_not_laundered(const struct session *s)
{
    const struct kind *k = s->f->kind;
    for (uint32_t i = 0; i < k->commit.n_stages; i++)
        for (uint64_t p = 0; p < pages_of(s, i); p++) {
            if (!s->failed[i][p])
                continue;
            tally->n[PAGES_KEPT]++;
            if (!all_ones(s->f->bytes + k->commit.stages[i].offset + p * PAGE_BYTES) &&
                (s->seal || !page_fails(s->f, i, p)))
                complain(s, "laundered page", p);
        }
}

/* A page that could not be read rightly, and can be again: the writer must not have
 * relied on it, for it held none of the new keys. */
static void heal(const struct session *s)
{
    const struct kind *k = s->f->kind;
    uint64_t at = s->d.of[0].at;
    for (uint32_t i = 0; i < k->commit.n_stages; i++) {
        const struct stage_desc *d = &k->commit.stages[i];
        for (size_t b = 0; b < SECTOR_BYTES && at >= d->offset; b++)
            if (at < d->offset + d->length)
                s->f->bytes[at + b] |= k->now.bytes[at + b];
    }
    ask_after(s, "after the damage has gone, absent key");
}

static void run(struct session *s)
{
    const struct damage *d = &s->d.of[0];
    damage_do(s->f, &s->d);
    bool readable = look_before(s);
    tally->n[SESSIONS]++;
    if (work(s)) {
        file_look(s->f);
        tally->n[SEALS] += s->seal;
        if (!readable)
            complain(s, "a writer opens what no reader does", 0);
        ask_after(s, "absent key");
        expect_not_laundered(s);
        if (s->d.n == 1 && !s->seal && d->what == FILL && d->value == 0)
            heal(s);
    } else {
        tally->n[SESSIONS_REFUSED]++;
    }
    file_look(s->f);
    file_mend(s->f);
}

/* Sectors of bits, which writers could launder, more often than others. */
static struct damage one_damage(const struct kind *k)
{
    const struct stage_desc *s = &k->commit.stages[random_below(k->commit.n_stages)];
    uint64_t sector = random_below(s->length / SECTOR_BYTES) * SECTOR_BYTES;
    if (random_below(2))
        return damage_random(k, 0);
    return (struct damage){.what = FILL, .at = s->offset + sector, .n = SECTOR_BYTES};
}

void sessions_try(struct file *f)
{
    enum { SESSIONS_OF_A_KIND = 11520 };
    const struct kind *k = f->kind;
    struct session s = {.f = f};
    if (k->commit.state == STATE_SEALED)
        return;
    s.keys = calloc(k->n_acked + N_NEW, sizeof *s.keys);
    s.absent_before = calloc(k->n_acked + 1, 1);
    CHECK(s.keys && s.absent_before);
    memcpy(s.keys, k->keys, k->n_acked * sizeof *s.keys);
    for (uint32_t i = 0; i < k->commit.n_stages; i++) {
        s.failed[i] = calloc(pages_of(&s, i), 1);
        CHECK(s.failed[i]);
    }
    for (uint64_t i = 0; i < SESSIONS_OF_A_KIND / every; i++) {
        if (!trial())
            continue;
        s.seal = i % 3 == 2;
        s.n_new = random_below(2) ? N_NEW : 1 + random_below(4);
        s.d = (struct damages){{one_damage(k)}, 1 + i % 2, TWO};
        s.d.of[1] = random_below(2) ? damage_random(k, s.d.of[0].at) : one_damage(k);
        run(&s);
    }
    free(s.keys);
    free(s.absent_before);
    for (uint32_t i = 0; i < k->commit.n_stages; i++)
        free(s.failed[i]);
}
