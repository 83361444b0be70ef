/* A filter's bits, without its keys, tell the number of keys, the number that two
 * filters share, whether they are equal, and the error. Every page is checked as it is
 * read. A page that fails is not counted, and is all ones for the error. The same holds
 * for a block of nothing but ones: a source of this filter was damaged there. */
#include "lib/derive/inside.h"

/* ---- the error now ---- */

struct stage_sums {
    uint64_t n_bits, n_set; /* in the blocks that are good */
    uint64_t n_damaged;
    double error;
};

static void sum_stage(struct stage *s, struct stage_sums *out)
{
    _Alignas(BLOCK_BYTES) uint8_t page[PAGE_BYTES];
    const struct geometry *g = &s->geometry;
    const struct operand whole = {s, 1};
    double sums[MAX_LANES] = {0};
    bool any_failed = false;
    memset(out, 0, sizeof *out);
    for (uint64_t i = 0; i < s->n_pages; i++) {
        uint64_t n = page_blocks(g, i), n_failed = 0;
        operand_page(&whole, i, DAMAGED_AS_ONES, page, &n_failed);
        uint64_t n_full = full_blocks_in(page, n);
        out->n_damaged += n_full > 0;
        if (n_full < n) {
            out->n_bits += (n - n_full) * BLOCK_BITS;
            out->n_set += page_bits(kernel_get(), page) - n_full * BLOCK_BITS;
        }
        any_failed |= n_failed > 0;
        for (uint64_t b = 0; b < n; b++)
            sums[(i * BLOCKS_PER_PAGE + b) / g->n_blocks] +=
                plan_block_error(page + b * BLOCK_BYTES, g->words);
    }
    if (!out->n_bits && !any_failed) { /* full, for any reason */
        out->n_bits = out->n_set = g->n_blocks * g->lanes * BLOCK_BITS;
        out->n_damaged = 0;
    }
    out->error = 1;
    for (uint32_t lane = 0; lane < g->lanes; lane++)
        out->error *= sums[lane] / (double)g->n_blocks;
}

/* ---- the error as it is measured ---- */

/* S. Vigna's splitmix64: any two numbers of a sequence differ. */
static uint64_t next_hash(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

void filter_measure(struct tamis_filter *filter, uint64_t n_probes, uint64_t seed,
                    struct tamis_interval *out)
{
    enum { BATCH = 256 };
    uint64_t hashes[BATCH], absent[BATCH / 64], n_absent = 0;
    *out = (struct tamis_interval){1, 0, 1};
    if (n_probes == 0)
        return;
    for (uint64_t done = 0; done < n_probes; done += BATCH) {
        size_t n = n_probes - done < BATCH ? (size_t)(n_probes - done) : BATCH;
        for (size_t i = 0; i < n; i++)
            hashes[i] = next_hash(&seed);
        n_absent +=
            tamis_filter_probe_batch(filter, filter->tag, hashes, n, absent, NULL);
    }
    out->value = (double)(n_probes - n_absent) / (double)n_probes;
    error_interval(n_probes - n_absent, n_probes, &out->low, &out->high);
}

/* ---- both ---- */

int tamis_filter_estimate(struct tamis_filter *filter, uint64_t n_probes, uint64_t seed,
                          struct tamis_estimate *out, struct tamis_diag *diag)
{
    struct tamis_interval parts[MAX_STAGES];
    struct stage_sums sums;
    double passes = 1;
    diag_clear(diag);
    if (!out)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "nowhere to put the estimate");
    memset(out, 0, sizeof *out);
    if (!filter)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "no filter");
    int err = source_can(filter, CAN_ESTIMATE, diag);
    if (err)
        return err;
    struct view *v = filter_view(filter);
    for (uint32_t i = 0; i < v->n_stages; i++) {
        sum_stage(&v->stages[i], &sums);
        plan_keys_interval(&v->stages[i].geometry, sums.n_bits, sums.n_set, &parts[i]);
        out->n_damaged += sums.n_damaged;
        passes *= 1 - sums.error;
    }
    plan_sum_interval(parts, v->n_stages, &out->keys);
    out->error = 1 - passes;
    filter_measure(filter, n_probes, seed, &out->measured);
    return 0;
}

/* ---- two filters ---- */

