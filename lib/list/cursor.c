/* Values of a list in order. Each page is copied, its copy checked, and decoded from
 * there, so that no page counts that was lost or changed after its check.
 *
 * A page must begin with its entry of the table, and that must be greater than the last
 * value of the page before. So pages cannot be left out, or come twice. */
#include "lib/error.h"
#include "lib/filter/filter.h"
#include "lib/filter/view.h"
#include "lib/io/io.h"
#include "lib/kernel/list/list_spot.h"
#include "lib/list/source.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { AHEAD_BYTES = 2 << 20 }; /* read ahead, where the file is not in memory */

struct tamis_list_cursor {
    struct tamis_filter *filter;
    const struct list_map *list;
    uint64_t page;       /* the next to be decoded */
    uint64_t n_given;    /* values of pages that were decoded */
    bool from_the_start; /* so that all are counted at the end */
    bool has_last;
    uint64_t last; /* value of the page before */
    uint64_t table_page;
    bool has_table;
    int failed;
    uint64_t failed_at; /* offset in the file */
    uint32_t n, next;   /* in `values`; the next to be given */
    uint64_t values[LIST_PAGE_MAX_HASHES];
    uint8_t table[PAGE_BYTES];
    uint8_t copy[PAGE_BYTES];
};

int tamis_list_facts(struct tamis_filter *f, struct tamis_list_facts *facts)
{
    const struct list_map *l = filter_list(f);
    *facts = (struct tamis_list_facts){0};
    if (!l)
        return TAMIS_ERR_UNFIT;
    *facts = (struct tamis_list_facts){l->n_hashes, l->hash_bits};
    return 0;
}

int tamis_list_cursor_create(struct tamis_filter *f, struct tamis_list_cursor **out,
                             struct tamis_diag *diag)
{
    *out = NULL;
    diag_clear(diag);
    if (!filter_list(f))
        return diag_fail(diag, TAMIS_ERR_UNFIT, filter_path(f),
                         "no list: it does not keep its hashes");
    struct tamis_list_cursor *c = malloc(sizeof *c);
    if (!c)
        return diag_errno(diag, ENOMEM, filter_path(f), "cannot read its values");
    memset(c, 0, offsetof(struct tamis_list_cursor, values));
    c->filter = f;
    c->list = filter_list(f);
    c->from_the_start = true;
    filter_hold(f);
    *out = c;
    return 0;
}

void tamis_list_cursor_free(struct tamis_list_cursor *c)
{
    if (!c)
        return;
    filter_release(c->filter);
    free(c);
}

static uint64_t offset_of(const struct tamis_list_cursor *c, size_t stage,
                          uint64_t page)
{
    const struct stage *s = filter_list_stage(c->filter, stage);
    return c->filter->offset + (uint64_t)(s->bits - s->map->base) + page * PAGE_BYTES;
}

static bool fail_at(struct tamis_list_cursor *c, size_t stage, uint64_t page)
{
    c->failed = TAMIS_ERR_DAMAGED;
    c->failed_at = offset_of(c, stage, page);
    c->n = c->next = 0;
    return false;
}

/* The entry of a page, from a checked copy of the table. */
static bool read_entry(struct tamis_list_cursor *c, uint64_t page, uint64_t *entry)
{
    uint64_t table_page = page / LIST_ENTRIES_PER_PAGE;
    if (!c->has_table || c->table_page != table_page) {
        c->has_table = filter_list_copy(c->filter, LIST_INDEX, table_page, c->table);
        c->table_page = table_page;
    }
    if (!c->has_table)
        return fail_at(c, LIST_INDEX, table_page);
    *entry = digest_at(c->table, page % LIST_ENTRIES_PER_PAGE);
    return true;
}

