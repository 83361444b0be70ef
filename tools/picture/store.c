/* The picture of a store: a column for each segment that has a filter, by
 * rank, and the largest of a rank first. Segments of a rank that would be too narrow to
 * be seen share columns, so a large store takes no more memory. For a filter that does
 * not open only the catalog's figures are shown. */
#include "inside.h"

static void look_inside(struct tamis_snapshot *snapshot, size_t i, struct column *c)
{
    struct tamis_filter_info info;
    struct tamis_filter *filter;
    if (tamis_snapshot_filter(snapshot, i, &filter, NULL) != 0 ||
        tamis_filter_info(filter, &info, NULL) != 0) {
        c->n_unreadable = 1;
        tamis_filter_close(filter);
        return;
    }
    c->keys = info.keys;
    c->length = info.file_bytes;
    filter_bits(&info, &c->bits, &c->bits_set);
    c->error = info.expected_error;
    c->target = info.growth.error;
    c->n_over = over_target(&info);
    c->lowest = c->highest = c->target > 0 ? c->error / c->target : 0;
    tamis_filter_close(filter);
}

/* Columns of several segments follow the others of their rank, the narrowest first:
 * this one takes in the segments before it. */
static int compare(const void *left, const void *right)
{
    const struct column *a = left, *b = right;
    int order = (a->bytes < b->bytes) - (a->bytes > b->bytes);
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if ((a->n > 1) != (b->n > 1))
        return a->n > 1 ? 1 : -1;
    return a->n > 1 ? -order : order;
}

static void join(struct column *to, const struct column *c)
{
    bool known = c->n_unreadable < c->n, was_known = to->n_unreadable < to->n;
    if (known && (!was_known || c->lowest < to->lowest))
        to->lowest = c->lowest;
    if (known && (!was_known || c->highest > to->highest))
        to->highest = c->highest;
    to->created = (to->created * (double)to->n + c->created * (double)c->n) /
                  (double)(to->n + c->n);
    to->n += c->n;
    to->last_rank = c->last_rank > to->last_rank ? c->last_rank : to->last_rank;
    to->n_unreadable += c->n_unreadable;
    to->n_over += c->n_over;
    to->bytes += c->bytes;
    to->length += c->length;
    to->keys += c->keys;
    to->bits += c->bits;
    to->bits_set += c->bits_set;
}

/* The last column of a rank, if it is narrow, goes into the one before it. */
static void end_rank(struct picture *p, double least, size_t first, size_t *n)
{
    struct column *last = &p->columns[*n - 1];
    if (*n - first > 1 && (double)last->bytes < least && last[-1].n > 1) {
        join(last - 1, last);
        (*n)--;
    }
}

/* If there are too many ranks to be seen, neighbouring ranks share a column, up to half
 * a pixel. Any two columns are wider than that together. */
_Static_assert(MAX_COLUMNS / 2 > 2 * 2 * PICTURE_WIDTH, "so half of them stay free");
static void group_ranks(struct picture *p, double most)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++) {
        const struct column *c = &p->columns[i];
        if (n > 0 && (double)p->columns[n - 1].bytes + (double)c->bytes <= most)
            join(&p->columns[n - 1], c);
        else
            p->columns[n++] = *c;
    }
    p->n = n;
}

/* A column takes in the next segments of its rank until it is wide enough. */
static void group(struct picture *p)
{
    double least = (double)p->all.bytes * COLUMN_WIDTH / PICTURE_WIDTH;
    size_t n = 0, first = 0;
    qsort(p->columns, p->n, sizeof(*p->columns), compare);
    for (size_t i = 0; i < p->n; i++) {
        if (n > 0 && p->columns[n - 1].rank != p->columns[i].rank) {
            end_rank(p, least, first, &n);
            first = n;
        }
        if (n > first && (double)p->columns[n - 1].bytes < least)
            join(&p->columns[n - 1], &p->columns[i]);
        else
            p->columns[n++] = p->columns[i];
    }
    if (n > 0)
        end_rank(p, least, first, &n);
    p->n = n;
    if (n > MAX_COLUMNS / 2)
        group_ranks(p, least / (2 * COLUMN_WIDTH));
}

static void add(struct picture *p, const struct column *c)
{
    if (p->n == MAX_COLUMNS)
        group(p);
    if (p->all.n == 0 || c->created < p->oldest)
        p->oldest = c->created;
    if (p->all.n == 0 || c->created > p->newest)
        p->newest = c->created;
    p->columns[p->n++] = *c;
    join(&p->all, c);
}

static int collect(struct tamis_snapshot *snapshot, const struct options *o,
                   struct picture *p)
{
    size_t *picked, n;
    int status =
        pick_named(snapshot, o->args[0], o->args + 1, o->n_args - 1, &picked, &n);
    if (status != EXIT_DONE)
        return status;
    p->columns = memory_or_exit(calloc(MAX_COLUMNS, sizeof(*p->columns)));
    for (size_t at = 0, i; next_picked(snapshot, picked, n, &at, &i);) {
        struct tamis_segment_info s;
        if (tamis_snapshot_segment(snapshot, i, &s) != 0)
            continue;
        p->n_states[s.state <= TAMIS_SEGMENT_SEALED ? s.state : 0]++;
        if (s.state == TAMIS_SEGMENT_BARE)
            continue;
        struct column c =
            (struct column){.name = s.name,
                            .name_bytes = s.name_bytes,
                            .n = 1,
                            .rank = s.rank,
                            .last_rank = s.rank,
                            .bytes = allocated_bytes(o->args[0], snapshot, i, &s),
                            .length = s.file_bytes,
                            .keys = s.keys,
                            .created = (double)s.created};
        look_inside(snapshot, i, &c);
        add(p, &c);
    }
    free(picked);
    group(p);
    for (size_t i = 0; i < p->n; i++)
        p->n_grouped += p->columns[i].n > 1 ? p->columns[i].n : 0;
    return EXIT_DONE;
}

int store_picture(struct tamis_snapshot *snapshot, const struct options *o)
{
    struct picture p = {0};
    int status = collect(snapshot, o, &p);
    struct drawing drawing;
    if (status == EXIT_DONE) {
        p.store = escape(o->args[0], strlen(o->args[0]));
        picture_draw(drawing_begin(&drawing), &p);
        status = drawing_end(&drawing, o->svg);
    }
    free(p.store);
    free(p.columns);
    return status;
}
