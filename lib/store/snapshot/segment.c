/* Segments of a snapshot: what is known of them, and finding one by name. */
#include "lib/store/snapshot/snapshot.h"

/* ---- describing ---- */

struct tamis_snapshot_info tamis_snapshot_info(const struct tamis_snapshot *snapshot)
{
    struct tamis_snapshot_info info = {.complete = 0};
    if (snapshot) {
        info.domain = snapshot->domain;
        info.n_segments = snapshot->n_segments;
        info.n_numbers = snapshot->n;
        info.n_packs = snapshot->shared.n;
        info.complete = snapshot->complete;
    }
    return info;
}

int tamis_snapshot_next(const struct tamis_snapshot *snapshot, size_t *index)
{
    return snapshot && (*index < snapshot->n_loose || shared_next(snapshot, index));
}

static void file_of(const uint8_t *uuid, struct tamis_segment_info *info)
{
    char name[FILTER_NAME_BYTES];
    filter_file_name(uuid, name);
    snprintf(info->file, sizeof info->file, "filters/%s", name);
}

static void info_of_record(const struct entry *e, struct tamis_segment_info *info)
{
    const struct record_disk *r = entry_record(e);
    info->binding = r->binding;
    info->binding_bytes = r->binding_bytes;
    if (e->has_range) {
        struct piece first = entry_first(e), last = entry_last(e);
        info->first_key = first.at;
        info->first_key_bytes = first.n;
        info->last_key = last.at;
        info->last_key_bytes = last.n;
    }
    memcpy(info->uuid, r->uuid, UUID_BYTES);
    info->rank = e->rank;
    info->keys = le64_get(r->keys);
    info->file_bytes = le64_get(r->file_bytes);
    info->watermark = e->watermark;
    info->generation = le64_get(r->generation);
    info->created = le64_get(r->created);
    info->error = le64_get_f64(r->target_error);
    if (e->state != RECORD_NO_FILTER && !e->borrowed)
        file_of(e->elsewhere ? entry_place(e).uuid : r->uuid, info);
}

int tamis_snapshot_segment(const struct tamis_snapshot *snapshot, size_t index,
                           struct tamis_segment_info *info)
{
    if (!info)
        return TAMIS_ERR_RANGE;
    memset(info, 0, sizeof *info);
    if (!snapshot || index >= snapshot->n)
        return TAMIS_ERR_RANGE;
    const struct entry *e = loose_entry(snapshot, index);
    if (e) {
        info->name = e->bytes;
        info->name_bytes = e->name_bytes;
        info->state = (enum tamis_segment_state)e->state;
        if (e->state)
            info_of_record(e, info);
    }
    if (e && !e->elsewhere)
        return 0;
    struct seat seat = segment_seat(snapshot, index);
    if (!e && !seat.view)
        return TAMIS_ERR_NO_SEGMENT;
    if (!e) {
        file_of(seat.view->uuid, info);
        seat_info(&seat, info);
    }
    info->file_bytes = seat.band ? band_bytes(seat.band) / seat.band->n_columns : 0;
    return 0;
}

const char *segment_text(char text[NAME_TEXT_BYTES], const struct tamis_snapshot *s,
                         size_t index)
{
    struct tamis_segment_info info;
    tamis_snapshot_segment(s, index, &info);
    return name_text(text, info.name, info.name_bytes);
}

int segment_filter(struct tamis_snapshot *snapshot, size_t index, entry_filter_fn *open,
                   struct tamis_filter **out, struct tamis_diag *diag)
{
    diag_clear(diag);
    if (out)
        *out = NULL;
    if (!out || !snapshot || index >= snapshot->n)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "no segment of that number");
    struct entry *e = loose_entry(snapshot, index);
    if (!e || e->elsewhere)
        return shared_copy(snapshot, index, out, diag);
    int rc = open(snapshot, e, out, diag);
    if (!rc && e->borrowed)
        filter_lend(*out);
    return rc;
}

int tamis_snapshot_filter(struct tamis_snapshot *snapshot, size_t index,
                          struct tamis_filter **out, struct tamis_diag *diag)
{
    return segment_filter(snapshot, index, entry_look, out, diag);
}

/* ---- lists: they answer no probe, so none is kept open ---- */

int filters_open_list(const struct filters_dir *d, const struct tamis_domain *domain,
                      const uint8_t uuid[UUID_BYTES], uint64_t digest,
                      struct tamis_filter **out, struct tamis_diag *diag)
{
    char name[FILTER_NAME_BYTES], path[STORE_PATH_BYTES];
    struct tamis_filter_options opt = {
        .size = sizeof opt, .domain = domain, .uuid = uuid, .table_digest = digest};
    int fd;
    filter_file_name(uuid, name);
    filters_dir_path(d, name, path);
    int rc = io_open_beneath(d->fd, name, O_RDONLY, &fd);
    if (rc)
        return diag_open(diag, rc, path, "opening the list");
    rc = filter_open_fd(fd, path, &opt, NULL, out, diag);
    close(fd);
    if (rc || filter_list(*out))
        return rc;
    tamis_filter_close(*out);
    *out = NULL;
    return diag_fail(diag, TAMIS_ERR_MISMATCH, path, "a filter, not a list of hashes");
}

