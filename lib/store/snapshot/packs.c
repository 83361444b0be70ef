/* Packs of a snapshot: opened, their tombstones read. packs_ask.c asks them. */
#include "lib/store/snapshot/snapshot.h"
#include "format/pack.h"
#include "lib/error.h"
#include "lib/io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- open packs ---- */

static void pack_release(struct open_pack *p)
{
    if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
        return;
    tamis_filter_close(p->filter);
    free(p);
}

static struct open_pack *pack_hold(struct open_pack *p)
{
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return p;
}

/* A pack with this digest and good bands; an errno or a code. */
static int pack_open(const struct tamis_snapshot *s, const struct pack_place *place,
                     struct open_pack **out)
{
    char name[FILTER_NAME_BYTES], path[STORE_PATH_BYTES];
    struct tamis_filter_options opt = {
        .size = sizeof opt,
        .domain = &s->domain,
        .uuid = place->uuid,
        .table_digest = place->digest,
    };
    int fd;
    struct open_pack *p = calloc(1, sizeof *p);
    if (!p)
        return ENOMEM;
    filter_file_name(place->uuid, name);
    filters_dir_path(s->dir, name, path);
    int rc = place->digest ? io_open_raw(s->dir->fd, name, O_RDONLY, &fd)
                           : TAMIS_ERR_MISMATCH; /* 0 would expect nothing */
    if (!rc) {
        /* Else the header brings megabytes of rows behind it. */
        posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
        rc = filter_open_fd(fd, path, &opt, NULL, &p->filter, NULL);
        close(fd);
    }
    if (!rc)
        p->bands = pack_bands(p->filter, &p->n_bands);
    if (!rc && !p->bands) {
        tamis_filter_close(p->filter);
        rc = TAMIS_ERR_DAMAGED;
    }
    if (rc) {
        free(p);
        return rc;
    }
    atomic_init(&p->refs, 1);
    const struct band *last = &p->bands[p->n_bands - 1];
    p->n_columns = last->first_column + last->n_columns;
    memcpy(p->uuid, place->uuid, UUID_BYTES);
    p->digest = place->digest;
    *out = p;
    return 0;
}

static bool is_pack(const struct open_pack *p, const struct pack_place *place)
{
    return p && p->digest == place->digest &&
           memcmp(p->uuid, place->uuid, UUID_BYTES) == 0;
}

static int pack_get(const struct tamis_snapshot *s,
                    const struct tamis_snapshot *previous,
                    const struct pack_place *place, struct open_pack **out)
{
    for (size_t i = 0; previous && i < previous->packs.n; i++)
        if (is_pack(previous->packs.views[i].pack, place)) {
            *out = pack_hold(previous->packs.views[i].pack);
            return 0;
        }
    return pack_open(s, place, out);
}

/* ---- the packs of a snapshot ---- */

/* Opens the pack of a place, with slots for its columns: COLUMN_DROPPED where a
 * tombstone is. Without good tombstones no column counts. */
static int view_make(struct tamis_snapshot *s, const struct tamis_snapshot *previous,
                     const struct pack_place *place, struct pack_view *v)
{
    uint8_t *file = NULL;
    uint32_t n = 0;
    struct open_pack *pack = NULL;
    *v = (struct pack_view){0};
    int rc = pack_get(s, previous, place, &pack);
    v->by_tombstones = !rc;
    if (!rc)
        rc = dead_load(s->dir->fd, place->uuid, place->digest, &file, &n);
    if (!rc && n != pack->n_columns)
        rc = TAMIS_ERR_DAMAGED;
    if (!rc) {
        v->slots = calloc(n, sizeof *v->slots);
        if (!v->slots)
            rc = ENOMEM;
    }
    for (uint32_t i = 0; v->slots && i < n; i++)
        if (file[DEAD_HEAD_BYTES + i / 8] >> i % 8 & 1)
            v->slots[i] = COLUMN_DROPPED;
    v->failure = rc;
    free(file);
    if (v->slots)
        v->pack = pack;
    else
        pack_release(pack);
    if (rc > 0 && rc != ENOENT && rc != EACCES && !io_not_regular(rc))
        s->packs.transient = true;
    return 0;
}

