/* The picture of a store: a column for each segment that has a filter, by
 * rank, and the largest of a rank first. Segments of a rank that would be too narrow to
 * be seen share columns. For a filter that does not open only the catalog's figures
 * are shown. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../input/input.h"
#include "../open/open.h"
#include "../output/output.h"
#include "../talk/talk.h"
#include "inside.h"
#include "picture.h"
#include "svg.h"
#include "tamis.h"

static void look_inside(struct tamis_snapshot *snapshot, size_t i, struct column *c)
{
    struct tamis_filter_info info;
    struct tamis_stage_info stage;
    struct tamis_filter *filter;

    if (tamis_snapshot_filter(snapshot, i, &filter, NULL) != 0 ||
        tamis_filter_info(filter, &info) != 0) {
        c->n_unreadable = 1;
        tamis_filter_close(filter);
        return;
    }
    c->keys = info.keys;
    c->length = info.file_bytes;
    for (uint32_t s = 0; s < info.n_stages; s++)
        if (tamis_filter_stage(filter, s, &stage) == 0) {
            c->bits += 8 * stage.bits_bytes;
            c->bits_set += stage.bits_set;
        }
    c->error = info.expected_error;
    c->target = info.growth.error;
    c->n_over = over_target(&info);
    c->lowest = c->highest = c->target > 0 ? c->error / c->target : 0;
    tamis_filter_close(filter);
}

static int compare(const void *left, const void *right)
{
    const struct column *a = left, *b = right;

    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->bytes < b->bytes) - (a->bytes > b->bytes);
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

/* A column takes in the next segments of its rank until it is wide enough. */
static void group(struct picture *p)
{
    double least = (double)p->bytes * COLUMN_WIDTH / PICTURE_WIDTH;
    size_t n = 0, first = 0;

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
    for (size_t i = 0; i < n; i++)
        p->n_grouped += p->columns[i].n > 1 ? p->columns[i].n : 0;
}

static void sum_up(struct picture *p)
{
    bool known = false;

    for (size_t i = 0; i < p->n; i++) {
        const struct column *c = &p->columns[i];

        p->bytes += c->bytes;
        p->n_over += c->n_over;
        p->n_unreadable += c->n_unreadable;
        if (i == 0 || c->created < p->oldest)
            p->oldest = c->created;
        if (i == 0 || c->created > p->newest)
            p->newest = c->created;
        if (c->n_unreadable > 0)
            continue;
        if (!known || c->lowest < p->lowest)
            p->lowest = c->lowest;
        if (!known || c->highest > p->highest)
            p->highest = c->highest;
        known = true;
    }
}

/* The line below the title. */
static char *describe(const struct picture *p, const uint64_t n_states[4])
{
    char *text = memory_or_exit(malloc(512));
    uint64_t n_keys = 0;

    for (size_t i = 0; i < p->n; i++)
        n_keys += p->columns[i].keys;
    snprintf(text, 512,
             "%s sealed, %s growing, %s without a filter; %s keys in %s of "
             "filters",
             COUNT(n_states[TAMIS_SEGMENT_SEALED]),
             COUNT(n_states[TAMIS_SEGMENT_GROWING]),
             COUNT(n_states[TAMIS_SEGMENT_BARE]), COUNT(n_keys), SIZE(p->bytes));
    return text;
}

static int collect(struct tamis_snapshot *snapshot, const struct options *o,
                   struct picture *p)
{
    uint64_t n_states[4] = {0};
    size_t *picked, n;
    int status =
        pick_segments(snapshot, o->args[0], o->args + 1, o->n_args - 1, &picked, &n);

    if (status != EXIT_DONE)
        return status;
    p->columns = memory_or_exit(calloc(n + 1, sizeof(*p->columns)));
    for (size_t i = 0; i < n; i++) {
        struct tamis_segment_info s;
        struct column *c = &p->columns[p->n];

        if (tamis_snapshot_segment(snapshot, picked[i], &s) != 0)
            continue;
        n_states[s.state <= TAMIS_SEGMENT_SEALED ? s.state : 0]++;
        if (s.state == TAMIS_SEGMENT_BARE)
            continue;
        *c = (struct column){.name = s.name,
                             .name_bytes = s.name_bytes,
                             .n = 1,
                             .rank = s.rank,
                             .bytes = allocated_bytes(o->args[0], &s),
                             .length = s.file_bytes,
                             .keys = s.keys,
                             .created = (double)s.created};
        look_inside(snapshot, picked[i], c);
        p->n++;
    }
    free(picked);
    sum_up(p);
    p->what = describe(p, n_states);
    return EXIT_DONE;
}

int store_picture(struct tamis_snapshot *snapshot, const struct options *o)
{
    struct picture p = {0};
    int status = collect(snapshot, o, &p);
    char *bytes = NULL;
    size_t n = 0;
    FILE *to;

    if (status == EXIT_DONE) {
        qsort(p.columns, p.n, sizeof(*p.columns), compare);
        group(&p);
        p.store = escape(o->args[0], strlen(o->args[0]));
        to = memory_or_exit(open_memstream(&bytes, &n));
        picture_draw(to, &p);
        memory_or_exit(fclose(to) == 0 ? bytes : NULL);
        status = replace_file(o->svg, bytes, n);
    }
    free(bytes);
    free(p.store);
    free(p.what);
    free(p.columns);
    return status;
}