bool segment_list(const struct tamis_snapshot *s, size_t index,
                  uint8_t uuid[UUID_BYTES], uint64_t *digest)
{
    const struct entry *e = loose_entry(s, index);
    const struct part_disk *list =
        e && e->state ? record_part(entry_record(e), PART_LIST) : NULL;
    if (!list)
        return false;
    memcpy(uuid, list->uuid, UUID_BYTES);
    *digest = le64_get(list->table_digest);
    return true;
}

int tamis_snapshot_list(const struct tamis_snapshot *snapshot, size_t index,
                        struct tamis_filter **out, struct tamis_diag *diag)
{
    char text[NAME_TEXT_BYTES];
    uint8_t uuid[UUID_BYTES];
    uint64_t digest;
    diag_clear(diag);
    if (out)
        *out = NULL;
    if (!out || !snapshot || index >= snapshot->n || !snapshot->dir)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "no segment of that number");
    if (segment_list(snapshot, index, uuid, &digest))
        return filters_open_list(snapshot->dir, &snapshot->domain, uuid, digest, out,
                                 diag);
    return diag_fail(diag, TAMIS_ERR_NO_SEGMENT, snapshot->dir->path,
                     "segment '%s' has no list of its hashes: build it with one",
                     segment_text(text, snapshot, index));
}

/* ---- finding ---- */

