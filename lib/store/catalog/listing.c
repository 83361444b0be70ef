/* The packs of a catalog (listing.h): pack records and chunks of listed bits, in and
 * out of a transaction; names looked up. */
#include "lib/store/catalog/listing.h"
#include "lib/filter/filter.h"

/* ---- the packs of one transaction ---- */

static int fail_listing(const struct listings *l, const struct listed *p)
{
    char file[FILTER_NAME_BYTES];
    filter_file_name(p->uuid, file);
    return diag_fail(l->txn->diag, TAMIS_ERR_DAMAGED, l->txn->catalog->path,
                     "the catalog does not agree on the columns of pack %s", file);
}

void listing_say(uint64_t n, const char *what, char *text, size_t n_text)
{
    snprintf(text, n_text, "the pack of %llu segment%s: %s", (unsigned long long)n,
             n == 1 ? "" : "s", what);
}

static int no_listing_memory(const struct listings *l)
{
    return diag_errno(l->txn->diag, ENOMEM, l->txn->catalog->path,
                      "reading the list of packs");
}

static struct listed *listings_grow(struct listings *l, const uint8_t *uuid)
{
    struct listed *more = realloc(l->all, (l->n + 1) * sizeof *more);
    if (!more)
        return NULL;
    l->all = more;
    struct listed *p = &l->all[l->n++];
    *p = (struct listed){.failure = 0};
    memcpy(p->uuid, uuid, UUID_BYTES);
    return p;
}

static uint32_t chunk_number(const uint8_t key[CHUNK_KEY_BYTES])
{
    const uint8_t *n = key + UUID_BYTES;
    return (uint32_t)n[0] << 24 | (uint32_t)n[1] << 16 | (uint32_t)n[2] << 8 | n[3];
}

/* Notes the checksum that a chunk carries; 0 if the chunk has another length. */
static void note_sum(struct listed *p, uint32_t number, struct piece value)
{
    struct le64 sum = {{0}};
    if (p->failure)
        return;
    if (number >= listing_chunks(p->now.n_columns))
        p->failure = TAMIS_ERR_DAMAGED;
    else if (value.n == chunk_bytes(p->now.n_columns, number))
        memcpy(&sum, value.at + value.n - sizeof sum, sizeof sum);
    p->sums[number] = le64_get(sum);
}

static int load_listing(void *ctx, struct piece key, struct piece value)
{
    struct listings *l = ctx;
    struct listed *p = l->n ? &l->all[l->n - 1] : NULL;
    bool chunk = key.n == CHUNK_KEY_BYTES && chunk_number(key.at) < MAX_CHUNKS;
    if (chunk && p && memcmp(key.at, p->uuid, UUID_BYTES) == 0) {
        note_sum(p, chunk_number(key.at), value);
        return 0; /* read when it is asked for */
    }
    if (key.n != UUID_BYTES && !chunk) {
        l->strange = true;
        return 0;
    }
    p = listings_grow(l, key.at);
    if (!p)
        return ENOMEM;
    if (chunk) { /* the pack record is lost */
        p->failure = TAMIS_ERR_DAMAGED;
        return 0;
    }
    struct verdict v = listing_decode(value.at, value.n, p->uuid, &p->now);
    if (v.code != VERDICT_OK)
        p->failure = TAMIS_ERR_DAMAGED;
    return 0;
}

int listings_load(struct listings *l, struct catalog_txn *t)
{
    *l = (struct listings){.txn = t, .number = catalog_txn_number(t)};
    int rc = catalog_each_in(t, CATALOG_PACKS, load_listing, l);
    if (rc)
        listings_free(l);
    l->n_sorted = l->n;
    return rc;
}

void listed_free(struct listed *p)
{
    free(p->bits);
    free(p->freed);
    free(p->named);
    free(p->twice);
    open_pack_release(p->open);
}

void listings_free(struct listings *l)
{
    for (size_t i = 0; i < l->n; i++)
        listed_free(&l->all[i]);
    free(l->all);
    l->all = NULL;
    l->n = l->n_sorted = 0;
}

