/* The file of a list: pages of hashes while values come in, then digests, the table of
 * first values, and the header last. How many pages there will be is known at the end
 * only, so digests and first values wait in memory. */
#include "lib/list/list.h"
#include "format/integrity.h"
#include "lib/filter/header.h"
#include "lib/io/io.h"
#include "lib/kernel/list/list_spot.h"
#include "lib/page/stage_writer.h"

#include <stdlib.h>

enum {
    /* Pieces end at multiples of it in the file, as in stage_writer.c: then the page
     * cache maps each by one entry. */
    PIECE_BYTES = 2 << 20,
    MANY_VALUES = 16 * LIST_PAGE_MAX_HASHES,
};

struct list_writer {
    const struct list_kernel *kernel;
    struct identity identity;
    struct commit commit;
    uint32_t hash_bits;
    uint64_t n_keys;
    int dir, fd;
    char *name;
    char temp[IO_TEMP_NAME_BYTES];
    int failed; /* the first error, for good */
    uint64_t n_hashes, last;
    uint64_t n_pages, capacity; /* pages that there is memory for */
    uint8_t *digests;           /* level 1 of the tree */
    struct le64 *firsts;
    size_t n_values; /* that are in no page yet */
    uint64_t values[MANY_VALUES];
    size_t in_piece;
    uint8_t piece[PIECE_BYTES];
};

/* ---- begin ---- */

static void list_describe(struct list_writer *w, const struct list_options *o,
                          const uint8_t uuid[UUID_BYTES])
{
    struct identity *id = &w->identity;
    struct commit *c = &w->commit;
    header_begin(KIND_LIST, &o->domain, o->who, uuid, id, c);
    if (o->set_id)
        memcpy(id->set_id, o->set_id, UUID_BYTES);
    else
        io_calls.random(id->set_id, sizeof id->set_id);
    c->watermark = o->watermark;
    c->n_stages = LIST_STAGES;
    w->hash_bits = o->hash_bits ? o->hash_bits : 64;
    w->n_keys = o->n_keys;
}

static void free_writer(struct list_writer *w)
{
    free(w->name);
    free(w->digests);
    free(w->firsts);
    free(w);
}

int list_writer_create(const struct list_options *o, const uint8_t uuid[UUID_BYTES],
                       int dir, const char *name, struct list_writer **out,
                       struct tamis_diag *diag)
{
    *out = NULL;
    if (o->hash_bits > 64)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "a hash has 64 bits");
    int err = o->who ? identity_check(o->who, diag) : 0;
    if (err)
        return err;
    struct list_writer *w = malloc(sizeof *w);
    if (!w)
        return diag_errno(diag, ENOMEM, NULL, "cannot make a list");
    memset(w, 0, offsetof(struct list_writer, values));
    w->kernel = kernel_list_best();
    w->in_piece = 0;
    w->dir = dir;
    list_describe(w, o, uuid);
    w->name = strdup(name);
    err = w->name ? io_create_temp(dir, name, w->temp, &w->fd) : ENOMEM;
    if (err) {
        free_writer(w);
        return diag_errno(diag, err, name, "cannot create");
    }
    err = io_refuse_network(w->fd);
    if (err) {
        list_writer_abort(w);
        return diag_own(diag, err, name);
    }
    *out = w;
    return 0;
}

void list_writer_abort(struct list_writer *w)
{
    if (!w)
        return;
    io_discard(w->dir, w->temp, w->fd);
    free_writer(w);
}

/* ---- pages ---- */

static int make_room(struct list_writer *w)
{
    if (w->n_pages < w->capacity)
        return 0;
    uint64_t more = w->capacity ? 2 * w->capacity : DIGESTS_PER_PAGE;
    uint8_t *digests = realloc(w->digests, (size_t)more * DIGEST_BYTES);
    if (digests)
        w->digests = digests;
    struct le64 *firsts = realloc(w->firsts, (size_t)more * sizeof *firsts);
    if (firsts)
        w->firsts = firsts;
    if (!digests || !firsts)
        return ENOMEM;
    w->capacity = more;
    return 0;
}

