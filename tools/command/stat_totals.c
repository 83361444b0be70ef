/* The totals of a store, for tamis stat. */
#include "stat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../output/output.h"
#include "../talk/screen.h"
#include "../talk/talk.h"

/* Damage ranks before I/O errors. */
static void note_status(struct totals *t, int status)
{
    if (t->status == EXIT_DONE || status == EXIT_DAMAGE)
        t->status = status;
}

/* Another process may have dropped, replaced or packed the segment meanwhile. */
static void add_unopened(struct totals *t, struct tamis_store *store,
                         const struct tamis_segment_info *s, bool lost, int err)
{
    struct tamis_snapshot *fresh;
    size_t index;
    int status = lost ? EXIT_DAMAGE : status_unread(err);
    bool same = segment_now(store, s, &fresh, &index) != TAMIS_ERR_NO_SEGMENT;

    tamis_snapshot_release(fresh);
    t->moved |= !same && index != SIZE_MAX;
    t->lost += same && lost;
    t->unreadable += same && !lost;
    if (same)
        note_status(t, status);
}

/* Is its file missing, or cut short? */
static bool is_lost(const struct tamis_segment_info *s, bool there,
                    const struct stat *st)
{
    return there ? (uint64_t)st->st_size < s->file_bytes : errno == ENOENT;
}

/* Releases a sealed filter at once: a store may have more filters than a process has
 * room to map. */
static int look_inside(struct tamis_snapshot *snapshot, size_t i,
                       const struct tamis_segment_info *s, const char *store,
                       struct tamis_filter_info *info)
{
    struct tamis_filter_options opt = {.size = sizeof(opt), .uuid = s->uuid};
    struct tamis_filter *filter;
    char path[4096];
    int err;

    if (s->state != TAMIS_SEGMENT_SEALED) {
        err = tamis_snapshot_filter(snapshot, i, &filter, NULL);
        return err ? err : tamis_filter_info(filter, info);
    }
    if (snprintf(path, sizeof(path), "%s/%s", store, s->file) >= (int)sizeof(path))
        return ENAMETOOLONG;
    err = tamis_filter_open(path, &opt, &filter, NULL);
    if (err != 0)
        return err;
    err = tamis_filter_info(filter, info);
    tamis_filter_close(filter);
    return err;
}

static void add_segment(struct totals *t, struct tamis_store *store,
                        struct tamis_snapshot *snapshot, size_t i, const char *path)
{
    struct tamis_segment_info s;
    struct stat st = {0};
    struct tamis_filter_info info;
    struct tamis_pack_place place;
    bool lost;
    int err;

    if (tamis_snapshot_segment(snapshot, i, &s) != 0)
        return;
    t->n[s.state <= TAMIS_SEGMENT_SEALED ? s.state : 0]++;
    if (s.state == TAMIS_SEGMENT_BARE)
        return;
    if (is_column(snapshot, i, &place)) {
        t->keys += s.keys; /* the pack is a file, and is added once */
        return;
    }
    if (add_lost_pack(&t->lost_packs, store, snapshot, i))
        note_status(t, t->lost_packs.status);
    if (is_in_lost_pack(snapshot, i)) {
        t->keys += s.keys;
        err = tamis_snapshot_filter(snapshot, i, &(struct tamis_filter *){0}, NULL);
        add_unopened(t, store, &s, err == ENOENT, err);
        return;
    }
    lost = is_lost(&s, stat_in(path, s.file, &st), &st);
    t->allocated += (uint64_t)st.st_blocks * 512;
    err = look_inside(snapshot, i, &s, path, &info);
    if (err == 0) {
        t->files++;
        s.keys = info.keys;
        s.file_bytes = info.file_bytes;
        t->over_target += over_target(&info);
    }
    if (lost || err != 0)
        add_unopened(t, store, &s, lost, err);
    t->keys += s.keys;
    t->bytes += s.file_bytes;
}

