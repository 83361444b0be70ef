/* Counting what probes have answered. Each is called when the answers are whole, if the
 * snapshot counts, and changes none of them. */
#include "lib/store/snapshot/snapshot.h"
#include "lib/filter/filter.h"
#include "lib/store/base/counters.h"

#include <stdatomic.h>

static struct count_row *row_of(struct sheet *sheet, const struct tamis_snapshot *s,
                                const struct tamis_target *t)
{
    return sheet_row(sheet, t && target_here(s, t) ? t->slot : 0);
}

static uint64_t bits(uint64_t mask)
{
    return (uint64_t)__builtin_popcountll(mask);
}

static inline void count_in(struct sheet *sheet, const struct tamis_snapshot *s,
                            const struct tamis_target *t, enum tamis_reason reason,
                            bool by_range)
{
    if (by_range)
        sheet_add(sheet, &sheet->excluded, 1);
    else
        sheet_add(sheet, &row_of(sheet, s, t)->n[reason], 1);
}

static __attribute__((noinline)) void count_one_slowly(struct tamis_snapshot *s,
                                                       const struct tamis_target *t,
                                                       enum tamis_reason reason,
                                                       bool by_range)
{
    count_in(counters_sheet_slowly(&s->counts, s->n), s, t, reason, by_range);
}

/* With every single probe: the way to the thread's sheet saves no registers. */
void count_one(struct tamis_snapshot *s, const struct tamis_target *t,
               enum tamis_reason reason, bool by_range)
{
    struct sheet *sheet = counters_mine(&s->counts);
    if (__builtin_expect(sheet != NULL, 1))
        count_in(sheet, s, t, reason, by_range);
    else
        count_one_slowly(s, t, reason, by_range);
}

void count_refused(struct tamis_snapshot *s, const struct tamis_target *t,
                   enum tamis_reason reason, size_t n)
{
    struct sheet *sheet = counters_sheet(&s->counts, s->n);
    sheet_add(sheet, &row_of(sheet, s, t)->n[reason], n);
}

/* A batch does not say which maybes only damage says: where there is any, each is asked
 * for its reason once more. */
void count_word(struct tamis_snapshot *s, const struct tamis_target *t,
                struct tamis_filter *f, const uint64_t *hashes, uint64_t absent,
                uint64_t maybe)
{
    struct sheet *sheet = counters_sheet(&s->counts, s->n);
    struct count_row *row = row_of(sheet, s, t);
    sheet_add(sheet, &row->n[TAMIS_NO_REASON], bits(absent));
    if (!atomic_load_explicit(&filter_page_counts(f)->n_damaged,
                              memory_order_relaxed)) {
        sheet_add(sheet, &row->n[TAMIS_HIT], bits(maybe));
        return;
    }
    for (uint64_t m = maybe; m; m &= m - 1) {
        struct tamis_key key =
            tamis_key_of_hash(tamis_filter_domain(f).tag, hashes[__builtin_ctzll(m)]);
        enum tamis_reason why;
        filter_probe_from(f, t->min_watermark, 0, &key, &why);
        sheet_add(sheet, &row->n[why == TAMIS_DAMAGED ? why : TAMIS_HIT], 1);
    }
}

void count_batch(struct tamis_snapshot *s, const struct tamis_target *t,
                 struct tamis_filter *f, const uint64_t *hashes, size_t n,
                 const uint64_t *absent)
{
    for (size_t done = 0; done < n; done += 64) {
        uint64_t asked = n - done < 64 ? (UINT64_C(1) << (n - done)) - 1 : UINT64_MAX;
        uint64_t word = absent[done / 64];
        count_word(s, t, f, hashes + done, word, asked & ~word);
    }
}

void count_excluded(struct tamis_snapshot *s, uint64_t mask)
{
    struct sheet *sheet = counters_sheet(&s->counts, s->n);
    sheet_add(sheet, &sheet->excluded, bits(mask));
}

void count_keys(struct sheet *sheet, uint32_t slot, uint64_t absent, uint64_t hits)
{
    struct count_row *row = sheet_row(sheet, slot);
    sheet_add(sheet, &row->n[COUNT_MANY], bits(absent));
    sheet_add(sheet, &sheet->absent, bits(absent));
    if (hits)
        sheet_add(sheet, &row->n[TAMIS_HIT], bits(hits));
}

void count_of_list(struct sheet *sheet, const struct tamis_target *targets,
                   uint64_t absent, uint64_t hits)
{
    sheet_add(sheet, &sheet->absent, bits(absent));
    for (uint64_t m = absent; m; m &= m - 1)
        sheet_add(sheet,
                  &sheet_row(sheet, targets[__builtin_ctzll(m)].slot)->n[COUNT_MANY],
                  1);
    for (uint64_t m = hits; m; m &= m - 1)
        sheet_add(sheet,
                  &sheet_row(sheet, targets[__builtin_ctzll(m)].slot)->n[TAMIS_HIT], 1);
}

/* The absents of 64 segments in one step, and then those taken back that are none; or
 * one by one, where they are fewer than those. */
void count_of_all(struct sheet *sheet, size_t word, uint64_t asked, uint64_t absent,
                  uint64_t hits)
{
    size_t first = 1 + word * 64;
    uint64_t most = bits(absent) > bits(asked) / 2 ? asked : 0, small = most & hits;
    sheet_add(sheet, &sheet->absent, bits(absent));
    if (most)
        sheet_add(sheet, &sheet->all[word], 1);
    for (uint64_t m = small; m; m &= m - 1)
        sheet_hit(sheet, first + (size_t)__builtin_ctzll(m), 1);
    for (uint64_t m = (most ^ absent) & ~small; m; m &= m - 1)
        sheet_add(sheet,
                  &sheet_row(sheet, first + (size_t)__builtin_ctzll(m))->n[COUNT_MANY],
                  most ? UINT64_MAX : 1); /* one less: numbers wrap */
    for (uint64_t m = hits & ~small; m; m &= m - 1)
        sheet_add(sheet,
                  &sheet_row(sheet, first + (size_t)__builtin_ctzll(m))->n[TAMIS_HIT],
                  1);
}
