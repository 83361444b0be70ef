/* Copies the catalog's records without LMDB, so without a slot in its table of readers.
 * No page of the newest transaction T changes while both meta pages stay as they are:
 *
 * - LMDB changes no page in place. It writes a new one, and the old one goes on the
 *   free list, with the number of the transaction that let it go.
 * - T + 1 takes pages that were let go by T - 1 or before, whatever slots there are
 *   (LMDB's mdb_find_oldest()). T and T - 1 do not have these pages. So a writer at
 *   work, or one that was killed, spoils neither transaction. T + 2 would, but first
 *   T + 1 writes its meta page.
 * - T + 1 writes over the meta page of T - 1, and the number comes last. While this
 *   page says T - 1, no writer touches the other one, which is T's.
 *
 * A meta page that is read while it is written may be half of each. So the two are read
 * twice more: then T's has surely been read once between two looks at the other. */
#include "lib/store/catalog/file.h"

#include <time.h>

struct copied_record {
    size_t name_bytes, value_bytes;
    uint8_t bytes[]; /* name, value */
};

/* How many records there are in the databases before this one. */
static size_t count_before(const struct catalog_copy *c, unsigned db)
{
    size_t n = 0;
    while (db > 0)
        n += c->n[--db];
    return n;
}

static struct copied_record *copy_add(struct catalog_copy *c, size_t n_bytes)
{
    size_t n = count_before(c, CATALOG_DBS);
    if ((n & (n - 1)) == 0) {
        struct copied_record **more =
            realloc(c->all, (2 * n + 1) * sizeof(struct copied_record *));
        if (!more)
            return NULL;
        c->all = more;
    }
    c->all[n] = malloc(sizeof(struct copied_record) + n_bytes);
    c->n[c->at] += c->all[n] != NULL;
    return c->all[n];
}

static bool copy_record(struct walk *w, const struct node *n, uint64_t first)
{
    struct catalog_copy *c = w->visitor->ctx;
    bool is_long = n->data_bytes > catalog_value_max((enum catalog_db)c->at);
    size_t value_bytes = is_long ? 0 : n->data_bytes;
    struct copied_record *r = copy_add(c, n->key_bytes + value_bytes);
    if (!r) {
        w->failed = ENOMEM;
        return false;
    }
    r->name_bytes = n->key_bytes;
    r->value_bytes = value_bytes;
    memcpy(r->bytes, n->key, n->key_bytes);
    uint8_t *value = r->bytes + n->key_bytes;
    if (first)
        return walk_read(w, value, value_bytes, first * w->page_bytes + PAGE_HEAD);
    memcpy(value, n->data, value_bytes);
    return true;
}

static bool copy_node(struct walk *w, const struct node *n, uint64_t first, bool named)
{
    struct catalog_copy *c = w->visitor->ctx;
    if (named)
        return c->at == CATALOG_DBS || copy_record(w, n, first);
    for (c->at = 0; c->at < CATALOG_DBS; c->at++)
        if (walk_compare(n->key, n->key_bytes, catalog_names[c->at],
                         strlen(catalog_names[c->at])) == 0)
            break;
    c->met |= 1U << c->at;
    return true;
}

int catalog_copy_read(int fd, const char *path, struct catalog_copy **out,
                      struct tamis_diag *diag)
{
    enum { TRIES = 100, STEP = 50000 }; /* nanoseconds: from 0 to 5 ms */
    struct catalog_copy *c = NULL;
    int rc = EAGAIN, before = io_hold_cancel();
    for (int i = 0; i < TRIES && rc == EAGAIN; i++) {
        nanosleep(&(struct timespec){.tv_nsec = i * STEP}, NULL);
        catalog_copy_free(c);
        c = calloc(1, sizeof *c);
        struct catalog_visitor v = {copy_node, c};
        rc = c ? catalog_file_visit(fd, path, &v, &c->txn, diag)
               : diag_errno(diag, ENOMEM, path, "reading the catalog");
    }
    io_let_cancel(before);
    if (rc == EAGAIN)
        rc = diag_fail(diag, TAMIS_ERR_BUSY, path,
                       "no slot of LMDB, and each of %d tries to read without one met "
                       "a commit: try again",
                       TRIES);
    if (!rc && ~c->met & ((1U << CATALOG_DBS) - 1))
        rc = diag_fail(diag, TAMIS_ERR_NOT_TAMIS, path,
                       "an LMDB file, but no catalog of tamis");
    if (rc)
        catalog_copy_free(c);
    else
        *out = c;
    return rc;
}

void catalog_copy_free(struct catalog_copy *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < count_before(c, CATALOG_DBS); i++)
        free(c->all[i]);
    free(c->all);
    free(c);
}

void catalog_copy_at(const struct catalog_copy *c, enum catalog_db db, size_t index,
                     struct piece *name, struct piece *value)
{
    const struct copied_record *r = c->all[index + count_before(c, db)];
    *name = (struct piece){r->bytes, r->name_bytes};
    *value = (struct piece){r->bytes + r->name_bytes, r->value_bytes};
}

bool catalog_copy_get(const struct catalog_copy *c, enum catalog_db db,
                      struct piece name, struct piece *value)
{
    size_t low = 0, high = c->n[db];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct piece there, its;
        catalog_copy_at(c, db, middle, &there, &its);
        int order = walk_compare(name.at, name.n, there.at, there.n);
        if (order == 0)
            return *value = its, true;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}