/* A hint; errors are of no account. */
static void read_ahead(const struct tamis_list_cursor *c, uint64_t page)
{
    enum { PAGES = AHEAD_BYTES / PAGE_BYTES };
    const struct stage *s = filter_list_stage(c->filter, LIST_PAGES);
    if (page % PAGES != 0)
        return;
    uint64_t begin = page + PAGES, end = begin + PAGES;
    if (page == 0)
        begin = 0;
    end = end < s->n_pages ? end : s->n_pages;
    if (begin >= end)
        return;
    uintptr_t at = (uintptr_t)(s->bits + begin * PAGE_BYTES);
    uintptr_t machine_page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = at / machine_page * machine_page;
    io_calls.madvise((void *)from, (size_t)(end - begin) * PAGE_BYTES + (at - from),
                     MADV_WILLNEED);
}

/* Decodes the next page. False: it failed. Its last value becomes c->last. */
static bool decode_page(struct tamis_list_cursor *c, uint64_t *values, uint32_t *n)
{
    struct list_page head;
    uint64_t page = c->page, entry;
    *n = 0;
    read_ahead(c, page);
    if (!read_entry(c, page, &entry))
        return false;
    if (!filter_list_copy(c->filter, LIST_PAGES, page, c->copy) ||
        !list_page_open(c->copy, c->list->hash_bits, &head) ||
        (head.n == 0 && c->list->n_hashes > 0) || head.first != entry ||
        (c->has_last && entry <= c->last) ||
        !c->list->kernel->values(c->copy, c->list->hash_bits, &head, values))
        return fail_at(c, LIST_PAGES, page);
    *n = head.n;
    c->page++;
    c->n_given += head.n;
    if (head.n) {
        c->last = values[head.n - 1];
        c->has_last = true;
    }
    if (c->page == c->list->n_pages && c->from_the_start &&
        c->n_given != c->list->n_hashes)
        return fail_at(c, LIST_PAGES, page);
    return true;
}

int list_cursor_page(struct tamis_list_cursor *c, uint64_t *values, size_t *n)
{
    uint32_t some = 0;
    if (c->page < c->list->n_pages && !c->failed)
        decode_page(c, values, &some);
    *n = some;
    return c->failed;
}

static int report(const struct tamis_list_cursor *c, struct tamis_diag *diag)
{
    if (!c->failed)
        return 0;
    diag_fail(diag, c->failed, filter_path(c->filter),
              "a page of the list failed its check: its values cannot be read");
    diag_at(diag, c->failed_at);
    return c->failed;
}

int tamis_list_cursor_next(struct tamis_list_cursor *c, uint64_t *values, size_t n,
                           size_t *got, struct tamis_diag *diag)
{
    *got = 0;
    diag_clear(diag);
    while (n > *got && !c->failed) {
        uint32_t left = c->n - c->next;
        if (left) {
            uint32_t some = left < n - *got ? left : (uint32_t)(n - *got);
            memcpy(values + *got, c->values + c->next, some * sizeof *values);
            c->next += some;
            *got += some;
        } else if (c->page == c->list->n_pages) {
            break;
        } else if (n - *got >= LIST_PAGE_MAX_HASHES) {
            uint32_t some;
            if (decode_page(c, values + *got, &some))
                *got += some;
        } else {
            c->next = 0;
            decode_page(c, c->values, &c->n);
        }
    }
    if (c->failed)
        *got = 0;
    return report(c, diag);
}

int tamis_list_cursor_seek(struct tamis_list_cursor *c, uint64_t value,
                           struct tamis_diag *diag)
{
    uint64_t entry = 0, next = UINT64_MAX, page = filter_list_page(c->filter, value);
    diag_clear(diag);
    c->failed = 0;
    c->n = c->next = 0;
    c->page = page;
    c->from_the_start = c->has_last = false;
    c->n_given = 0;
    /* The table was searched unchecked: do two entries that are checked agree? */
    if (!read_entry(c, page, &entry) ||
        (page + 1 < c->list->n_pages && !read_entry(c, page + 1, &next)))
        return report(c, diag);
    if ((entry > value && page > 0) || (page + 1 < c->list->n_pages && next <= value)) {
        fail_at(c, LIST_INDEX, page / LIST_ENTRIES_PER_PAGE);
        return report(c, diag);
    }
    if (!decode_page(c, c->values, &c->n))
        return report(c, diag);
    uint32_t low = 0, high = c->n;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (c->values[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    c->next = low;
    return 0;
}
