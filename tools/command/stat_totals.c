/* The totals of a store, for tamis stat. */
#include "stat.h"

#include <sys/stat.h>

#include "../output/output.h"

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
    enum fate fate = segment_fate(store, s);
    t->moved |= fate == SEGMENT_MOVED;
    if (fate != SEGMENT_STAYS)
        return;
    t->lost += lost;
    t->unreadable += !lost;
    note_status(t, lost ? EXIT_DAMAGE : status_unread(err));
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
    } else {
        if (snprintf(path, sizeof(path), "%s/%s", store, s->file) >= (int)sizeof(path))
            return ENAMETOOLONG;
        err = tamis_filter_open(path, &opt, &filter, NULL);
    }
    if (err != 0)
        return err;
    err = tamis_filter_info(filter, info, NULL);
    tamis_filter_close(filter);
    return err;
}

static void add_segment(struct totals *t, struct tamis_store *store,
                        struct tamis_snapshot *snapshot, size_t i, const char *path)
{
    struct tamis_segment_info s;
    struct stat st = {0};
    struct tamis_filter_info info;
    int err;
    if (tamis_snapshot_segment(snapshot, i, &s) != 0)
        return;
    t->n[s.state <= TAMIS_SEGMENT_SEALED ? s.state : 0]++;
    if (s.state == TAMIS_SEGMENT_BARE)
        return;
    if (is_column(snapshot, i, NULL)) {
        t->keys += s.keys; /* the pack is a file, and is added once */
        return;
    }
    if (is_in_lost_pack(snapshot, i)) {
        t->keys += s.keys;
        err = tamis_snapshot_pack(snapshot, i, NULL, NULL, NULL);
        add_unopened(t, store, &s, err == ENOENT, err);
        return;
    }
    bool lost = is_lost(&s, stat_in(path, s.file, &st), &st);
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

static void count_lost_packs(struct totals *t, struct tamis_store *store,
                             struct tamis_snapshot *snapshot)
{
    struct tamis_pack_info pack;
    for (size_t i = 0; tamis_snapshot_pack_info(snapshot, i, &pack) == 0; i++)
        if (pack_is_lost(store, &pack)) {
            bool damaged = status_unread(pack.error) == EXIT_DAMAGE;
            note_status(t, status_unread(pack.error));
            t->lost_packs += damaged;
            t->unread_packs += !damaged;
        }
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
        *t = before;
        count_lost_packs(t, store, *snapshot);
        status = pick_named(*snapshot, path, names, n_names, &picked, &n);
        for (size_t at = 0, i; next_picked(*snapshot, picked, n, &at, &i);) {
            add_segment(t, store, *snapshot, i, path);
            add_list(t, store, *snapshot, i);
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
        t->n_dead += p->n_columns - p->n_segments;
        t->pack_bytes += p->allocated;
        t->allocated += p->allocated;
        t->bytes += p->file_bytes;
    }
    t->n_packs = n;
    packs_forget(packs, n);
    if (tamis_snapshot_stats(snapshot, 0, &stats) == 0 && t->files > stats.max_mapped)
        t->unmapped = t->files - stats.max_mapped;
}

json_t *totals_json(const struct totals *t, const struct tamis_store_info *info,
                    const char *path)
{
    char seed[20];
    snprintf(seed, sizeof(seed), "%016llx", LLU(info->domain.seed));
    return json_of(
        "store", json_escaped(path, strlen(path)), "uuid",
        json_hex(info->uuid, sizeof(info->uuid)), "created", json_count(info->created),
        "complete", json_boolean(info->complete), "read_only",
        json_boolean(info->read_only), "hash_id", json_count(info->domain.hash_id),
        "seed", json_string(seed), "error", json_number(info->growth.error), "factor",
        json_number(info->growth.factor), "tightening",
        json_number(info->growth.tightening), "n0",
        json_count(info->growth.first_capacity), "segments",
        json_count(info->n_segments), "sealed", json_count(t->n[TAMIS_SEGMENT_SEALED]),
        "growing", json_count(t->n[TAMIS_SEGMENT_GROWING]), "bare",
        json_count(t->n[TAMIS_SEGMENT_BARE]), "packs", json_count(t->n_packs),
        "lost_packs", json_count(t->lost_packs), "unreadable_packs",
        json_count(t->unread_packs), "packed", json_count(t->n_packed), "dead_columns",
        json_count(t->n_dead), "pack_allocated_bytes", json_count(t->pack_bytes),
        "over_target", json_count(t->over_target), "unreadable",
        json_count(t->unreadable), "lost", json_count(t->lost), "unusable_lists",
        json_count(t->unusable_lists), "unmapped", json_count(t->unmapped), "keys",
        json_count(t->keys), "filter_bytes", json_count(t->bytes),
        "filter_allocated_bytes", json_count(t->allocated), "catalog_bytes",
        json_count(info->catalog_bytes), "catalog_file_bytes",
        json_count(t->catalog_file));
}

void print_totals_text(const struct totals *t, const struct tamis_store_info *info,
                       const char *path)
{
    char *uuid = hex(info->uuid, sizeof(info->uuid));
    printf("store      %s%s", PATH(path), info->read_only ? ", read-only" : "");
    if (!info->complete)
        print_tinted(TINT_DOUBT, ", INCOMPLETE: segments may be missing");
    printf("\nuuid       %s, made %s\n", uuid, TIME(info->created));
    printf("hash       %u, seed %016llx\n", info->domain.hash_id,
           LLU(info->domain.seed));
    printf("defaults   error %s, growing by %g, tightening %g, from %llu keys\n",
           PERCENT(info->growth.error), info->growth.factor, info->growth.tightening,
           LLU(info->growth.first_capacity));
    printf("segments   %llu: %llu sealed, %llu growing, %llu without a filter\n",
           LLU(info->n_segments), LLU(t->n[TAMIS_SEGMENT_SEALED]),
           LLU(t->n[TAMIS_SEGMENT_GROWING]), LLU(t->n[TAMIS_SEGMENT_BARE]));
    if (t->n_packs + t->lost_packs + t->unread_packs > 0)
        printf("packs      %llu: %llu segments, %llu dead columns, %s\n",
               LLU(t->n_packs), LLU(t->n_packed), LLU(t->n_dead), SIZE(t->pack_bytes));
    if (t->lost_packs + t->unread_packs > 0)
        print_tinted(TINT_BAD,
                     "           %llu more missing or damaged, %llu unreadable\n",
                     LLU(t->lost_packs), LLU(t->unread_packs));
    if (t->over_target > 0 || t->unreadable > 0 || t->lost > 0)
        print_tinted(TINT_BAD,
                     "           %llu over their target error, %llu unreadable, %llu "
                     "lost\n",
                     LLU(t->over_target), LLU(t->unreadable), LLU(t->lost));
    if (t->unusable_lists > 0)
        print_tinted(TINT_BAD, "           %s unusable\n",
                     COUNTED(t->unusable_lists, "list"));
    if (t->unmapped > 0)
        printf("           %llu more than a process maps: read at each question, until "
               "they are packed\n",
               LLU(t->unmapped));
    printf("keys       %llu\n", LLU(t->keys));
    printf("filters    %s allocated", SIZE(t->allocated));
    if (t->allocated != t->bytes)
        printf(", %s long", SIZE(t->bytes));
    if (t->keys > 0)
        printf(", %.2f bits per key", 8 * (double)t->allocated / (double)t->keys);
    printf("\ncatalog    %s in use, %s on disk\n", SIZE(info->catalog_bytes),
           SIZE(t->catalog_file));
    free(uuid);
}

int complain_totals(const struct totals *t, const char *path)
{
    char lost[64] = "", unread[64] = "", lists[64] = "";
    if (t->status == EXIT_DONE)
        return EXIT_DONE;
    if (t->lost_packs > 0)
        snprintf(lost, sizeof(lost), ", %s missing or damaged",
                 COUNTED(t->lost_packs, "pack"));
    if (t->unread_packs > 0)
        snprintf(unread, sizeof(unread), ", %s unreadable",
                 COUNTED(t->unread_packs, "pack"));
    if (t->unusable_lists > 0)
        snprintf(lists, sizeof(lists), ", %s unusable",
                 COUNTED(t->unusable_lists, "list"));
    return complain(
        t->status, "%s: %s unreadable, %llu lost%s%s%s: 'tamis verify' says which",
        path, COUNTED(t->unreadable, "filter"), LLU(t->lost), lost, unread, lists);
}