/* Set bits of the one, the other, and their union, in pages that are good in both. */
static uint64_t sum_pair(const struct operand o[2], const struct geometry *g,
                         uint64_t set[3], uint64_t *n_damaged)
{
    uint8_t pages[2][PAGE_BYTES];
    uint64_t n_bits = 0, n_bytes = 0;
    geometry_stage_bytes(g, &n_bytes); /* less than those of valid ones */
    for (uint64_t i = 0; i < n_bytes / PAGE_BYTES; i++) {
        uint64_t before = *n_damaged;
        for (int k = 0; k < 2; k++)
            operand_page(&o[k], i, FULL_IS_DAMAGED, pages[k], n_damaged);
        if (*n_damaged != before)
            continue;
        n_bits += page_blocks(g, i) * BLOCK_BITS;
        for (int k = 0; k < 2; k++)
            set[k] += page_bits(kernel_get(), pages[k]);
        for (size_t at = 0; at < PAGE_BYTES; at++)
            pages[0][at] |= pages[1][at];
        set[2] += page_bits(kernel_get(), pages[0]);
    }
    return n_bits;
}

/* A bit that the whole lacks is some key's. A damaged page counts as zeros in the part,
 * and as ones in the whole: so it proves nothing. */
static enum tamis_answer part_of(const struct operand *part,
                                 const struct operand *whole, const struct geometry *g)
{
    uint8_t a[PAGE_BYTES], b[PAGE_BYTES];
    uint64_t n_damaged = 0, n_bytes = 0;
    geometry_stage_bytes(g, &n_bytes); /* less than those of valid ones */
    for (uint64_t page = 0; page < n_bytes / PAGE_BYTES; page++) {
        operand_page(part, page, DAMAGED_AS_ZEROS, a, &n_damaged);
        operand_page(whole, page, DAMAGED_AS_ONES, b, &n_damaged);
        uint8_t beyond = 0;
        for (size_t i = 0; i < PAGE_BYTES; i++)
            beyond |= (uint8_t)(a[i] & ~b[i]);
        if (beyond)
            return TAMIS_ABSENT;
    }
    return TAMIS_MAYBE;
}

int tamis_filter_compare(struct tamis_filter *one, struct tamis_filter *other,
                         struct tamis_comparison *out, struct tamis_diag *diag)
{
    struct operand o[2];
    struct geometry g;
    uint64_t set[3] = {0};
    diag_clear(diag);
    if (!out)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "nowhere to put the comparison");
    memset(out, 0, sizeof *out);
    int err = operands_take(one, other, "a comparison", o, &g, diag);
    if (err)
        return err;
    uint64_t n_bits = sum_pair(o, &g, set, &out->n_damaged);
    plan_overlap(&g, n_bits, set, out);
    for (int i = 0; i < 2; i++)
        out->in[i] = part_of(&o[i], &o[!i], &g);
    return 0;
}

/* ---- equal, bit for bit? ---- */

/* 0 if no page differs; *equal is then 1, unless a page of one is damaged. */
static int stages_equal(struct stage *a, struct stage *b, int *equal)
{
    uint8_t of_a[PAGE_BYTES], of_b[PAGE_BYTES];
    for (uint64_t page = 0; page < a->n_pages; page++) {
        if (!stage_copy_page(a, page, of_a) || !stage_copy_page(b, page, of_b))
            return TAMIS_ERR_DAMAGED;
        if (memcmp(of_a, of_b, PAGE_BYTES) != 0)
            return *equal = 0;
    }
    return 0;
}

int tamis_filter_equal(struct tamis_filter *one, struct tamis_filter *other, int *equal,
                       struct tamis_diag *diag)
{
    struct tamis_filter *const both[] = {one, other};
    struct source *s;
    *equal = 0;
    diag_clear(diag);
    int err = sources_take(both, 2, CAN_COMPARE, &s, diag);
    if (err)
        return err;
    struct view *a = s[0].view, *b = s[1].view;
    *equal = a->n_stages == b->n_stages;
    for (uint32_t i = 0; i < a->n_stages && *equal; i++)
        *equal = same_geometry(&a->stages[i].geometry, &b->stages[i].geometry);
    for (uint32_t i = 0; i < a->n_stages && *equal && !err; i++)
        err = stages_equal(&a->stages[i], &b->stages[i], equal);
    free(s);
    if (err) {
        *equal = 0;
        return diag_fail(diag, err, one->path,
                         "a page of it, or of the other one, fails its check");
    }
    return 0;
}