struct listed *listings_find(struct listings *l, const uint8_t uuid[UUID_BYTES])
{
    struct listed *p =
        l->n_sorted ? bsearch(uuid, l->all, l->n_sorted, sizeof *p, compare_pack_uuids)
                    : NULL;
    if (p)
        return p;
    for (size_t i = l->n_sorted; i < l->n; i++)
        if (memcmp(l->all[i].uuid, uuid, UUID_BYTES) == 0)
            return &l->all[i];
    return NULL;
}

/* The pack that has this very column. NULL: none, or its pack record is refused. */
static struct listed *listings_at(struct listings *l, const struct pack_place *at)
{
    struct listed *p = listings_find(l, at->uuid);
    return p && !p->failure && p->now.table_digest == at->digest &&
                   at->column < p->now.n_columns
               ? p
               : NULL;
}

bool listings_lack(struct listings *l, const struct pack_place *at)
{
    const struct listed *p = listings_find(l, at->uuid);
    return !p || (!p->failure && !listings_at(l, at));
}

static int note_freed(struct listed *p, uint32_t column, bool on)
{
    if (!p->freed && !on)
        return 0;
    if (!p->freed && !(p->freed = calloc(1, columns_bytes(p->now.n_columns))))
        return ENOMEM;
    columns_set(p->freed, column, on);
    return 0;
}

int listings_add(struct listings *l, const uint8_t uuid[UUID_BYTES], uint64_t digest,
                 uint32_t n_columns, struct listed **out)
{
    struct listed *p = listings_find(l, uuid) ? NULL : listings_grow(l, uuid);
    if (!p)
        return no_listing_memory(l);
    p->is_new = p->changed = true;
    p->now = (struct listing){.table_digest = digest, .n_columns = n_columns};
    p->dirty = (UINT64_C(1) << listing_chunks(n_columns)) - 1; /* all are to be there */
    p->bits = calloc(1, columns_bytes(n_columns) + 8);
    p->freed = malloc(columns_bytes(n_columns));
    if (!p->bits || !p->freed)
        return no_listing_memory(l);
    memset(p->freed, 0xff, columns_bytes(n_columns));
    columns_cut(p->freed, n_columns);
    *out = p;
    return 0;
}

/* Deletes the pack record and all chunks, if they are there. */
static int delete_keys(struct listings *l, const uint8_t *uuid)
{
    uint8_t key[CHUNK_KEY_BYTES];
    struct piece it = {uuid, UUID_BYTES};
    int rc = catalog_delete_in(l->txn, CATALOG_PACKS, it);
    it = (struct piece){key, sizeof key};
    for (uint32_t i = 0; i < MAX_CHUNKS && (!rc || rc == TAMIS_ERR_NO_SEGMENT); i++) {
        chunk_key(uuid, i, key);
        rc = catalog_delete_in(l->txn, CATALOG_PACKS, it);
    }
    if (rc && rc != TAMIS_ERR_NO_SEGMENT)
        return rc;
    diag_clear(l->txn->diag);
    return 0;
}

int listings_put(struct listings *l, const uint8_t uuid[UUID_BYTES], uint64_t digest,
                 uint32_t n_columns, const uint8_t *bits)
{
    struct listed *p = listings_find(l, uuid);
    struct listing was = {0};
    int rc = p ? delete_keys(l, uuid) : 0;
    if (rc)
        return rc;
    if (p) {
        size_t i = (size_t)(p - l->all);
        if (!p->failure && p->now.table_digest == digest)
            was = p->now;
        l->n_sorted = i < l->n_sorted ? i : l->n_sorted;
        listed_free(p);
        *p = l->all[--l->n];
    }
    if (!bits)
        return 0;
    rc = listings_add(l, uuid, digest, n_columns, &p);
    if (rc)
        return rc;
    memcpy(p->bits, bits, columns_bytes(n_columns));
    p->now.n_listed = columns_count(bits, n_columns);
    p->now.n_overridden = was.n_overridden; /* listings_put_names() */
    p->now.names_sum = was.names_sum;
    return 0;
}