static int write_piece(struct list_writer *w, uint64_t end)
{
    uint64_t at = end - w->in_piece;
    int err = io_write(w->fd, w->piece, w->in_piece, at);
    if (!err)
        io_start_writing(w->fd, at, w->in_piece);
    w->in_piece = 0;
    return err;
}

/* A piece is larger than the cache next to the processor, and a page is filled from
 * both ends: to fetch the next one beforehand saves a fifth of the time that filling
 * takes. */
static void fetch_next(const struct list_writer *w, const uint8_t *page)
{
    enum { LINE_BYTES = 64 };
    if (w->in_piece + 2 * PAGE_BYTES > PIECE_BYTES)
        return;
    for (size_t i = 0; i < PAGE_BYTES; i += LINE_BYTES)
        __builtin_prefetch(page + PAGE_BYTES + i, 1);
}

/* One page of the first of n values; *taken of them. */
static int put_page(struct list_writer *w, const uint64_t *values, size_t n,
                    size_t *taken)
{
    uint8_t *page = w->piece + w->in_piece;
    int err = w->n_pages == LIST_MAX_PAGES ? TAMIS_ERR_TOO_LARGE : make_room(w);
    if (err)
        return err;
    fetch_next(w, page);
    *taken = w->kernel->encode(values, n, page);
    digest_put(w->digests, w->n_pages, page_digest(page));
    w->firsts[w->n_pages++] = le64_of(n ? values[0] : 0);
    w->in_piece += PAGE_BYTES;
    uint64_t end = (w->n_pages + 1) * PAGE_BYTES;
    return end % PIECE_BYTES == 0 ? write_piece(w, end) : 0;
}

/* Writes pages of the values at hand while `least` of them or more are left. */
static int put_pages(struct list_writer *w, size_t least)
{
    size_t done = 0, taken;
    int err = 0;
    while (!err && w->n_values - done >= least) {
        err = put_page(w, w->values + done, w->n_values - done, &taken);
        done += err ? 0 : taken;
    }
    w->n_values -= done;
    memmove(w->values, w->values + done, w->n_values * sizeof w->values[0]);
    return err;
}

/* Copies the values; false if they do not rise from the last one on. */
static bool copy_rising(struct list_writer *w, const uint64_t *values, size_t n)
{
    uint64_t last = values[n - 1];
    bool rises =
        (w->n_hashes == 0 || values[0] > w->last) && w->kernel->rise(values, n);
    memcpy(w->values + w->n_values, values, n * sizeof *values);
    w->last = last;
    w->n_values += n;
    w->n_hashes += n;
    return rises && last <= list_max(w->hash_bits);
}

int list_writer_add(struct list_writer *w, const uint64_t *values, size_t n)
{
    for (size_t some; n && !w->failed; values += some, n -= some) {
        some = MANY_VALUES - w->n_values < n ? MANY_VALUES - w->n_values : n;
        if (!copy_rising(w, values, some))
            w->failed = TAMIS_ERR_RANGE;
        else if (w->n_values == MANY_VALUES)
            w->failed = put_pages(w, LIST_PAGE_MAX_HASHES);
    }
    return w->failed;
}

/* ---- finish ---- */

