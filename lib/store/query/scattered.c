/* Targets in no order: all columns, all loose segments, or both are asked, a page of
 * numbers at a time, into rows of bits of their own, where each target then finds its
 * bit:
 *
 *     targets    7 2 5 ...       absent, by number   0 0 1 0 0 1 0 1 ...
 *     absent     1 1 1 ...                               2     5   7
 *
 * A key that none of them may have, as most keys, is not looked up. */
#include "lib/store/query/inside.h"

enum { PAGE_WORDS = 1024 };

struct page {
    size_t begin, end;        /* all numbers that are asked so; */
    size_t first, n, n_words; /* those of this page */
    bool bare;         /* hits are not looked at: few of these columns are asked for */
    uint64_t hits;     /* keys that some target may have */
    uint64_t doubtful; /* those whose hits a range may exclude, or a failed page made */
    uint64_t listed[PAGE_WORDS]; /* the numbers that are targets */
    uint64_t rows[PAGE_WORDS];
};

/* May a target that lies on the page have the key of this row? */
static bool any_listed(const struct page *p, const uint64_t *absent)
{
    uint64_t any = 0;
    for (size_t i = 0; i < p->n_words; i++)
        any |= p->listed[i] & ~absent[i];
    return any;
}

/* Asks keys from one on, as many as there is room for. Returns how many. */
static size_t ask_page(const struct asking *a, struct page *p, size_t from)
{
    struct tamis_query all = *a->q;
    struct asking b = *a;
    all.targets = NULL; /* numbers */
    b.q = &all;
    b.reasons = NULL;
    b.each_hit = false;
    b.bare = p->bare;
    b.n_words = p->n_words;
    b.n = PAGE_WORDS / p->n_words;
    b.n = b.n < a->n - from ? b.n : a->n - from;
    b.keys = a->keys + from;
    b.hash = a->hash + from;
    b.prefix = a->prefix + from;
    b.plain = b.all = first_bits(b.n);
    b.ranged = a->ranged >> from & b.all;
    b.rows = p->rows;
    memset(p->rows, 0, b.n * p->n_words * sizeof *p->rows);
    ask_numbers(&b, 0, p->first, p->n);
    p->hits = p->doubtful = 0;
    for (size_t k = 0; k < b.n; k++) {
        p->hits |= (uint64_t)any_listed(p, p->rows + k * p->n_words) << k;
        p->doubtful |= (uint64_t)(p->bare && (b.damaged || b.keys[k].bytes)) << k;
    }
    return b.n;
}

static inline uint64_t look_up(const uint64_t *row, const uint32_t *at, size_t n)
{
    uint64_t absent = 0;
    for (size_t i = 0; i < n; i++)
        absent |= (row[at[i] / WORD] >> at[i] % WORD & 1) << i;
    return absent;
}

/* Does nobody ask which of the targets may have a key, but only whether any may? */
static bool asks_any(const struct asking *a)
{
    return !a->rows && !a->reasons;
}

/* Key i, and its hits in a slice. Returns those that are absent after all. */
static uint64_t look_again(struct asking *a, size_t i, const struct slice *t,
                           uint64_t hits)
{
    uint64_t absent = 0;
    for (; hits; hits &= hits - 1) {
        size_t k = (size_t)__builtin_ctzll(hits);
        if (ask_with_care(a, &t->targets[k], t->at + k, UINT64_C(1) << i))
            absent |= hits & -hits;
        else if (asks_any(a))
            break;
    }
    return absent;
}

/* Asks those of n targets that no page answers. */
static void ask_off_pages(struct asking *a, size_t place, size_t n, uint64_t on_pages)
{
    if (on_pages != first_bits(n))
        ask_slice(a, place, n, on_pages | ask_columns_apart(a, place, n, on_pages));
}

/* Lists n targets that lie on the page. `first`: asks the others. */
static void list_targets(struct asking *a, struct page *p, size_t place, size_t n,
                         bool first)
{
    const struct tamis_target *t = a->q->targets + place;
    uint64_t on_pages = 0;
    for (size_t i = 0; i < n; i++) {
        size_t number = t[i].slot - 1U - p->first;
        bool on_page = plain_between(a->snapshot, &t[i], p->begin, p->end);
        on_pages |= (uint64_t)on_page << i;
        if (on_page && number < p->n)
            p->listed[number / WORD] |= UINT64_C(1) << number % WORD;
    }
    if (first)
        ask_off_pages(a, place, n, on_pages);
}