/* The view of an entry's place; made if it is the first segment of this pack. */
static int view_find(struct tamis_snapshot *s, const struct tamis_snapshot *previous,
                     struct names *known, const struct entry *e, size_t *view)
{
    struct packs *p = &s->packs;
    uint32_t at = names_get(known, entry_pack(e), PLACE_KEY_BYTES);
    if (!at) {
        struct pack_place place = entry_place(e);
        struct pack_view *more = realloc(p->views, (p->n + 1) * sizeof *more);
        if (!more)
            return ENOMEM;
        p->views = more;
        int rc = view_make(s, previous, &place, &p->views[p->n]);
        if (!rc)
            rc = names_set(known, entry_pack(e), PLACE_KEY_BYTES, (uint32_t)p->n + 1);
        p->n++;
        if (rc)
            return rc;
        at = (uint32_t)p->n;
    }
    *view = at - 1;
    return 0;
}

static void give_up_seat(struct packs *p, uint32_t index)
{
    p->seats[index] =
        (struct seat){.column = COLUMN_NOBODYS, .view = p->seats[index].view};
    p->seated[index / 64] &= ~(UINT64_C(1) << index % 64);
    p->n_seated--;
}

/* Gives segment `index` its seat, if its column is there, alive, and no other's. */
static void take_seat(struct packs *p, struct pack_view *v, const struct entry *e,
                      uint32_t index)
{
    const struct pack_place at = entry_place(e), *place = &at;
    p->seats[index] =
        (struct seat){.column = COLUMN_NOBODYS, .view = (uint32_t)(v - p->views)};
    if (!v->pack || place->column >= v->pack->n_columns)
        return;
    uint32_t *slot = &v->slots[place->column];
    if (*slot) {
        if (*slot == COLUMN_DROPPED) {
            p->seats[index].column = COLUMN_DROPPED;
            return;
        }
        if (*slot != COLUMN_NOBODYS)
            give_up_seat(p, *slot - 1);
        *slot = COLUMN_NOBODYS;
        return;
    }
    const struct band *b =
        v->pack->bands +
        band_of_column(v->pack->bands, v->pack->n_bands, place->column);
    *slot = index + 1;
    p->seats[index] = (struct seat){v->pack->filter, b, place->column - b->first_column,
                                    (uint32_t)(v - p->views)};
    p->seated[index / 64] |= UINT64_C(1) << index % 64;
    p->n_seated++;
}

static int seats_alloc(struct packs *p, size_t n)
{
    p->seats = table_new(n, sizeof *p->seats);
    p->seated = calloc(n / 64 + 1, sizeof *p->seated);
    return p->seats && p->seated ? 0 : ENOMEM;
}

/* From here on a slot has an index, or nothing. */
static void forget_tombstones(const struct pack_view *v)
{
    for (uint32_t c = 0; c < v->pack->n_columns; c++)
        if (v->slots[c] >= COLUMN_NOBODYS)
            v->slots[c] = 0;
}

/* Is the stripe a run? Sets the bits of its living columns. */
static void look_for_run(struct stripe *t, uint64_t *living)
{
    t->is_run = true;
    t->least = UINT32_MAX;
    for (uint32_t c = 0, any = 0; c < t->rows.n_columns; c++) {
        if (!t->slots[c])
            continue;
        uint32_t index = t->slots[c] - 1;
        if (!any++)
            t->first = index - c; /* wraps: then it is none */
        t->is_run &= index == t->first + c && t->first < COLUMN_NOBODYS / 2;
        t->least = index < t->least ? index : t->least;
        t->last = index > t->last ? index : t->last;
        living[c / 64] |= UINT64_C(1) << c % 64;
    }
}

/* Words of `living` of all bands. */
static size_t count_words(const struct packs *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++)
        for (uint32_t b = 0; p->views[i].pack && b < p->views[i].pack->n_bands; b++)
            n += pack_row_words(&p->views[i].pack->bands[b]);
    return n;
}