static void list_lay_out(struct list_writer *w)
{
    struct commit *c = &w->commit;
    struct stage_desc *pages = &c->stages[LIST_PAGES], *index = &c->stages[LIST_INDEX];
    double error = ((double)w->n_hashes + 1) / ((double)list_max(w->hash_bits) + 1);
    w->identity.target_error = error < ERROR_MIN   ? ERROR_MIN
                               : error > ERROR_MAX ? ERROR_MAX
                                                   : error;
    c->keys = w->n_keys ? w->n_keys : w->n_hashes;
    pages->layout = LAYOUT_HASHES;
    pages->length = w->n_pages * PAGE_BYTES;
    pages->capacity = pages->keys = w->n_hashes;
    pages->target_error = w->identity.target_error;
    pages->n_hashes = w->n_hashes;
    pages->hash_bits = (uint8_t)w->hash_bits;
    index->layout = LAYOUT_TABLE;
    index->content = CONTENT_FIRSTS;
    index->n_entries = (uint32_t)w->n_pages;
    index->used_bytes = w->n_pages * LIST_ENTRY_BYTES;
    index->target_error = 1;
    align_up_u64(index->used_bytes, PAGE_BYTES, &index->length);
    uint64_t at = PAGE_BYTES;
    for (size_t i = 0; i < LIST_STAGES; i++)
        at = stage_place(&c->stages[i], at);
    c->committed_bytes = at;
}

static int write_digests(struct list_writer *w)
{
    struct stage_desc *s = &w->commit.stages[LIST_PAGES];
    struct digest_tree t;
    digest_tree_of(w->n_pages, &t);
    s->root = digest_at(w->digests, 0);
    if (!t.n_bytes)
        return 0;
    size_t level_1 = (size_t)w->n_pages * DIGEST_BYTES;
    uint8_t *digests = realloc(w->digests, (size_t)t.n_bytes);
    if (!digests)
        return ENOMEM;
    w->digests = digests;
    memset(digests + level_1, 0, (size_t)t.n_bytes - level_1);
    s->root = digest_tree_finish(&t, digests);
    return io_write(w->fd, digests, (size_t)t.n_bytes, s->digests_offset);
}

static int write_index(struct list_writer *w)
{
    struct stage_desc *s = &w->commit.stages[LIST_INDEX];
    struct stage_writer *to;
    int err = stage_writer_new(w->fd, s, &to);
    if (err)
        return err;
    for (uint64_t done = 0, some; done < w->n_pages && !err; done += some) {
        uint8_t *page = stage_writer_room(to);
        some = w->n_pages - done < LIST_ENTRIES_PER_PAGE ? w->n_pages - done
                                                         : LIST_ENTRIES_PER_PAGE;
        memset(page, 0, PAGE_BYTES);
        memcpy(page, w->firsts + done, (size_t)some * sizeof w->firsts[0]);
        err = stage_writer_put(to);
    }
    s->root = stage_writer_end(to);
    return err;
}

static int list_write_all(struct list_writer *w, struct list_written *out)
{
    size_t none;
    int err = w->failed ? w->failed : put_pages(w, 1);
    if (!err && w->n_hashes == 0)
        err = put_page(w, w->values, 0, &none);
    if (!err)
        err = write_piece(w, (w->n_pages + 1) * PAGE_BYTES);
    if (err)
        return err;
    list_lay_out(w);
    err = write_digests(w);
    if (!err)
        err = write_index(w);
    if (err)
        return err;
    *out = (struct list_written){w->n_hashes, w->commit.committed_bytes,
                                 commit_table_digest(&w->commit)};
    return header_write(w->fd, &w->identity, &w->commit);
}

static int cannot_write(const struct list_writer *w, int err, struct tamis_diag *diag)
{
    if (err == TAMIS_ERR_RANGE)
        return diag_fail(diag, err, w->name,
                         "values of a list rise, and have %u bits at most",
                         w->hash_bits);
    return diag_made(diag, err, w->name, "cannot write");
}

int list_writer_finish(struct list_writer *w, bool sync_dir, struct list_written *out,
                       struct tamis_diag *diag)
{
    *out = (struct list_written){0};
    int err =
        io_finish(list_write_all(w, out), w->dir, w->temp, w->name, w->fd, sync_dir);
    if (err) {
        *out = (struct list_written){0};
        err = cannot_write(w, err, diag);
    }
    free_writer(w);
    return err;
}
