/* Planes: the bits of all loose segments, dense, for probes that go over many.
 *
 * A plane is ready when nothing is left to be asked but its bits: a careful probe has
 * opened the filter, it is sealed for good, one stage, and every page of it was found
 * good. That stays so as long as the entry holds the filter, and in every snapshot that
 * shares the entry, but for one thing: a later scrub (tamis_filter_verify()) may find a
 * page rotten. Then stage_epoch() grows, nothing is ready any more in any snapshot, and
 * each plane must be found ready anew.
 *
 * Once all segments of a snapshot are ready, with as many lanes and words each,
 * `uniform` says so to probes of a few: one look in place of one a segment. It names
 * the epoch that it was found in, so that a later one ends it with all that is ready.
 * Targets are still looked at one by one. */
#include "lib/store/snapshot/snapshot.h"
#include "format/record.h"
#include "lib/filter/filter.h"
#include "lib/io/io.h"
#include "lib/kernel/kernel.h"
#include "lib/page/page.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

static struct gate gate_of(const struct entry *e)
{
    struct gate g = {0, UINT64_MAX, e->watermark};
    if (!e->has_range || e->state != RECORD_SEALED)
        return g;
    g.first = key_prefix(entry_first(e).at, entry_first(e).n);
    g.last = key_prefix(entry_last(e).at, entry_last(e).n);
    return g;
}

int planes_make(struct tamis_snapshot *s)
{
    struct planes *p = &s->planes;
    io_fork_epoch(); /* its first call installs handlers, for which no probe waits */
    p->kernel = kernel_get();
    p->plane = calloc(s->n_loose + 1, sizeof *p->plane);
    p->gate = calloc(s->n_loose + 1, sizeof *p->gate);
    p->opened = calloc(s->n_loose / 64 + 1, sizeof *p->opened);
    p->ready = calloc(s->n_loose / 64 + 1, sizeof *p->ready);
    p->deep = calloc(s->n_loose / 64 + 1, sizeof *p->deep);
    if (!p->plane || !p->gate || !p->opened || !p->ready || !p->deep)
        return ENOMEM;
    atomic_init(&p->epoch, stage_epoch());
    p->all_shapes = UINT64_MAX;
    for (size_t i = 0; i < s->n_loose; i++) {
        p->gate[i] = gate_of(s->entries[i]);
        p->any_range |= p->gate[i].first != 0 || p->gate[i].last != UINT64_MAX;
        planes_offer(s, i); /* another snapshot may have opened it long ago */
    }
    return 0;
}

void planes_free(struct planes *p)
{
    free(p->plane);
    free(p->gate);
    free(p->opened);
    free(p->ready);
    free(p->deep);
    *p = (struct planes){0};
}

/* No thread waits: one that cannot have the mark goes on with care. A mark that a fork
 * has copied, of a thread that is not in the child, is free to take. A thread that
 * leaves by siglongjmp() keeps it for ever: then planes that are not ready yet never
 * become so in this snapshot, which costs time and no answer. */
static bool change_begin(struct planes *p)
{
    unsigned mine = io_fork_epoch() + 1, seen = 0;
    return atomic_compare_exchange_strong(&p->changing, &seen, mine) ||
           (seen != mine && atomic_compare_exchange_strong(&p->changing, &seen, mine));
}

static void change_end(struct planes *p)
{
    atomic_store(&p->changing, 0);
}

static void clear_ready(struct tamis_snapshot *s, uint64_t epoch)
{
    s->planes.n_ready = 0; /* first: a child of a fork must not find it too large */
    s->planes.any_shape = 0;
    s->planes.all_shapes = UINT64_MAX;
    for (size_t i = 0; i < s->n_loose / 64 + 1; i++)
        atomic_store(&s->planes.ready[i], 0);
    atomic_store(&s->planes.epoch, epoch);
}

/* Readers look at it only when its bit is set, but those of an earlier epoch may still
 * be looking: so once, n_blocks last. A child of a fork in between has it whole, or not
 * yet. */
static void write_once(struct plane *to, struct plane plane)
{
    uint64_t n_blocks = plane.n_blocks;
    if (to->n_blocks)
        return;
    plane.n_blocks = 0;
    *to = plane;
    __atomic_store_n(&to->n_blocks, n_blocks, __ATOMIC_RELEASE);
}

/* The ready bits are set before. So a child of a fork in between does not count again
 * in this epoch: it goes without the row, and makes it in a later epoch. */
static void make_all(struct planes *p, size_t n)
{
    if (!p->all_made && n <= ROW_COLUMNS)
        plane_row_begin(&p->all, p->plane, n);
    p->all_made = true;
}

/* With the mark: whoever takes it afterwards sees what was seen here. So a page that is
 * found rotten after filter_plane() leads to a later epoch than the bit was set in, and
 * one that was found so before a bit was cleared is seen by filter_plane(). */
static void make_ready(struct tamis_snapshot *s, size_t index, struct tamis_filter *f)
{
    struct planes *p = &s->planes;
    uint64_t epoch = stage_epoch();
    struct plane plane;
    if (atomic_load(&p->epoch) != epoch)
        clear_ready(s, epoch);
    if (!filter_plane(f, s->domain.tag, p->gate[index].watermark, &plane))
        return;
    write_once(&p->plane[index], plane);
    uint64_t bit = UINT64_C(1) << (index % 64);
    if (plane.lanes > 1)
        atomic_fetch_or(&p->deep[index / 64], bit);
    p->any_shape |= plane_shape(&plane);
    p->all_shapes &= plane_shape(&plane);
    if (atomic_fetch_or(&p->ready[index / 64], bit) & bit)
        return; /* another thread was faster: each counts once */
    /* After its bit: a child of a fork in between finds too small a number. */
    if (++p->n_ready == s->n_loose && p->any_shape == p->all_shapes) {
        make_all(p, s->n_loose);
        atomic_store(&p->uniform, epoch);
    }
}

void planes_offer(struct tamis_snapshot *s, size_t index)
{
    struct planes *p = &s->planes;
    struct plane plane;
    if (planes_bit(p->ready, index) && planes_current(p))
        return; /* asked with care all the same: of a few, or by one target */
    struct tamis_filter *f =
        atomic_load_explicit(&s->entries[index]->filter, memory_order_acquire);
    if (!f)
        return;
    atomic_fetch_or_explicit(&p->opened[index / 64], UINT64_C(1) << (index % 64),
                             memory_order_release);
    if (!filter_plane(f, s->domain.tag, p->gate[index].watermark, &plane) ||
        !change_begin(p))
        return;
    make_ready(s, index, f);
    change_end(p);
}
