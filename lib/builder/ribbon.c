/* Hashes -> a ribbon filter: stage after stage, each of the keys that the one before it
 * bumped, and a stage of split blocks for those that are left at last. So building
 * never fails, whatever the hashes.
 *
 *     file   [ header | stage 0 | digests | stage 1 | digests | ... | split blocks ]
 *
 * A page needs all its keys at once. Hashes that were spooled come back in portions:
 * each reads the whole spool and keeps the hashes of its pages, so that portion and
 * pages stay within the limit of memory. */
#include "lib/builder/layer.h"
#include "lib/plan/plan.h"

struct maker {
    struct tamis_builder *b;
    int fd;
    uint64_t at, end; /* where the filter begins; written bytes from there on */
    struct built *built;
    struct hash_list left; /* for the next stage */
    struct hash_sum sum;   /* of those */
    /* The part of all absent keys that comes to it, and how many of them may match
     * there or behind it. */
    double reach, error;
};

/* The error of the next stage, so that all stages together have the one that is asked
 * for. The digits of a stage are chosen as if it bumped nothing, so the places that
 * it bumps leave at least the error that they would have had. */
static double next_error(const struct maker *m)
{
    double all = m->b->error, next = m->reach > 0 ? m->error / m->reach : all;
    return next < all ? next : all;
}

/* A stage is made: counts the absent keys that match in it, and those that go on. */
static void count_absent(struct maker *m, struct stage_desc *s, double match,
                         double bumped)
{
    const double least = 1e-18; /* 0 is no error */
    double no_match_before = 1 - (m->b->error - m->error);
    s->target_error = m->reach * match / no_match_before;
    if (s->target_error < least)
        s->target_error = least;
    m->error -= m->reach * match;
    m->reach *= bumped;
}

static void count_layer(struct maker *m, struct stage_desc *s, const struct layer *l)
{
    double match = 0, bumped = 0;
    for (uint32_t i = 0; i < 2; i++) {
        struct ribbon_shape of = ribbon_shape_of(l->g.blocks + i);
        double places = (double)l->g.n_pages * ribbon_places(of.blocks);
        match += (double)l->matches[i] / (double)(UINT64_C(2) << of.digits) / places;
        bumped += (double)l->bumped[i] / places;
    }
    count_absent(m, s, match, bumped);
}

static struct stage_desc *stage_begin(struct maker *m, uint64_t length, uint64_t keys)
{
    struct commit *c = &m->built->commit;
    struct stage_desc *s = &c->stages[c->n_stages++];
    memset(s, 0, sizeof *s);
    s->length = length;
    s->capacity = s->keys = keys;
    m->end = stage_place(s, m->end);
    return s;
}

/* ---- portions ---- */

/* The hashes of pages `first` to before `end`. */
static int ribbon_from_spool(const struct maker *m, const struct layer *l,
                             uint64_t first, uint64_t end, struct hash_list *out)
{
    struct tamis_builder *b = m->b;
    uint64_t done = 0, check = 0;
    out->n = 0;
    while (done < b->n_spooled) {
        size_t n;
        int err = spool_read(b, done, &check, &n);
        if (err)
            return err;
        for (size_t i = 0; i < n; i++) {
            uint64_t page = geometry_block(b->hashes[i], l->g.n_pages);
            if (page >= first && page < end && !hash_list_append(out, &b->hashes[i], 1))
                return ENOMEM;
        }
        done += n;
    }
    return 0;
}

/* How many portions of all regions keep hashes and pages of each within the limit? */
static uint32_t portions_of(const struct tamis_builder *b, const struct layer *l)
{
    uint64_t bytes = b->n_spooled * sizeof *b->hashes + l->g.n_pages * PAGE_BYTES;
    uint64_t room = b->limit / 2 > (1U << 20) ? b->limit / 2 : 1U << 20;
    uint64_t n = bytes / room + 1;
    return n < l->fill.n_regions ? (uint32_t)n : l->fill.n_regions;
}

static int make_portion(struct maker *m, struct layer *l, struct stage_desc *s,
                        uint32_t from, uint32_t to, struct hash_list *hashes)
{
    uint64_t first = layer_page(l, from), n_pages = layer_page(l, to) - first;
    uint64_t written = 0;
    void *address;
    size_t n_mapped;
    uint8_t *bits = map_bits((size_t)n_pages * PAGE_BYTES, &address, &n_mapped);
    int err = bits ? layer_make(l, from, to, hashes->hashes, hashes->n, bits) : ENOMEM;
    if (!err)
        err = pieces_write(m->fd, m->at + s->offset + first * PAGE_BYTES, bits,
                           &written, n_pages * PAGE_BYTES, true);
    if (bits)
        munmap(address, n_mapped);
    return err;
}