/* The first segment of a catalog's snapshot, by name, that is not before this name. */
static size_t first_from(const struct tamis_snapshot *s, struct piece name)
{
    size_t from = 0, to = s->n_loose;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (name_compare(entry_name(s->named[middle]), name) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static bool is_named(const struct tamis_snapshot *s, size_t at, struct piece name)
{
    return at < s->n_loose && name_compare(entry_name(s->named[at]), name) == 0;
}

/* Among the loose segments. */
static uint32_t loose_ordinal(const struct tamis_snapshot *s, struct piece name,
                              size_t *near)
{
    if (!s->named)
        return names_get(&s->by_name, name.at, name.n);
    if (!name.at || !name.n)
        return 0;
    size_t at = near ? *near : 0;
    if (!near || !is_named(s, at, name))
        at = first_from(s, name);
    if (!is_named(s, at, name))
        return 0;
    if (near)
        *near = at + 1;
    return s->ordinals ? s->ordinals[at] : (uint32_t)at + 1;
}

int snapshot_ordinal(const struct tamis_snapshot *s, const void *name,
                     size_t name_bytes, size_t *near, uint32_t *ordinal,
                     enum tamis_reason *why)
{
    *why = TAMIS_UNKNOWN_SEGMENT;
    *ordinal = loose_ordinal(s, (struct piece){name, name_bytes}, near);
    if (*ordinal)
        return 0;
    return name ? shared_ordinal(s, name, name_bytes, ordinal, why)
                : TAMIS_ERR_NO_SEGMENT;
}

/* ERR_MISMATCH: the segment has another binding. ERR_DAMAGED: it cannot be read. */
static int check_binding(const struct tamis_snapshot *s, size_t index,
                         const struct tamis_identity *wanted)
{
    const struct entry *e = loose_entry(s, index);
    struct piece its;
    if (e) {
        its = (struct piece){entry_record(e)->binding, entry_record(e)->binding_bytes};
    } else {
        struct tamis_segment_info info = {.state = 0};
        struct seat seat = segment_seat(s, index);
        seat_info(&seat, &info);
        if (!info.state)
            return TAMIS_ERR_DAMAGED;
        its = (struct piece){info.binding, info.binding_bytes};
    }
    return its.n == wanted->binding_bytes &&
                   (!its.n || memcmp(its.at, wanted->binding, its.n) == 0)
               ? 0
               : TAMIS_ERR_MISMATCH;
}

/* Several filters of one name, in a snapshot of filters: the binding must tell. */
static uint32_t find_among_twins(const struct tamis_snapshot *s,
                                 const struct tamis_identity *wanted)
{
    struct piece name = {wanted->name, wanted->name_bytes};
    uint32_t ordinal = 0;
    for (size_t i = 0; wanted->binding && i < s->n_loose; i++) {
        if (name_compare(entry_name(s->entries[i]), name) != 0 ||
            check_binding(s, i, wanted) != 0)
            continue;
        if (ordinal)
            return 0;
        ordinal = (uint32_t)i + 1;
    }
    return ordinal;
}

/* A list that was made of files alone may call a filter a segment's that never was: an
 * edit's that was killed before its commit. Until the engine has confirmed the list,
 * only a binding says that the filter is of the file that is meant (SPEC.md section
 * 13.10, "uncommitted edit"); a binding of no bytes says nothing. */
static bool is_unproven(const struct tamis_snapshot *s, const struct entry *e,
                        size_t binding_bytes)
{
    return !s->complete && !binding_bytes && !(e && e->state == RECORD_NO_FILTER);
}

static int find_target(const struct tamis_snapshot *snapshot,
                       const struct tamis_identity *wanted, uint64_t min_watermark,
                       size_t *near, struct tamis_target *target)
{
    *target = (struct tamis_target){.refusal = TAMIS_UNKNOWN_SEGMENT,
                                    .min_watermark = min_watermark};
    uint32_t ordinal;
    enum tamis_reason why = TAMIS_UNKNOWN_SEGMENT;
    int rc = snapshot ? snapshot_ordinal(snapshot, wanted->name, wanted->name_bytes,
                                         near, &ordinal, &why)
                      : TAMIS_ERR_NO_SEGMENT;
    target->refusal = why; /* a file that cannot tell may have it */
    if (rc)
        return rc;
    if (ordinal == NAME_TWICE)
        ordinal = find_among_twins(snapshot, wanted);
    if (!ordinal) {
        target->refusal = TAMIS_MISMATCH;
        return TAMIS_ERR_MISMATCH;
    }
    target->ordinal = ordinal;
    target->snapshot = snapshot->serial;
    target->refusal = 0;
    const struct entry *e = loose_entry(snapshot, ordinal - 1);
    if (e && !e->state) {
        target->refusal = TAMIS_UNREADABLE;
        return e->refusal;
    }
    if (wanted->binding) {
        rc = check_binding(snapshot, ordinal - 1, wanted);
        target->refusal = rc == TAMIS_ERR_DAMAGED ? TAMIS_DAMAGED
                          : rc                    ? TAMIS_MISMATCH
                                                  : 0;
    }
    if (!rc && is_unproven(snapshot, e, wanted->binding ? wanted->binding_bytes : 0))
        target->refusal = TAMIS_MISMATCH;
    return rc;
}

int tamis_snapshot_find(const struct tamis_snapshot *snapshot, const void *name,
                        size_t name_bytes, const void *binding, size_t binding_bytes,
                        uint64_t min_watermark, struct tamis_target *target)
{
    const struct tamis_identity wanted = {name, name_bytes, binding, binding_bytes,
                                          NULL};
    return target ? find_target(snapshot, &wanted, min_watermark, NULL, target)
                  : TAMIS_ERR_RANGE;
}

size_t tamis_snapshot_find_many(const struct tamis_snapshot *snapshot,
                                const struct tamis_identity *wanted, size_t n,
                                uint64_t min_watermark, struct tamis_target *targets,
                                int *errors)
{
    size_t near = 0, n_found = 0;
    for (size_t i = 0; i < n; i++) {
        int rc = find_target(snapshot, &wanted[i], min_watermark, &near, &targets[i]);
        if (errors)
            errors[i] = rc;
        n_found += !rc;
    }
    return n_found;
}

/* *shift: how far from its old number the last one is. Most of the next are as far. */
static void carry_target(const struct tamis_snapshot *from,
                         const struct tamis_snapshot *to, struct tamis_target *t,
                         size_t *shift)
{
    size_t old = t->ordinal - 1U, now = old + *shift;
    struct tamis_segment_info info;
    bool loose = is_loose(from, old);
    if (loose ? now >= to->n_loose || to->entries[now] != from->entries[old]
              : !shared_same(from, old, to, &now)) {
        tamis_snapshot_segment(from, old, &info);
        tamis_snapshot_find(to, info.name, info.name_bytes,
                            info.binding ? info.binding : (const void *)"",
                            info.binding_bytes, t->min_watermark, t);
        now = t->ordinal - 1U;
    }
    if (loose)
        *shift = now - old;
    t->ordinal = (uint32_t)now + 1;
    t->snapshot = to->serial;
}

size_t tamis_snapshot_carry(const struct tamis_snapshot *from,
                            const struct tamis_snapshot *to,
                            struct tamis_target *targets, size_t n)
{
    size_t shift = 0, n_carried = 0;
    bool alike = from && to && from->ledger == to->ledger && to->complete;
    for (size_t i = 0; i < n; i++) {
        struct tamis_target *t = &targets[i];
        if (alike && target_here(from, t))
            carry_target(from, to, t, &shift);
        else if (!t->refusal)
            t->refusal = TAMIS_MISMATCH;
        n_carried += !t->refusal;
    }
    return n_carried;
}

struct tamis_target tamis_snapshot_target(const struct tamis_snapshot *snapshot,
                                          size_t index)
{
    if (!snapshot || index >= snapshot->n)
        return (struct tamis_target){.refusal = TAMIS_UNKNOWN_SEGMENT};
    struct tamis_target target = {.ordinal = (uint32_t)index + 1,
                                  .snapshot = snapshot->serial};
    const struct entry *e = loose_entry(snapshot, index);
    if (!e && !seat_taken(snapshot, index))
        target.refusal = TAMIS_UNKNOWN_SEGMENT;
    else if ((!e || e->state) && is_unproven(snapshot, e, 0))
        target.refusal = TAMIS_MISMATCH;
    return target;
}
