/* Repair of a catalog whose trees make no sense: a leaf that lost a record, a node of
 * impossible length. */
#include "tests/support/shop/shop.h"

/* ---- a catalog that has forgotten a filter ---- */

/* Is this a leaf with such a key? */
static bool is_leaf_with(const uint8_t *page, const char *name, uint16_t *lower)
{
    uint16_t flags, node, key_bytes;
    memcpy(&flags, page + 10, 2);
    memcpy(lower, page + 12, 2);
    for (size_t i = 16; flags == 2 && i < *lower; i += 2) {
        memcpy(&node, page + i, 2);
        memcpy(&key_bytes, page + node + 6, 2);
        if (key_bytes == strlen(name) && memcmp(page + node + 8, name, key_bytes) == 0)
            return true;
    }
    return false;
}

enum harm { VANISHED, OUT_OF_ORDER, N_HARMS };

/* To every copy of the leaf, for older ones are in the file, too. */
static void harm_leaf(enum harm how)
{
    size_t n;
    uint16_t lower;
    const char *path = path_of("s/catalog.lmdb");
    FREED uint8_t *bytes = file_read(path, &n);
    for (size_t at = 2 * 4096; at + 4096 <= n; at += 4096) {
        uint8_t *page = bytes + at;
        if (!is_leaf_with(page, "g", &lower) || lower < 16 + 4)
            continue;
        if (how == VANISHED) {
            lower = (uint16_t)(lower - 2);
            memcpy(page + 12, &lower, 2);
        } else {
            uint8_t pointer[2];
            memcpy(pointer, page + lower - 2, 2);
            memcpy(page + lower - 2, page + lower - 4, 2);
            memcpy(page + lower - 4, pointer, 2);
        }
    }
    file_write(path, bytes, n);
}

#define ABCG "put a 0 100; put b 100 100; put c 200 100; growing g; grow g 300 100 1;"

/* ---- a node of impossible length ---- */

enum length { BEYOND_PAGE, OVERFLOW_BEYOND_FILE, OVERFLOW_OUTSIDE, N_LENGTHS };

/* The nodes of the segment "g". */
static void harm_length(enum length how)
{
    static const struct {
        uint32_t bytes;
        uint16_t flags;
        uint64_t first_page;
    } node[] = {{0x0fffffff, 0, 0}, {0x0fffffff, 1, 2}, {100, 1, 1000000}};
    size_t n;
    uint16_t lower, at;
    const char *path = path_of("s/catalog.lmdb");
    FREED uint8_t *bytes = file_read(path, &n);
    for (uint8_t *page = bytes + 2 * 4096; page + 4096 <= bytes + n; page += 4096) {
        if (!is_leaf_with(page, "g", &lower))
            continue;
        for (size_t i = 16; i < lower; i += 2) {
            memcpy(&at, page + i, 2);
            if (page[at + 8] != 'g' || page[at + 9] == 'r')
                continue;
            memcpy(page + at, &node[how].bytes, 4);
            memcpy(page + at + 4, &node[how].flags, 2);
            if (node[how].flags)
                memcpy(page + at + 9, &node[how].first_page, 8);
        }
    }
    file_write(path, bytes, n);
}

/* LMDB sees nothing wrong with a leaf that lost a record, and would hand out a record
 * of impossible length: a copy or a sum of it would leave the mapping. So the library
 * looks before it asks LMDB. */
TEST_OF_SCENES(trees_that_make_no_sense)
{
    for (int how = 0; how < N_HARMS + N_LENGTHS; how++) {
        scene("a leaf");
        steps(ABCG "close");
        how < N_HARMS ? harm_leaf((enum harm)how)
                      : harm_length((enum length)(how - N_HARMS));
        steps("fails DAMAGED open; repair; is anew=1 whole=0; says %s;"
              "there g quarantine/catalog.lmdb; has g 300 100; has a 0 100; settled",
              how < N_HARMS ? "rebuilt  catalog.lmdb; is segments=4"
                            : "a page of the trees in catalog.lmdb makes no sense");
    }
}

RUN_TESTS(NULL, NULL)
