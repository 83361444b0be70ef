/* Holds filters and snapshots against the promises. */
#include "tests/steps/steps.h"

enum { SINGLY = 1024, BATCH = 256, STRANGERS = 64 };

struct model_counts model_counts;

/* ---- keys that were promised ---- */

/* Every other one by hash alone. */
static bool key_of_set(const void *ctx, uint64_t i, struct tamis_key *out)
{
    static _Thread_local uint8_t bytes[8];
    uint32_t number = keyset_at(ctx, (uint32_t)i);
    *out = key_number(number, bytes);
    if (number % 2)
        out->bytes = NULL;
    return true;
}

/* A growing filter's log has no end, so that a watermark beyond it can be asked for. */
struct promised_keys promised_keys_of(struct keyset *k, const struct object *o,
                                      const struct look *look)
{
    struct promised_keys keys = {key_of_set, k, 0};
    if (!o->grows) {
        keys.n = keyset_size(k);
        return keys;
    }
    keys.n = look->cache ? o->n_done : o->watermark;
    k->range[0].n = o->asked > o->n_added ? o->asked : o->n_added;
    return keys;
}

struct second {
    const struct object *object;
    uint32_t helper;
};

static bool key_of_second(const void *ctx, uint64_t i, struct tamis_key *out)
{
    static _Thread_local uint8_t bytes[8];
    const struct second *s = ctx;
    *out = key_of_helper(s->object, s->helper, (uint32_t)i, bytes);
    return true;
}

static bool is_damaged(const struct object *o, const struct look *look)
{
    return look->any_damage || o->worth != GOOD;
}

/* ---- keys ---- */

/* Asks a filter, or a segment of a snapshot. */
struct asked {
    const char *who;
    struct tamis_filter *filter;
    struct tamis_snapshot *snapshot;
    struct tamis_target target;
    enum tamis_reason expected; /* of every MAYBE; any_damage allows others */
    bool any_damage;
};

static enum tamis_answer ask(const struct asked *a, const struct tamis_key *key,
                             enum tamis_reason *why)
{
    return a->filter ? tamis_filter_probe(a->filter, key, why)
                     : tamis_snapshot_probe(a->snapshot, &a->target, key, why);
}

static void expect_maybe(const struct asked *a, const struct tamis_key *key, uint64_t i,
                         uint64_t n)
{
    enum tamis_reason why;
    if (ask(a, key, &why) == TAMIS_ABSENT)
        broken_steps("%s: key %llu of %llu is ABSENT", a->who, (unsigned long long)i,
                     (unsigned long long)n);
    if (why != a->expected && !a->any_damage)
        broken_steps("%s: key %llu of %llu is MAYBE/%s", a->who, (unsigned long long)i,
                     (unsigned long long)n, tamis_reason_name(why));
}

static void expect_batch(const struct asked *a, uint64_t tag, const uint64_t *hashes,
                         size_t n, uint64_t first)
{
    uint64_t absent[BATCH / 64];
    enum tamis_reason why = TAMIS_NO_REASON;
    size_t n_absent =
        a->filter ? tamis_filter_probe_batch(a->filter, tag, hashes, n, absent, &why)
                  : ASK(a->snapshot, LIST(&a->target, 1), HASHES(hashes, n, tag),
                        .absent_from_all = absent);
    if (n_absent)
        broken_steps("%s: %zu of the keys %llu to %llu are ABSENT in a batch", a->who,
                     n_absent, (unsigned long long)first,
                     (unsigned long long)(first + n - 1));
    if (a->expected == TAMIS_HIT && !a->any_damage && why != TAMIS_NO_REASON)
        broken_steps("%s: every answer is MAYBE/%s", a->who, tamis_reason_name(why));
}