void open_packs_forget(struct catalog *c, struct listings *l)
{
    pthread_mutex_lock(&c->opened_lock);
    for (struct open_pack **at = &c->opened, *p; (p = *at);) {
        struct listed *there = l ? listings_find(l, p->uuid) : NULL;
        if (there && !listed_is_gone(there)) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        open_pack_release(p);
    }
    pthread_mutex_unlock(&c->opened_lock);
}

/* ---- its chunks ---- */

static int read_chunk(struct listings *l, struct listed *p, uint32_t number)
{
    uint8_t key[CHUNK_KEY_BYTES];
    struct piece its = {key, sizeof key}, value;
    chunk_key(p->uuid, number, key);
    int rc = catalog_get_in(l->txn, CATALOG_PACKS, its, &value);
    if (rc && rc != TAMIS_ERR_NO_SEGMENT)
        return rc;
    if (rc || chunk_check(value.at, value.n, p->uuid, p->now.n_columns, number,
                          &p->sums[number])
                      .code != VERDICT_OK)
        return fail_listing(l, p);
    memcpy(p->bits + (size_t)number * (CHUNK_COLUMNS / 8), value.at, value.n - 8);
    return 0;
}

/* Reads its bits, once. ERR_DAMAGED: record and chunks do not agree. */
static int listed_read(struct listings *l, struct listed *p)
{
    uint64_t sum = 0;
    int rc = 0;
    if (p->failure)
        return fail_listing(l, p);
    if (p->bits)
        return 0;
    p->bits = calloc(1, columns_bytes(p->now.n_columns) + 8);
    if (!p->bits)
        return no_listing_memory(l);
    for (uint32_t i = 0; !rc && i < listing_chunks(p->now.n_columns); i++) {
        rc = read_chunk(l, p, i);
        sum += p->sums[i];
    }
    if (!rc && (sum != p->now.chunks_sum ||
                columns_count(p->bits, p->now.n_columns) != p->now.n_listed))
        rc = fail_listing(l, p);
    if (rc) {
        free(p->bits);
        p->bits = NULL;
    }
    return rc;
}

int listed_has(struct listings *l, struct listed *p, uint32_t column, bool *has)
{
    int rc = listed_read(l, p);
    *has = !rc && column < p->now.n_columns && columns_have(p->bits, column);
    return rc;
}

int listed_set(struct listings *l, struct listed *p, uint32_t column, bool on)
{
    bool has;
    int rc = listed_has(l, p, column, &has);
    if (rc)
        return rc;
    if (has == on || column >= p->now.n_columns)
        return fail_listing(l, p);
    columns_set(p->bits, column, on);
    p->dirty |= UINT64_C(1) << column / CHUNK_COLUMNS;
    p->changed = true;
    p->now.n_listed += on ? 1 : UINT32_MAX;
    return note_freed(p, column, !on) ? no_listing_memory(l) : 0;
}

int listed_name(struct listings *l, struct listed *p, struct piece name,
                uint32_t column, bool on)
{
    if (p->failure || column >= p->now.n_columns || (!on && !p->now.n_overridden))
        return fail_listing(l, p);
    uint64_t sum = name_sum(name.at, name.n, column);
    p->now.names_sum += on ? sum : -sum;
    p->now.n_overridden += on ? 1 : UINT32_MAX;
    p->changed = true;
    return note_freed(p, column, !on) ? no_listing_memory(l) : 0;
}

/* ---- and what records name ---- */