/* n targets that lie on the page, for keys from one on. `first`: asks the others. */
static void look_up_slice(struct asking *a, const struct page *p, size_t place,
                          size_t n, size_t from, size_t n_keys, bool first)
{
    struct slice t;
    uint32_t at[WORD];
    uint64_t on_pages = 0, here = 0;
    slice_begin(&t, a, place, n);
    for (size_t i = 0; i < n; i++) {
        size_t number = t.targets[i].slot - 1U - p->first;
        on_pages |=
            (uint64_t)plain_between(a->snapshot, &t.targets[i], p->begin, p->end) << i;
        here |= (uint64_t)(number < p->n) << i;
        at[i] = number < p->n ? (uint32_t)number : 0;
    }
    if (first)
        ask_off_pages(a, place, n, on_pages);
    t.asked = on_pages & here;
    for (size_t k = 0; k < n_keys; k++) {
        uint64_t absent = t.asked, late = 0;
        if (asks_any(a) && (a->some >> (from + k) & 1 || !(p->hits >> k & 1)))
            continue;
        if (p->hits >> k & 1)
            absent &= look_up(p->rows + k * p->n_words, at, n);
        if (a->reasons || p->doubtful >> k & 1)
            late = look_again(a, from + k, &t, t.asked & ~absent);
        deliver(a, from + k, &t, absent | late, 0, absent);
    }
}

/* Their numbers lie in *first .. *end - 1. Returns how many they are. */
static size_t range_of_columns(const struct asking *a, size_t at, size_t n,
                               size_t *first, size_t *end)
{
    const struct tamis_snapshot *s = a->snapshot;
    const struct tamis_target *t = &a->q->targets[at];
    size_t n_columns = 0;
    *first = *end = 0;
    for (size_t i = 0; i < n; i++) {
        if (!plain_between(s, &t[i], s->n_loose, s->n))
            continue;
        *first = !n_columns || t[i].slot - 1 < *first ? t[i].slot - 1 : *first;
        *end = t[i].slot > *end ? t[i].slot : *end;
        n_columns++;
    }
    return n_columns;
}

/* The lines that each row of these columns has, roughly. */
static size_t lines_of_numbers(const struct shared_files *p, size_t begin, size_t end)
{
    return (end - begin) / LINE_COLUMNS + stripes_before(p, end - 1) -
           stripes_before(p, begin) + 1;
}

/* Are at least half of the loose segments among n targets, and all of them ready? Then
 * all are asked sooner, as they follow each other. */
static bool lists_loose(const struct asking *a, size_t at, size_t n)
{
    const struct tamis_snapshot *s = a->snapshot;
    uint64_t epoch = stage_epoch(), ready = UINT64_MAX;
    size_t n_listed = 0;
    if (!s->n_loose || s->n_loose > 2 * n)
        return false;
    for (size_t i = 0; i < s->n_loose; i += WORD)
        ready &= planes_are_ready(&s->planes, i, epoch) | ~first_bits(s->n_loose - i);
    for (size_t i = 0; i < n && ready == UINT64_MAX; i++)
        n_listed += plain_between(s, &a->q->targets[at + i], 0, s->n_loose);
    return 2 * n_listed >= s->n_loose;
}

/* The columns that are asked, *begin .. *end - 1. False: each is better asked by
 * itself. */
static bool lists_columns(const struct asking *a, size_t at, size_t n, size_t *begin,
                          size_t *end)
{
    const struct shared_files *packs = &a->snapshot->shared;
    size_t n_columns = n, n_lines = lines_of_numbers(packs, *begin, *end);
    if (n_lines >= n / 16) { /* else most of them are asked anyway */
        n_columns = range_of_columns(a, at, n, begin, end);
        n_lines = n_columns ? lines_of_numbers(packs, *begin, *end) : 0;
    }
    return n_lines + 4 <= 2 * n_columns;
}

bool look_up_targets(struct asking *a, size_t at, size_t n)
{
    const struct tamis_snapshot *s = a->snapshot;
    struct page p;
    p.begin = s->n_loose;
    p.end = s->n;
    if (n < 3 || a->plain != a->all || a->sheet)
        return false;
    bool columns = s->shared.n_stripes && lists_columns(a, at, n, &p.begin, &p.end);
    bool loose = lists_loose(a, at, n);
    if (columns && loose) /* together, if few columns lie in between */
        loose = lines_of_numbers(&s->shared, s->n_loose, p.begin) <= n / 16 + 1;
    if (!loose && !columns)
        return false;
    p.begin = loose ? 0 : p.begin;
    p.end = columns ? p.end : s->n_loose;
    p.bare = columns && (asks_any(a) || n < (p.end - p.begin) / 4);
    for (p.first = p.begin; p.first < p.end; p.first += p.n) {
        p.n = p.end - p.first;
        p.n = p.n < PAGE_WORDS * WORD ? p.n : PAGE_WORDS * WORD;
        p.n_words = bit_words(p.n);
        /* One key: its targets are seen only when they are looked up. */
        bool lists = a->n > 1 || asks_any(a), first = p.first == p.begin;
        memset(p.listed, lists ? 0 : 0xff, p.n_words * sizeof *p.listed);
        for (size_t i = 0; lists && i < n; i += WORD)
            list_targets(a, &p, at + i, n - i < WORD ? n - i : WORD, first);
        for (size_t from = 0, some; from < a->n; from += some) {
            some = ask_page(a, &p, from);
            if (asks_any(a))
                a->some |= (p.hits & ~p.doubtful) << from;
            if (asks_any(a) && !(p.hits & p.doubtful))
                continue;
            for (size_t i = 0; i < n; i += WORD)
                look_up_slice(a, &p, at + i, n - i < WORD ? n - i : WORD, from, some,
                              first && !lists);
        }
    }
    return true;
}