/* All in batches; the first ones, and some of the others, one at a time as well. */
static void expect_all(const struct asked *a, const struct promised_keys *keys)
{
    uint64_t hashes[BATCH], tag = 0, first = 0;
    size_t n = 0;
    for (uint64_t i = 0; i < keys->n; i++) {
        struct tamis_key key;
        if (!keys->key(keys->ctx, i, &key))
            continue;
        if (i < SINGLY || i % 16 == 0)
            expect_maybe(a, &key, i, keys->n);
        first = n ? first : i;
        tag = key.tag;
        hashes[n++] = key.hash;
        model_counts.n_asked++;
        if (n == BATCH) {
            expect_batch(a, tag, hashes, n, first);
            n = 0;
        }
    }
    if (n)
        expect_batch(a, tag, hashes, n, first);
}

void expect_keys(const char *who, struct tamis_filter *f,
                 const struct promised_keys *keys, bool any_damage)
{
    struct asked a = {
        .who = who, .filter = f, .expected = TAMIS_HIT, .any_damage = any_damage};
    expect_all(&a, keys);
}

/* Most keys that nobody added are ABSENT: a filter that is MAYBE for all keys would
 * keep every other promise. */
static void expect_strangers(const char *who, struct tamis_filter *f, uint64_t n)
{
    uint64_t tag = filter_domain(f).tag, n_absent = 0;
    for (uint64_t i = 1; i <= n; i++) {
        uint64_t hash = (i + 0x57a4e) * UINT64_C(0x9E3779B97F4A7C15);
        struct tamis_key key = {.tag = tag, .hash = hash ^ hash >> 32};
        n_absent += tamis_filter_probe(f, &key, NULL) == TAMIS_ABSENT;
    }
    if (n_absent < n / 2)
        broken_steps("%s: only %llu of %llu keys that nobody added are ABSENT", who,
                     (unsigned long long)n_absent, (unsigned long long)n);
    model_counts.n_strangers += n;
    model_counts.n_absent += n_absent;
}

/* ---- a filter ---- */

/* A seal that was not acknowledged may have reached one slot only; so may the newest
 * commit of an open filter. */
static void expect_whole(const char *who, struct tamis_filter *f,
                         const struct object *o, const struct look *look, bool sealed)
{
    bool both_slots = (!o->grows || o->seal == THERE) && !look->rotten_slot;
    uint64_t lost_page = sealed && o->grows ? 0 : o->lost_page;
    struct tamis_verify report;
    struct tamis_diag diag;
    int err = tamis_filter_verify(f, &report, &diag);
    if (!report.n_pages)
        broken_steps("%s: verify looked at no page", who);
    if (is_damaged(o, look))
        return;
    if (lost_page && !report.n_damaged)
        broken_steps("%s: the page at byte %llu lost a sector, and passes its check",
                     who, (unsigned long long)lost_page);
    if (lost_page && report.n_damaged == 1 && report.first_damaged == lost_page)
        return;
    if (report.n_damaged || (err && (both_slots || !report.n_stale_slots)))
        broken_steps("%s: verify: %s (%llu damaged pages, %u stale slots)", who,
                     err ? diag.what : "good", (unsigned long long)report.n_damaged,
                     report.n_stale_slots);
}

void steps_expect_watermark(const char *who, uint64_t watermark, const struct object *o,
                            bool rotten_slot)
{
    if (watermark < o->watermark && !rotten_slot)
        broken_steps("%s: watermark %llu, acknowledged was %u", who,
                     (unsigned long long)watermark, o->watermark);
    if (watermark > o->asked)
        broken_steps("%s: watermark %llu was never asked for", who,
                     (unsigned long long)watermark);
}

