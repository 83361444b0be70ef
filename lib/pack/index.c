/* The table of columns of a pack, as an index (SPEC.md §17.2):
 *
 *     order_names()    sources, in the order of their names
 *     put_entries()    pages of entries
 *     put_level() ...  pages of the names of these pages, and of those
 *
 * It is made twice: to know its length, and when the rows are written and all facts are
 * known. So no page of it waits in memory. A column takes 12 bytes, and 8 more while
 * names are sorted. */
#include "lib/pack/inside.h"
#include "lib/page/stage_writer.h"
#include "lib/sort/sort.h"

/* ---- sources by name ---- */

/* Some bytes of the name, zeros behind its end, and the source's number: as hashes are,
 * so that they can be sorted in place. */
enum { KEY_BYTES = 5, SOURCE_MASK = (1 << 8 * (8 - KEY_BYTES)) - 1 };
_Static_assert(PACK_MAX_COLUMNS - 1 <= SOURCE_MASK, "a source's number has its place");

/* Sets the keys to bytes from `depth` on, and *common to the bytes that all names begin
 * with. */
static int key_names(struct pack_index *x, uint64_t *k, uint32_t n, uint32_t depth,
                     uint32_t *common)
{
    const struct pack_job *job = x->job;
    *common = NAME_MAX_BYTES;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t source = k[i] & SOURCE_MASK;
        struct facts *to = i ? &x->now : &x->before;
        int err = job->facts(job->ctx, (uint32_t)source, to);
        if (err)
            return err;
        struct piece name = column_name(to), first = column_name(&x->before);
        uint32_t same = depth;
        while (same < *common && same < name.n && same < first.n &&
               name.at[same] == first.at[same])
            same++;
        *common = same;
        k[i] = 0;
        for (uint32_t at = depth; at < depth + KEY_BYTES; at++)
            k[i] = k[i] << 8 | (at < name.n ? name.at[at] : 0);
        k[i] = k[i] << 8 * (8 - KEY_BYTES) | source;
    }
    return 0;
}

/* Orders names by KEY_BYTES bytes from `depth` on, and equal ones by their next bytes.
 * Facts may be in a file, so bytes that all names have are skipped. */
static int order_names(struct pack_index *x, uint64_t *k, uint32_t n, uint32_t depth)
{
    uint32_t common;
    int err = key_names(x, k, n, depth, &common);
    if (!err && common >= depth + KEY_BYTES) {
        depth = common;
        err = key_names(x, k, n, depth, &common);
    }
    if (err)
        return err;
    sort_hashes(k, n);
    for (uint32_t i = 0, end; i < n && !err; i = end) {
        for (end = i + 1; end < n && (k[end] | SOURCE_MASK) == (k[i] | SOURCE_MASK);
             end++)
            ;
        if (end - i > 1 && (k[i] >> 8 * (8 - KEY_BYTES) & 0xff))
            err = order_names(x, k + i, end - i, depth + KEY_BYTES);
    }
    return err;
}

/* ---- pages ---- */

static int end_page(struct pack_index *x)
{
    x->n_pages++;
    if (!x->to)
        return 0;
    memcpy(stage_writer_room(x->to), x->page, PAGE_BYTES);
    return stage_writer_put(x->to);
}

/* Into the next page, if this one has no room. `child`: the page that it names. */
static int put_item(struct pack_index *x, const void *item, size_t n_bytes,
                    uint32_t level, uint32_t child)
{
    int err = 0;
    x->item = index_add(x->page, item, n_bytes);
    if (x->item < 0) {
        err = end_page(x);
        index_begin(x->page, level, child);
        x->item = index_add(x->page, item, n_bytes);
    }
    return err;
}