int listings_count(struct listings *l, struct piece name, const struct part_disk *parts,
                   unsigned n_parts)
{
    l->n_unread += parts == NULL;
    for (const struct part_disk *part = parts; n_parts > 0; n_parts--, part++) {
        struct pack_place at = part_place(part);
        l->unknown |= part->kind > PART_LIST;
        if (part->kind != PART_COLUMN)
            continue;
        struct listed *p = listings_at(l, &at);
        if (!p) {
            l->astray |= listings_lack(l, &at);
            continue;
        }
        bool again = p->named && columns_have(p->named, at.column);
        uint8_t **bits = again ? &p->twice : &p->named;
        if (!*bits && !(*bits = calloc(1, columns_bytes(p->now.n_columns))))
            return ENOMEM;
        columns_set(*bits, at.column, true);
        p->names_sum += name_sum(name.at, name.n, at.column);
        p->n_named++;
    }
    return 0;
}

/* Is each of its named columns another one, and not listed? */
static bool names_fit(const struct listed *p)
{
    size_t n = p->named ? columns_bytes(p->now.n_columns) : 0;
    for (size_t i = 0; i < n; i++)
        if (p->named[i] & p->bits[i])
            return false;
    return !p->twice;
}

/* How many more records it counts than are there. */
static uint32_t n_missing(const struct listed *p)
{
    return !p->failure && p->n_named < p->now.n_overridden
               ? p->now.n_overridden - p->n_named
               : 0;
}

/* Records that cannot be read may be among those that are counted. */
int listings_agree(struct listings *l)
{
    for (size_t i = 0; i < l->n; i++) {
        struct listed *p = &l->all[i];
        int rc = listed_read(l, p);
        if (rc && rc != TAMIS_ERR_DAMAGED)
            return rc;
        p->agrees = !rc && names_fit(p) && p->n_named <= p->now.n_overridden &&
                    (n_missing(p) || p->names_sum == p->now.names_sum);
        l->n_missing += n_missing(p);
        if (rc)
            diag_clear(l->txn->diag);
    }
    for (size_t i = 0; l->n_missing > l->n_unread && i < l->n; i++)
        l->all[i].agrees &= !n_missing(&l->all[i]);
    return 0;
}

static int note_name(void *ctx, struct piece name, struct piece value)
{
    unsigned n;
    struct record r;
    struct listings *l = ctx;
    const struct part_disk *parts =
        record_parts(value.at, value.n, name.at, name.n, &n);
    if (!parts)
        l->n_newer += record_decode_head(value.at, value.n, name.at, name.n, &r).code ==
                      VERDICT_FLAGS;
    return listings_count(l, name, parts, n);
}

int listings_note_named(struct listings *l)
{
    int rc = catalog_each(l->txn, note_name, l);
    return rc ? rc : listings_agree(l);
}

int listings_put_names(struct listings *l)
{
    int rc = listings_note_named(l);
    /* A newer tamis reads its records, and finds the number that it wrote. */
    bool only_newer = l->n_missing <= l->n_newer;
    for (size_t i = 0; i < l->n && !rc; i++) {
        struct listed *p = &l->all[i];
        if (!p->is_new || (only_newer && n_missing(p)))
            continue;
        p->now.n_overridden = p->n_named;
        p->now.names_sum = p->names_sum;
    }
    return rc;
}

int listings_forgive(struct listings *l, uint64_t n_dropped, bool *any)
{
    int rc = 0;
    /* Else others may be the ones that are missing: then there is no telling which. */
    bool all = l->n_missing && !l->n_unread && l->n_missing <= n_dropped;
    bool counted = l->n_missing == l->n_unread + n_dropped;
    *any = false;
    for (size_t i = 0; !all && counted && l->n_missing && i < l->n; i++)
        if (l->all[i].bits && /* they are all of one pack, which can be written */
            n_missing(&l->all[i]) == l->n_missing) {
            l->all[i].now.n_overridden -= (uint32_t)n_dropped;
            l->all[i].changed = *any = true;
            return 0;
        }
    for (size_t i = 0; all && i < l->n && !rc; i++) {
        struct listed *p = &l->all[i];
        if (!n_missing(p) || !p->bits)
            continue;
        p->changed = *any = true;
        p->now.n_overridden = p->n_named;
        p->now.names_sum = p->names_sum;
        p->agrees = names_fit(p);
        if (!p->agrees)
            continue;
        free(p->freed);
        rc = listed_unused(l, p, &p->freed);
    }
    return rc;
}