/* Its keys are those below its watermark, too. */
static bool expect_growing(const char *who, struct tamis_filter *f,
                           const struct object *o, const struct look *look,
                           struct promised_keys *keys)
{
    struct tamis_filter_info info;
    const char *rotten = look->rotten_slot ? " (one slot rotten)" : "";
    if (tamis_filter_info(f, &info, NULL) != 0)
        broken_steps("%s: no info", who);
    if (info.n_stages < o->stages)
        broken_steps("%s: %u stages, promised were %u%s", who, info.n_stages, o->stages,
                     rotten);
    if (o->seal == THERE && !info.sealed)
        broken_steps("%s: open, but its seal had returned%s", who, rotten);
    if (o->seal == NOT_THERE && info.sealed)
        broken_steps("%s: sealed, and nobody asked for it", who);
    steps_expect_watermark(who, info.watermark, o, look->rotten_slot);
    uint64_t n = info.watermark > o->watermark ? info.watermark : o->watermark;
    keys->n = n > keys->n ? n : keys->n;
    return info.sealed;
}

void steps_expect_filter(const char *who, struct tamis_filter *f,
                         const struct object *o, const struct look *look)
{
    struct keyset k = o->keys;
    struct promised_keys keys = promised_keys_of(&k, o, look);
    bool damaged = is_damaged(o, look) || o->lost_page;
    bool sealed = !o->grows || expect_growing(who, f, o, look, &keys);
    const uint32_t *n_more = look->cache ? o->n_helping : o->n_helped;
    expect_keys(who, f, &keys, damaged);
    for (uint32_t i = 0; i < HELPERS && o->grows; i++) {
        const struct second second = {o, i};
        const struct promised_keys more = {key_of_second, &second, n_more[i]};
        expect_keys(who, f, &more, damaged);
    }
    expect_whole(who, f, o, look, sealed);
    if (!damaged)
        expect_strangers(who, f, STRANGERS);
}

/* ---- the segments of a store ---- */

/* Is it as the edit under way has it, or as it was before? */
static bool is_new(struct tamis_snapshot *snapshot, const struct object *g, bool there,
                   size_t index)
{
    struct tamis_segment_info info;
    if (g->standing != CHANGING)
        return (g->standing == COMING) == there;
    if (!there || tamis_snapshot_segment(snapshot, index, &info) != 0)
        broken_steps("segment %s was to be replaced, and is gone", g->name);
    if (info.rank != g->rank && info.rank != g->rank + 1)
        broken_steps("segment %s is neither the old nor the new one", g->name);
    return info.rank != g->rank;
}

/* Did the edit take effect on this segment? As on its others. */
static bool expect_standing(struct tamis_snapshot *snapshot, const struct object *g,
                            bool there, size_t index, enum outcome outcome[MODEL_EDITS])
{
    if (there && g->standing == NOT_THERE)
        broken_steps("segment %s is listed, its drop had been committed", g->name);
    if (!there && g->standing == THERE)
        broken_steps("segment %s is not listed", g->name);
    if (g->standing == NOT_THERE || g->standing == THERE)
        return false;
    enum outcome now = is_new(snapshot, g, there, index) ? EDIT_DONE : EDIT_UNDONE;
    if (outcome[g->edit] != EDIT_UNKNOWN && outcome[g->edit] != now)
        broken_steps("half of edit %u took effect: segment %s", g->edit, g->name);
    outcome[g->edit] = now;
    return now == EDIT_DONE && g->standing == CHANGING;
}

void expect_keys_of_segment(const char *who, struct tamis_snapshot *snapshot,
                            size_t index, const struct promised_keys *keys,
                            enum tamis_reason expected)
{
    struct asked a = {.who = who,
                      .snapshot = snapshot,
                      .target = tamis_snapshot_target(snapshot, index),
                      .expected = expected,
                      .any_damage = expected == TAMIS_NO_REASON};
    struct tamis_key key;
    expect_all(&a, keys);
    for (uint64_t i = 0; i < keys->n; i += i < 4 ? 1 : 50)
        if (keys->key(keys->ctx, i, &key) &&
            ASK(snapshot, ALL, KEYS(&key, 1)) == TAMIS_ABSENT)
            broken_steps("%s: key %llu is ABSENT everywhere", who,
                         (unsigned long long)i);
}