/* Sets *n to the number of pages. */
static int put_entries(struct pack_index *x, uint32_t *n)
{
    const struct pack_job *job = x->job;
    int err = 0;
    *n = 0;
    x->keys = 0;
    x->target_error = ERROR_MIN;
    index_begin(x->page, 0, 0);
    for (uint32_t i = 0; i < job->plan->n_columns && !err; i++) {
        const struct pack_source *s = &job->sources[x->order[i]];
        const struct pack_plan *p = job->plan;
        uint32_t column = s->column,
                 band = band_of_column(p->bands, p->n_bands, column);
        if ((err = job->facts(job->ctx, x->order[i], &x->now)) != 0)
            return err;
        x->now.disk.own_blocks = le64_of(pack_own_blocks(s, &p->bands[band]));
        x->now.disk.column = le32_of(column);
        double error = le64_get_f64(x->now.disk.target_error);
        x->keys += le64_get(x->now.disk.keys);
        x->target_error = error > x->target_error ? error : x->target_error;
        err = put_item(x, &x->now, column_bytes(&x->now.disk), 0, 0);
        x->places[column] = le32_of(x->n_pages << ITEM_BITS | (uint32_t)x->item);
        if (x->item == 0)
            x->firsts[(*n)++] = i;
    }
    return err ? err : end_page(x);
}

/* The shortest name that tells entry i from the one before it. */
static int name_of_page(struct pack_index *x, uint32_t i, size_t *n_bytes)
{
    const struct pack_job *job = x->job;
    int err = job->facts(job->ctx, x->order[i], &x->now);
    if (!err)
        err = job->facts(job->ctx, x->order[i - 1], &x->before);
    if (!err)
        *n_bytes = name_separator(column_name(&x->before), column_name(&x->now));
    return err;
}

/* The level above the *n pages before; *n becomes the number of its own. */
static int put_level(struct pack_index *x, uint32_t level, uint32_t *n)
{
    uint32_t n_below = *n, below = x->n_pages - n_below;
    int err = 0;
    *n = 0;
    index_begin(x->page, level, below);
    for (uint32_t i = 0; i < n_below && !err; i++) {
        uint32_t first = x->firsts[i];
        size_t n_bytes = 0;
        if (i && (err = name_of_page(x, first, &n_bytes)) != 0)
            return err;
        err = put_item(x, x->now.strings, n_bytes, level, below + i);
        if (x->item == 0)
            x->firsts[(*n)++] = first;
    }
    return err ? err : end_page(x);
}

static int put_levels(struct pack_index *x)
{
    uint32_t n, level = 0;
    x->n_pages = 0;
    int err = put_entries(x, &n);
    while (!err && n > 1)
        err = put_level(x, ++level, &n);
    return err;
}

int pack_index_new(struct pack_job *job)
{
    uint32_t n = job->plan->n_columns;
    if (job->index)
        return 0;
    struct pack_index *x = job->index = calloc(1, sizeof *x);
    if (x) {
        x->job = job;
        x->order = malloc(n * sizeof *x->order);
        x->firsts = malloc(n * sizeof *x->firsts);
        x->places = malloc(n * sizeof *x->places);
    }
    uint64_t *k = malloc(n * sizeof *k); /* last: its memory is the next one's */
    if (!k || !x || !x->order || !x->firsts || !x->places) {
        free(k);
        pack_index_free(job);
        return ENOMEM;
    }
    for (uint32_t i = 0; i < n; i++)
        k[i] = i;
    int err = order_names(x, k, n, 0);
    for (uint32_t i = 0; i < n; i++)
        x->order[i] = (uint32_t)(k[i] & SOURCE_MASK);
    free(k);
    if (!err)
        err = put_levels(x);
    if (err)
        pack_index_free(job);
    return err;
}

int pack_index_write(struct pack_index *x, struct stage_writer *to)
{
    uint32_t planned = x->n_pages;
    x->to = to;
    int err = put_levels(x);
    return err || x->n_pages == planned ? err : EIO;
}

void pack_index_free(struct pack_job *job)
{
    struct pack_index *x = job->index;
    job->index = NULL;
    if (!x)
        return;
    free(x->order);
    free(x->firsts);
    free(x->places);
    free(x);
}