static void add_stripe(struct packs *p, const struct pack_view *v,
                       const struct band *band, uint64_t *living)
{
    struct stripe *t = &p->stripes[p->n_stripes];
    *t = (struct stripe){
        .rows = pack_band_rows(v->pack->filter, band),
        .living = living,
        .slots = v->slots + band->first_column,
        .n_words = pack_row_words(band),
    };
    look_for_run(t, living);
    if (t->least > t->last)
        return;
    p->n_stripes++;
    p->n_lines += band->geometry.words * ((band->row_bytes + 63) / 64);
}

/* After all seats of n segments are taken. */
static int settle(struct packs *p, size_t n)
{
    size_t n_bands = 0;
    for (size_t i = 0; i < p->n; i++)
        n_bands += p->views[i].pack ? p->views[i].pack->n_bands : 0;
    p->stripes = calloc(n_bands + 1, sizeof *p->stripes);
    p->living = calloc(count_words(p) + 1, sizeof *p->living);
    if (!p->stripes || !p->living)
        return ENOMEM;
    uint64_t *living = p->living;
    for (size_t i = 0; i < p->n; i++) {
        const struct pack_view *v = &p->views[i];
        for (uint32_t b = 0; v->pack && b < v->pack->n_bands; b++) {
            if (b == 0)
                forget_tombstones(v);
            add_stripe(p, v, &v->pack->bands[b], living);
            living += pack_row_words(&v->pack->bands[b]);
        }
    }
    const struct stripe *one = p->stripes;
    /* A run of all segments begins with the first one. */
    p->whole = p->n_stripes == 1 && one->is_run && one->n_words >= (n + 63) / 64 &&
               p->n_seated == n;
    return 0;
}

int packs_make(struct tamis_snapshot *s, const struct tamis_snapshot *previous)
{
    struct names known = {0};
    const struct entry *last = NULL; /* neighbours are mostly in one pack */
    size_t view = 0;
    int rc = 0;
    for (size_t i = 0; i < s->n && !rc; i++) {
        const struct entry *e = s->entries[i];
        if (!e->packed)
            continue;
        if (!last)
            rc = seats_alloc(&s->packs, s->n);
        if (!rc &&
            (!last || memcmp(entry_pack(e), entry_pack(last), PLACE_KEY_BYTES) != 0))
            rc = view_find(s, previous, &known, e, &view);
        if (!rc)
            take_seat(&s->packs, &s->packs.views[view], e, (uint32_t)i);
        last = e;
    }
    names_clear(&known);
    return rc ? rc : settle(&s->packs, s->n);
}

int packs_failure(const struct packs *p, size_t index)
{
    const struct pack_view *v = p->seats ? &p->views[p->seats[index].view] : NULL;
    return v && !v->pack ? v->failure : TAMIS_ERR_NO_SEGMENT;
}

int packs_lost(const struct tamis_snapshot *s, size_t index, struct tamis_diag *diag)
{
    char name[FILTER_NAME_BYTES], path[STORE_PATH_BYTES];
    const struct seat *seat = &s->packs.seats[index];
    const struct pack_view *v = &s->packs.views[seat->view];
    filter_file_name(entry_pack(s->entries[index]), name);
    filters_dir_path(s->dir, name, path);
    const char *file =
        v->by_tombstones ? "the .dead file beside this pack" : "this pack";
    if (v->pack)
        return diag_fail(diag, ENOENT, path,
                         seat->column == COLUMN_DROPPED
                             ? "the segment was dropped from this pack: the catalog is "
                               "older than that"
                             : "no column of this pack is known to be the segment's");
    if (v->failure == ENOENT)
        return diag_fail(diag, ENOENT, path, "%s is missing", file);
    int rc = diag_open(diag, v->failure, path, file);
    if (diag && v->failure > 0)
        diag->os_errno = v->failure;
    return rc;
}

void packs_free(struct packs *p)
{
    for (size_t i = 0; i < p->n; i++) {
        pack_release(p->views[i].pack);
        free(p->views[i].slots);
    }
    free(p->views);
    free(p->stripes);
    free(p->living);
    free(p->seats);
    free(p->seated);
    *p = (struct packs){0};
}