static void expect_listed(struct tamis_snapshot *snapshot, size_t index,
                          const struct object *g, const struct look *look,
                          bool replaced)
{
    const struct object next = {.keys = g->next, .bare = g->next_bare};
    const struct object *o = replaced ? &next : g;
    struct keyset k = o->keys;
    struct promised_keys keys = promised_keys_of(&k, o, look);
    bool damaged = is_damaged(o, look);
    struct tamis_filter *f = NULL;
    struct tamis_diag diag;
    char who[80];
    snprintf(who, sizeof who, "segment %s", g->name);
    /* A snapshot remembers a pack that was taken for a damaged one. */
    if (!o->bare && tamis_snapshot_filter(snapshot, index, &f, &diag) != 0 && !damaged)
        broken_steps("%s has no filter: %s", who, diag.what);
    expect_keys_of_segment(who, snapshot, index, &keys,
                           o->bare                   ? TAMIS_NO_FILTER
                           : damaged || o->lost_page ? TAMIS_NO_REASON
                                                     : TAMIS_HIT);
    if (f)
        steps_expect_filter(who, f, o, look);
    tamis_filter_close(f);
}

/* Names in filters/, each once. */
struct names_of_files {
    char name[2 * MODEL_EDITS][64];
    size_t n;
};

static void name_file(struct names_of_files *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->name[i], name) == 0)
            return;
    snprintf(f->name[f->n++], sizeof f->name[0], "%s", name);
}

static void name_by_uuid(struct names_of_files *f, const uint8_t uuid[16],
                         const char *ending)
{
    char name[64] = "filters/";
    for (size_t i = 0; i < 16; i++)
        snprintf(name + 8 + 2 * i, 3, "%02x", uuid[i]);
    strcpy(name + 40, ending);
    name_file(f, name);
}

static void name_list(struct names_of_files *f, struct tamis_snapshot *snapshot,
                      size_t index)
{
    struct tamis_filter *list;
    struct tamis_filter_info info;
    if (tamis_snapshot_list(snapshot, index, &list, NULL) != 0)
        return;
    if (tamis_filter_info(list, &info, NULL) == 0)
        name_by_uuid(f, info.uuid, ".tamis");
    tamis_filter_close(list);
}

/* Its own file, or a pack, which has tombstones; and its list. */
static void name_files(struct names_of_files *f, struct tamis_snapshot *snapshot,
                       size_t index)
{
    struct tamis_segment_info info;
    struct tamis_pack_place place;
    name_list(f, snapshot, index);
    if (tamis_snapshot_segment(snapshot, index, &info) != 0 || !info.file[0])
        return;
    name_file(f, info.file);
    if (tamis_snapshot_pack(snapshot, index, NULL, &place, NULL) != 0)
        return;
    name_by_uuid(f, place.uuid, ".tamis");
    name_by_uuid(f, place.uuid, ".dead");
}

size_t count_listed_files(struct tamis_snapshot *snapshot)
{
    static struct names_of_files files;
    files.n = 0;
    for (size_t i = 0; tamis_snapshot_next(snapshot, &i); i++)
        name_files(&files, snapshot, i);
    return files.n;
}

size_t expect_segments(struct tamis_snapshot *snapshot, const struct promises *p,
                       const struct look *look, enum outcome outcome[MODEL_EDITS])
{
    size_t index;
    for (size_t i = 0; i < p->n_objects; i++) {
        const struct object *g = &p->object[i];
        if (g->place != IN_STORE)
            continue;
        bool there = find_segment(snapshot, g->name, &index);
        bool replaced = expect_standing(snapshot, g, there, index, outcome);
        if (there)
            expect_listed(snapshot, index, g, look, replaced);
    }
    return count_listed_files(snapshot);
}

size_t count_filter_files(const char *store)
{
    size_t n = 0;
    char path[4200];
    snprintf(path, sizeof path, "%s/filters", store);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}