static int make_portions(struct maker *m, struct layer *l, struct stage_desc *s)
{
    struct hash_list some = {0};
    uint32_t n = portions_of(m->b, l), from = 0;
    int err = 0;
    for (uint32_t i = 0; i < n && !err; i++) {
        uint32_t to = (uint32_t)((uint64_t)l->fill.n_regions * (i + 1) / n);
        err = ribbon_from_spool(m, l, layer_page(l, from), layer_page(l, to), &some);
        if (!err)
            err = make_portion(m, l, s, from, to, &some);
        from = to;
    }
    free(some.hashes);
    return err;
}

/* ---- stages ---- */

static int ribbon_stage(struct maker *m, const struct ribbon_geometry *g,
                        uint64_t n_keys)
{
    struct tamis_builder *b = m->b;
    struct hash_list bumped = {0};
    struct layer l;
    struct stage_desc *s = stage_begin(m, g->n_pages * PAGE_BYTES, n_keys);
    s->layout = LAYOUT_RIBBON;
    s->ribbon_blocks = (uint16_t)g->blocks;
    s->n_long_pages = g->n_long;
    uint8_t *digests = digests_alloc(s->length);
    if (!digests)
        return ENOMEM;
    int err = layer_begin(&l, g, digests, n_keys, b->n_at_work, b->checks);
    /* The stage has all hashes of the builder, or those that were bumped. */
    if (!err && b->n_spooled && m->built->commit.n_stages == 1)
        err = make_portions(m, &l, s);
    else if (!err)
        err = make_portion(m, &l, s, 0, l.fill.n_regions, &m->left);
    if (!err)
        err = layer_take_bumped(&l, &bumped);
    /* Memory kept what came in if the pages were asked for just these hashes. */
    if (!err && b->checks &&
        (l.asked.n != m->sum.n || l.asked.added != m->sum.added ||
         l.asked.xored != m->sum.xored || l.n_lost != 0))
        err = TAMIS_ERR_DAMAGED;
    if (!err)
        err = digests_write(m->fd, m->at, s, digests);
    m->sum = l.passed;
    count_layer(m, s, &l);
    layer_end(&l);
    free(digests);
    if (m->left.hashes != b->hashes)
        free(m->left.hashes);
    m->left = bumped;
    s->keys = n_keys - bumped.n;
    return err;
}

/* Their bits are made as those of a Bloom filter are. */
static int last_stage(struct maker *m)
{
    struct geometry g;
    double error;
    int err = plan_stage_geometry(m->left.n, next_error(m), &g, &error);
    if (err)
        return err;
    struct stage_desc *s =
        stage_begin(m, g.n_blocks * g.lanes * BLOCK_BYTES, m->left.n);
    s->layout = LAYOUT_SPLIT_BLOCKS;
    s->geometry = g;
    err = bits_write(m->b, m->fd, m->at, s, &m->left, &m->sum, 1, &error);
    count_absent(m, s, error, 0);
    return err;
}

/* The memory of a filter of all keys at once; more than the limit goes by the spool. */
static int ribbon_make_room(struct tamis_builder *b)
{
    struct ribbon_geometry g;
    int err = plan_ribbon_geometry(b->n_keys, b->error, 0, &g);
    if (err)
        return err;
    uint64_t n_bytes = g.n_pages * PAGE_BYTES;
    uint64_t room = spool_leaves(b, n_bytes);
    b->n_at_work = b->n_threads;
    while (b->n_at_work > 1 && layer_memory(b->n_at_work) > room)
        b->n_at_work--;
    return spool_settle(b, n_bytes);
}

int ribbon_write(struct tamis_builder *b, int fd, uint64_t at, struct built *built)
{
    struct maker m = {.b = b, .fd = fd, .at = at, .end = PAGE_BYTES, .built = built};
    struct commit *c = &built->commit;
    int err = ribbon_make_room(b);
    if (err)
        return err;
    m.reach = 1;
    m.error = b->error;
    m.sum = b->came_in;
    if (!b->n_spooled)
        m.left = (struct hash_list){b->hashes, b->n_hashes, b->n_hashes};
    c->n_stages = 0;
    for (uint64_t n_keys = b->n_keys; !err; n_keys = m.left.n) {
        struct ribbon_geometry g;
        err = plan_ribbon_geometry(n_keys, next_error(&m), c->n_stages, &g);
        if (err || g.n_pages == 0)
            break;
        err = ribbon_stage(&m, &g, n_keys);
    }
    if (!err)
        err = last_stage(&m);
    if (m.left.hashes != b->hashes)
        free(m.left.hashes);
    c->committed_bytes = built->file_bytes = m.end;
    return err;
}