int listed_unused(struct listings *l, struct listed *p, uint8_t **bits)
{
    *bits = NULL;
    if (!p->agrees || n_missing(p))
        return fail_listing(l, p);
    size_t n = columns_bytes(p->now.n_columns);
    *bits = malloc(n);
    if (!*bits)
        return no_listing_memory(l);
    for (size_t i = 0; i < n; i++)
        (*bits)[i] = (uint8_t) ~(p->bits[i] | (p->named ? p->named[i] : 0U));
    columns_cut(*bits, p->now.n_columns);
    return 0;
}

/* ---- written ---- */

static int write_chunk(struct listings *l, struct listed *p, uint32_t number)
{
    uint8_t key[CHUNK_KEY_BYTES], value[CHUNK_MAX_BYTES];
    size_t n = chunk_bytes(p->now.n_columns, number);
    chunk_key(p->uuid, number, key);
    memcpy(value, p->bits + (size_t)number * (CHUNK_COLUMNS / 8), n - 8);
    uint64_t sum = chunk_seal(p->uuid, p->now.n_columns, number, value);
    p->now.chunks_sum += sum - p->sums[number];
    p->sums[number] = sum;
    return catalog_put_in(l->txn, CATALOG_PACKS, (struct piece){key, sizeof key},
                          (struct piece){value, n});
}

int listed_buries(struct listings *l, struct listed *p)
{
    uint8_t *dead;
    uint32_t n = p->now.n_columns;
    if (!p->buries && !p->unburied) {
        p->unburied = dead_load(l->txn->catalog->filters->fd, p->uuid,
                                p->now.table_digest, &dead, &n);
        p->buries = !p->unburied;
        free(dead);
    }
    return p->unburied;
}

/* Else an older catalog, put back, would find a segment that is not there any more,
 * once its newest tombstones are back, too (SPEC.md R18). */
static int check_burial(struct listings *l, struct listed *p)
{
    char file[FILTER_NAME_BYTES], path[STORE_PATH_BYTES];
    size_t n = p->freed && !p->is_new ? columns_bytes(p->now.n_columns) : 0;
    uint8_t any = 0, alive = 0;
    int rc = 0;
    for (size_t i = 0; i < n; i++) {
        any |= p->freed[i];
        alive |= p->freed[i] & p->bits[i];
    }
    if (alive) /* a record named it: another segment would be lost */
        return fail_listing(l, p);
    if (!any || !(rc = listed_buries(l, p)))
        return 0;
    dead_file_name(p->uuid, file);
    filters_dir_path(l->txn->catalog->filters, file, path);
    if (rc > 0 && rc != ENOENT)
        return diag_errno(l->txn->diag, rc, path, "reading tombstones");
    return diag_fail(l->txn->diag, TAMIS_ERR_DAMAGED, path,
                     "segments of a pack cannot be dropped or moved: its tombstones "
                     "are missing or damaged");
}

static int write_listed(struct listings *l, struct listed *p)
{
    uint8_t value[LISTING_BYTES];
    struct piece key = {p->uuid, UUID_BYTES}, now = {value, sizeof value};
    /* Or it may have columns all the same. */
    int rc = p->is_new ? 0 : listed_read(l, p);
    if (!rc && listed_is_gone(p))
        return delete_keys(l, p->uuid);
    if (!rc)
        rc = check_burial(l, p);
    for (uint32_t i = 0; !rc && p->dirty >> i; i++)
        if (p->dirty >> i & 1)
            rc = write_chunk(l, p, i);
    p->dirty = 0;
    listing_encode(&p->now, p->uuid, value);
    return rc ? rc : catalog_put_in(l->txn, CATALOG_PACKS, key, now);
}

int listings_write(struct listings *l)
{
    int rc = 0;
    for (size_t i = 0; i < l->n && !rc; i++) {
        struct listed *p = &l->all[i];
        if (p->changed && !(p->is_new && listed_is_gone(p)))
            rc = write_listed(l, p);
    }
    return rc;
}