/* No answer rests on a list, but it has to be there when a filter is made of it. */
static void add_list(struct totals *t, struct tamis_store *store,
                     const struct tamis_snapshot *snapshot, size_t i)
{
    struct tamis_filter *list = NULL;
    int err = open_its_list(store, snapshot, i, &list, NULL);

    tamis_filter_close(list);
    if (err == 0 || err == TAMIS_ERR_NO_SEGMENT)
        return;
    t->unusable_lists++;
    note_status(t, status_unread(err));
}

int add_segments(struct totals *t, struct tamis_store *store,
                 struct tamis_snapshot **snapshot, const char *path, char *const *names,
                 size_t n_names)
{
    const struct totals before = *t;
    size_t *picked, n;
    unsigned tries = 0;
    int status;

    do {
        free(t->lost_packs.uuids);
        *t = before;
        status = pick_segments(*snapshot, path, names, n_names, &picked, &n);
        for (size_t i = 0; i < n; i++) {
            add_segment(t, store, *snapshot, picked[i], path);
            add_list(t, store, *snapshot, picked[i]);
        }
        free(picked);
    } while (t->moved && newer_snapshot(store, snapshot, &tries));
    return status;
}

void add_packs(struct totals *t, struct tamis_snapshot *snapshot, const char *path)
{
    struct tamis_stats stats;
    size_t n;
    struct pack *packs = packs_list(snapshot, path, &n);

    for (size_t i = 0; i < n; i++) {
        const struct pack *p = &packs[i];

        t->n_packed += p->n_segments;
        t->n_dead += p->place.n_columns_of_pack - p->n_segments;
        t->pack_bytes += p->allocated;
        t->allocated += p->allocated;
        t->bytes += p->file_bytes;
    }
    t->n_packs = n;
    packs_forget(packs, n);
    if (tamis_snapshot_stats(snapshot, &stats) == 0 && t->files > stats.max_mapped)
        t->unmapped = t->files - stats.max_mapped;
}

json_t *totals_json(const struct totals *t, const struct tamis_store_info *info,
                    const char *path)
{
    json_t *o = memory_or_exit(json_object());
    char seed[20];

    snprintf(seed, sizeof(seed), "%016llx", (unsigned long long)info->domain.seed);
    json_put(o, "store", json_escaped(path, strlen(path)));
    json_put(o, "uuid", json_hex(info->uuid, sizeof(info->uuid)));
    json_put(o, "created", json_count(info->created));
    json_put(o, "complete", json_boolean(info->complete));
    json_put(o, "read_only", json_boolean(info->read_only));
    json_put(o, "hash_id", json_count(info->domain.hash_id));
    json_put(o, "seed", json_string(seed));
    json_put(o, "error", json_number(info->growth.error));
    json_put(o, "factor", json_number(info->growth.factor));
    json_put(o, "tightening", json_number(info->growth.tightening));
    json_put(o, "n0", json_count(info->growth.first_capacity));
    json_put(o, "segments", json_count(info->n_segments));
    json_put(o, "sealed", json_count(t->n[TAMIS_SEGMENT_SEALED]));
    json_put(o, "growing", json_count(t->n[TAMIS_SEGMENT_GROWING]));
    json_put(o, "bare", json_count(t->n[TAMIS_SEGMENT_BARE]));
    json_put(o, "packs", json_count(t->n_packs));
    json_put(o, "lost_packs", json_count(t->lost_packs.n - t->lost_packs.n_unread));
    json_put(o, "unreadable_packs", json_count(t->lost_packs.n_unread));
    json_put(o, "packed", json_count(t->n_packed));
    json_put(o, "dead_columns", json_count(t->n_dead));
    json_put(o, "pack_allocated_bytes", json_count(t->pack_bytes));
    json_put(o, "over_target", json_count(t->over_target));
    json_put(o, "unreadable", json_count(t->unreadable));
    json_put(o, "lost", json_count(t->lost));
    json_put(o, "unusable_lists", json_count(t->unusable_lists));
    json_put(o, "unmapped", json_count(t->unmapped));
    json_put(o, "keys", json_count(t->keys));
    json_put(o, "filter_bytes", json_count(t->bytes));
    json_put(o, "filter_allocated_bytes", json_count(t->allocated));
    json_put(o, "catalog_bytes", json_count(info->catalog_bytes));
    json_put(o, "catalog_file_bytes", json_count(t->catalog_file));
    return o;
}

