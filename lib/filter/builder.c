/* A builder takes hashes in; finish.c makes a filter of them.
 *
 * How many keys will come is not known, so their hashes are kept, 8 bytes each, and
 * spooled to an unlinked file past a memory limit. That file may lose what it was
 * given, as any file may, and nobody syncs it: what comes back is checked. */
#include "lib/filter/builder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { DEFAULT_MEMORY_LIMIT = 64 << 20, LEAST_MEMORY_LIMIT = 4096 };

/* ---- creating ---- */

static int check_options(const struct tamis_builder_options *o, struct tamis_diag *diag)
{
    if (!(o->error >= ERROR_MIN && o->error <= ERROR_MAX))
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "error %g is outside 1e-8 .. 0.5",
                         o->error);
    if (o->name && !segment_name_valid(o->name, o->name_bytes))
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL,
                         "a segment name has 1 to 255 bytes, none of them NUL");
    if (o->binding_bytes > BINDING_MAX_BYTES)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "a binding has at most 64 bytes");
    if (o->domain &&
        (!hash_id_known(o->domain->hash_id) ||
         o->domain->tag != hash_domain_tag(o->domain->hash_id, o->domain->seed)))
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "the domain is not valid");
    return 0;
}

static void take_options(struct tamis_builder *b, const struct tamis_builder_options *o)
{
    uint64_t limit = o->memory_limit ? o->memory_limit : DEFAULT_MEMORY_LIMIT;
    b->error = o->error;
    b->name_bytes = o->name ? o->name_bytes : 0;
    b->binding_bytes = o->binding ? o->binding_bytes : 0;
    memcpy(b->name, o->name ? o->name : "", b->name_bytes);
    memcpy(b->binding, o->binding ? o->binding : "", b->binding_bytes);
    if (o->store_uuid)
        memcpy(b->store_uuid, o->store_uuid, UUID_BYTES);
    if (o->domain)
        b->domain = *o->domain;
    else
        tamis_domain_random(&b->domain);
    b->watermark = o->watermark;
    b->limit = limit < LEAST_MEMORY_LIMIT ? LEAST_MEMORY_LIMIT / 8
               : limit > SIZE_MAX / 2     ? SIZE_MAX / 16
                                          : (size_t)limit / 8;
    b->spool_fd = -1;
    b->range.known = true;
}

int tamis_builder_create(const struct tamis_builder_options *opt,
                         struct tamis_builder **out, struct tamis_diag *diag)
{
    struct tamis_builder_options o;
    *out = NULL;
    diag_clear(diag);
    if (options_copy(&o, sizeof o, opt))
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "options are not valid");
    o.error = o.error == 0 ? 0.01 : o.error;
    int err = check_options(&o, diag);
    if (err)
        return err;
    const char *dir = o.spool_dir ? o.spool_dir : getenv("TMPDIR");
    struct tamis_builder *b = calloc(1, sizeof *b);
    if (b)
        b->spool_dir = strdup(dir && *dir ? dir : "/tmp");
    if (!b || !b->spool_dir) {
        free(b);
        return diag_errno(diag, ENOMEM, NULL, "cannot create a builder");
    }
    take_options(b, &o);
    *out = b;
    return 0;
}

void tamis_builder_free(struct tamis_builder *b)
{
    if (!b)
        return;
    if (b->spool_fd >= 0)
        close(b->spool_fd);
    free(b->hashes);
    free(b->spool_dir);
    free(b);
}

/* ---- adding ---- */

/* An unlinked temporary file: it is gone however this process ends. */
static int open_spool(const char *dir)
{
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return fd;
    char path[4096];
    if (snprintf(path, sizeof path, "%s/tamis.XXXXXX", dir) >= (int)sizeof path)
        return errno = ENAMETOOLONG, -1;
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

static int spool(struct tamis_builder *b)
{
    if (b->spool_fd < 0)
        b->spool_fd = open_spool(b->spool_dir);
    if (b->spool_fd < 0)
        return errno;
    int err = io_write(b->spool_fd, b->hashes, b->n_hashes * sizeof *b->hashes,
                       b->n_spooled * sizeof *b->hashes);
    if (err)
        return err;
    b->spool_check = builder_check(b->spool_check, b->hashes, b->n_hashes);
    b->n_spooled += b->n_hashes;
    b->n_hashes = 0;
    return 0;
}

static int make_room(struct tamis_builder *b)
{
    if (b->capacity >= b->limit)
        return spool(b);
    size_t capacity = b->capacity ? b->capacity * 2 : 512;
    capacity = capacity < b->limit ? capacity : b->limit;
    uint64_t *hashes = realloc(b->hashes, capacity * sizeof *hashes);
    if (!hashes)
        return b->n_hashes ? spool(b) : ENOMEM; /* memory is short: make do */
    b->hashes = hashes;
    b->capacity = capacity;
    return 0;
}

static int add(struct tamis_builder *b, const uint64_t *hashes, size_t n)
{
    for (size_t i = 0; i < n && !b->failed; i++) {
        /* Sorted input repeats a key in one run (versions of it): one is enough. */
        if (b->n_keys && hashes[i] == b->last)
            continue;
        if (b->n_hashes == b->capacity)
            b->failed = make_room(b);
        if (b->failed)
            break;
        b->hashes[b->n_hashes++] = b->last = hashes[i];
        b->n_keys++;
    }
    return b->failed;
}

static int compare(const void *a, size_t n_a, const void *b, size_t n_b)
{
    size_t n = n_a < n_b ? n_a : n_b;
    int order = n ? memcmp(a, b, n) : 0;
    return order ? order : (n_a > n_b) - (n_a < n_b);
}

/* A first key may be cut short, it stays a lower bound; a last key may not. */
static void widen(struct key_range *r, bool first, const void *key, size_t n)
{
    size_t cut = n < sizeof r->first ? n : sizeof r->first;
    if (first || compare(key, cut, r->first, r->first_bytes) < 0) {
        memcpy(r->first, cut ? key : "", cut);
        r->first_bytes = cut;
    }
    if (first || compare(key, n, r->last, r->last_bytes) > 0) {
        r->known = n <= sizeof r->last;
        r->last_bytes = r->known ? n : 0;
        memcpy(r->last, r->last_bytes ? key : "", r->last_bytes);
    }
}

int tamis_builder_add_key(struct tamis_builder *b, const void *key, size_t n_bytes)
{
    uint64_t h = hash_key(b->domain.seed, key, n_bytes);
    if (!b->failed && b->range.known)
        widen(&b->range, b->n_keys == 0, key, n_bytes);
    return add(b, &h, 1);
}

int tamis_builder_add_hashes(struct tamis_builder *b, uint64_t tag,
                             const uint64_t *hashes, size_t n)
{
    if (tag != b->domain.tag)
        return TAMIS_ERR_MISMATCH;
    if (n)
        b->range.known = false; /* we don't know their keys */
    return add(b, hashes, n);
}

uint64_t tamis_builder_n_keys(const struct tamis_builder *b)
{
    return b->n_keys;
}

struct tamis_domain tamis_builder_domain(const struct tamis_builder *b)
{
    return b->domain;
}

const struct key_range *builder_range(const struct tamis_builder *b)
{
    return &b->range;
}

void builder_name(const struct tamis_builder *b, const void **name, size_t *n_bytes)
{
    *name = b->name;
    *n_bytes = b->name_bytes;
}

void builder_set_rank(struct tamis_builder *b, uint32_t rank)
{
    b->rank = rank;
}

uint32_t builder_rank(const struct tamis_builder *b)
{
    return b->rank;
}