/* ---- names ---- */

int listed_open(struct listings *l, struct listed *p)
{
    if (!p->open && !p->unopened)
        p->unopened = open_pack_get(l->txn->catalog, p->uuid, p->now.table_digest,
                                    p->now.n_columns, false, &p->open);
    return p->unopened;
}

/* The column of the name in this pack, if it is listed. */
static int lookup_in(struct listings *l, struct listed *p, struct piece name,
                     struct facts *col)
{
    char file[FILTER_NAME_BYTES], path[STORE_PATH_BYTES], text[NAME_TEXT_BYTES];
    bool has;
    int rc = p->failure ? p->failure : listed_open(l, p);
    if (!rc)
        rc = pack_find(p->open->filter, name.at, name.n, true, col);
    if (rc == TAMIS_ERR_NO_SEGMENT)
        return rc;
    if (rc) {
        filter_file_name(p->uuid, file);
        filters_dir_path(l->txn->catalog->filters, file, path);
        /* Another file may have the pack's name. */
        if (rc == ENOENT || io_not_regular(rc) || rc == TAMIS_ERR_MISMATCH ||
            rc == TAMIS_ERR_NOT_TAMIS)
            rc = TAMIS_ERR_DAMAGED;
        return diag_fail(l->txn->diag, rc, path,
                         "this pack cannot tell whether it has segment '%s'",
                         name_text(text, name.at, name.n));
    }
    rc = listed_has(l, p, le32_get(col->disk.column), &has);
    return rc || has ? rc : TAMIS_ERR_NO_SEGMENT;
}

int listings_lookup(struct listings *l, struct piece name, struct found *f)
{
    struct tamis_diag unknown = {0}, *diag = l->txn->diag;
    int failed = 0;
    f->pack = NULL;
    f->value.at = NULL;
    int rc = catalog_get(l->txn, name, &f->value);
    if (rc != TAMIS_ERR_NO_SEGMENT)
        return rc;
    l->txn->diag = &unknown;
    for (size_t i = 0; i < l->n && !f->pack; i++) {
        struct listed *p = &l->all[i];
        if (p == l->passed || (!p->failure && !p->now.n_listed))
            continue;
        rc = lookup_in(l, p, name, &f->column);
        f->pack = rc ? NULL : p;
        failed = rc == TAMIS_ERR_NO_SEGMENT ? failed : rc;
    }
    l->txn->diag = diag;
    if (f->pack) {
        diag_clear(diag);
        return 0;
    }
    if (failed && diag)
        *diag = unknown;
    return failed ? failed : TAMIS_ERR_NO_SEGMENT;
}

int found_record(const struct found *f, struct piece name, struct record *r)
{
    if (f->value.at)
        return verdict_error(
            record_decode(f->value.at, f->value.n, name.at, name.n, r).code);
    record_of_column(&f->column, f->pack->uuid, f->pack->now.table_digest, r);
    return 0;
}

int listings_unname(struct listings *l, struct piece name, const struct pack_place *at)
{
    char file[FILTER_NAME_BYTES];
    struct listed *p = listings_at(l, at);
    if (p)
        return listed_name(l, p, name, at->column, false);
    filter_file_name(at->uuid, file);
    return diag_fail(l->txn->diag, TAMIS_ERR_DAMAGED, l->txn->catalog->path,
                     "the list lacks a column of pack %s that a record names: repair "
                     "the store first",
                     file);
}

int store_find_record(struct catalog_txn *t, void *ctx)
{
    struct wanted *w = ctx;
    struct listings l;
    struct found f;
    int rc = listings_load(&l, t);
    if (rc)
        return rc;
    rc = listings_lookup(&l, w->name, &f);
    if (!rc && (rc = found_record(&f, w->name, &w->record)) != 0)
        diag_fail(t->diag, rc, t->catalog->path, "the segment's record: %s",
                  tamis_strerror(rc));
    listings_free(&l);
    return rc;
}
