/* For tests of preparing: three segments of some rank each, and how large
 * their filters are. */
#ifndef TAMIS_TESTS_PREPARE_SUPPORT_H
#define TAMIS_TESTS_PREPARE_SUPPORT_H

#include "tests/support/store_support.h"
#include "tests/support/locked.h"

enum { FILTER_BYTES = 8192 }; /* of a few keys */

static UNUSED void put_ranked(struct tamis_store *s, const char *name, uint32_t rank)
{
    struct tamis_segment_options opt = {.size = sizeof opt, .rank = rank};
    EDIT(s, put_keys(edit, name, rank * 10, 10, &opt));
}

/* Three segments of rank 1, 2 and 3, made in another order. */
static UNUSED struct tamis_store *three(void)
{
    struct tamis_store *s = store_new("s");
    put_ranked(s, "a", 3);
    put_ranked(s, "b", 1);
    put_ranked(s, "c", 2);
    return s;
}

static UNUSED size_t
    page; /* of the machine's; where it is larger, filters fill no more */

static UNUSED uint64_t mapped(void)
{
    return (FILTER_BYTES + page - 1) / page * page;
}

#endif