void print_totals_text(const struct totals *t, const struct tamis_store_info *info,
                       const char *path)
{
    char *uuid = hex(info->uuid, sizeof(info->uuid));
    char *name = escape(path, strlen(path));

    printf("store      %s%s", name, info->read_only ? ", read-only" : "");
    if (!info->complete)
        print_tinted(TINT_DOUBT, ", INCOMPLETE: segments may be missing");
    printf("\nuuid       %s, made %s\n", uuid, TIME(info->created));
    printf("hash       %u, seed %016llx\n", info->domain.hash_id,
           (unsigned long long)info->domain.seed);
    printf("defaults   error %s, growing by %g, tightening %g, from %llu keys\n",
           PERCENT(info->growth.error), info->growth.factor, info->growth.tightening,
           (unsigned long long)info->growth.first_capacity);
    printf("segments   %llu: %llu sealed, %llu growing, %llu without a filter\n",
           (unsigned long long)info->n_segments,
           (unsigned long long)t->n[TAMIS_SEGMENT_SEALED],
           (unsigned long long)t->n[TAMIS_SEGMENT_GROWING],
           (unsigned long long)t->n[TAMIS_SEGMENT_BARE]);
    if (t->n_packs > 0 || t->lost_packs.n > 0)
        printf("packs      %llu: %llu segments, %llu dead columns, %s\n",
               (unsigned long long)t->n_packs, (unsigned long long)t->n_packed,
               (unsigned long long)t->n_dead, SIZE(t->pack_bytes));
    if (t->lost_packs.n > 0)
        print_tinted(TINT_BAD,
                     "           %zu more missing or damaged, %zu unreadable\n",
                     t->lost_packs.n - t->lost_packs.n_unread, t->lost_packs.n_unread);
    if (t->over_target > 0 || t->unreadable > 0 || t->lost > 0)
        print_tinted(TINT_BAD,
                     "           %llu over their target error, %llu unreadable, %llu "
                     "lost\n",
                     (unsigned long long)t->over_target,
                     (unsigned long long)t->unreadable, (unsigned long long)t->lost);
    if (t->unusable_lists > 0)
        print_tinted(TINT_BAD, "           %s unusable\n",
                     COUNTED(t->unusable_lists, "list"));
    if (t->unmapped > 0)
        printf("           %llu more than a process maps: read at each question, until "
               "they are packed\n",
               (unsigned long long)t->unmapped);
    printf("keys       %llu\n", (unsigned long long)t->keys);
    printf("filters    %s allocated", SIZE(t->allocated));
    if (t->allocated != t->bytes)
        printf(", %s long", SIZE(t->bytes));
    if (t->keys > 0)
        printf(", %.2f bits per key", 8 * (double)t->allocated / (double)t->keys);
    printf("\ncatalog    %s in use, %s on disk\n", SIZE(info->catalog_bytes),
           SIZE(t->catalog_file));
    free(name);
    free(uuid);
}

int complain_totals(const struct totals *t, const char *path)
{
    size_t n_unread = t->lost_packs.n_unread, n_lost = t->lost_packs.n - n_unread;
    char lost[64] = "", unread[64] = "", lists[64] = "";

    if (t->status == EXIT_DONE)
        return EXIT_DONE;
    if (n_lost > 0)
        snprintf(lost, sizeof(lost), ", %s missing or damaged",
                 COUNTED(n_lost, "pack"));
    if (n_unread > 0)
        snprintf(unread, sizeof(unread), ", %s unreadable", COUNTED(n_unread, "pack"));
    if (t->unusable_lists > 0)
        snprintf(lists, sizeof(lists), ", %s unusable",
                 COUNTED(t->unusable_lists, "list"));
    return complain(t->status,
                    "%s: %s unreadable, %llu lost%s%s%s: 'tamis verify' says which",
                    path, COUNTED(t->unreadable, "filter"), (unsigned long long)t->lost,
                    lost, unread, lists);
}
