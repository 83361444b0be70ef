/* Hashes -> sealed filter, in a file of ours or inside a file of the engine's.
 *
 * How many keys will come is not known, so their hashes are kept, 8 bytes each,
 * and spooled to an unlinked file past a memory limit. Then the filter is sized
 * exactly, filled in private memory, digested and written sequentially: that way
 * it lands in large folios of the page cache, and no half-built bit is ever
 * mapped by anyone. The header is written last. */
#include "lib/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    DEFAULT_MEMORY_LIMIT = 64 << 20,
    LEAST_MEMORY_LIMIT = 4096,
    WRITE_BYTES = 4 << 20,
    HUGE_PAGE_BYTES = 2 << 20,
};

struct tamis_builder {
    struct tamis_domain domain;
    double error;
    uint8_t name[NAME_MAX_BYTES], binding[BINDING_MAX_BYTES], store_uuid[UUID_BYTES];
    size_t name_bytes, binding_bytes;
    uint64_t watermark;
    uint32_t rank;
    char *spool_dir;
    int spool_fd;
    int failed; /* sticky error of an earlier call */
    uint64_t n_spooled;
    uint64_t *hashes;
    size_t n_hashes, capacity, limit;
    uint64_t last; /* the previous hash: equal neighbours are one key */
    uint64_t n_keys;
    struct key_range range;
};

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

void builder_binding(const struct tamis_builder *b, const void **binding,
                     size_t *n_bytes)
{
    *binding = b->binding;
    *n_bytes = b->binding_bytes;
}

void builder_set_rank(struct tamis_builder *b, uint32_t rank)
{
    b->rank = rank;
}

uint32_t builder_rank(const struct tamis_builder *b)
{
    return b->rank;
}

/* ---- finishing ---- */

/* Fills the bits from what is in memory and what was spooled. */
static int fill(const struct tamis_builder *b, const struct geometry *g, uint8_t *bits)
{
    const struct kernel *k = kernel_get();
    uint64_t chunk[4096];
    for (uint64_t done = 0; done < b->n_spooled + b->n_hashes;) {
        const uint64_t *from = b->hashes;
        size_t n = b->n_hashes, got;
        if (done < b->n_spooled) {
            uint64_t left = b->n_spooled - done;
            n = left < 4096 ? (size_t)left : 4096;
            int err = io_read(b->spool_fd, chunk, n * 8, done * 8, &got);
            if (err || got != n * 8)
                return err ? err : EIO;
            from = chunk;
        }
        for (size_t i = 0; i < n; i++) {
            uint64_t h = from[i];
            for (uint32_t lane = 0; lane < g->lanes; lane++) {
                k->block_add(bits + geometry_block_offset(g, lane, h), g->words, h);
                h = geometry_next_lane(h);
            }
        }
        done += n;
    }
    return 0;
}

/* Digests what is in memory, not what comes back from the disk: a page that was
 * damaged on its way fails from its first touch on (R11). */
static int write_bits(int fd, uint64_t at, const uint8_t *bits, struct stage_desc *s,
                      uint8_t *digests)
{
    for (uint64_t done = 0; done < s->length;) {
        uint64_t left = s->length - done;
        size_t n = left < WRITE_BYTES ? (size_t)left : WRITE_BYTES;
        for (uint64_t page = done; page < done + n; page += PAGE_BYTES) {
            struct le64 d = le64_of(page_digest(bits + page));
            if (digests)
                memcpy(digests + page / PAGE_BYTES * DIGEST_BYTES, &d, sizeof d);
            else
                s->root = le64_get(d);
            for (size_t i = 0; i < PAGE_BYTES; i += SECTOR_BYTES)
                s->bits_set += sector_count(bits + page + i);
        }
        int err = io_write(fd, bits + done, n, at + s->offset + done);
        if (err)
            return err;
        done += n;
    }
    return 0;
}

static int write_stage(int fd, uint64_t at, const uint8_t *bits, struct stage_desc *s)
{
    struct digest_tree t;
    digest_tree_of(s->length / PAGE_BYTES, &t);
    uint8_t *digests = NULL;
    if (t.n_bytes) {
        digests = calloc(1, (size_t)t.n_bytes);
        if (!digests)
            return ENOMEM;
    }
    int err = write_bits(fd, at, bits, s, digests);
    if (!err && digests) {
        s->root = digest_tree_finish(&t, digests);
        err = io_write(fd, digests, (size_t)t.n_bytes, at + s->digests_offset);
    }
    free(digests);
    return err;
}

static int plan_built(const struct tamis_builder *b, const uint8_t uuid[UUID_BYTES],
                      uint64_t at, struct built *out)
{
    struct identity *id = &out->identity;
    struct commit *c = &out->commit;
    memset(out, 0, sizeof *out);
    id->major = FORMAT_MAJOR;
    id->minor = FORMAT_MINOR;
    id->header_pages = 1;
    memcpy(id->uuid, uuid, UUID_BYTES);
    memcpy(id->store_uuid, b->store_uuid, UUID_BYTES);
    id->kind = KIND_BLOOM;
    id->hash_id = (uint16_t)b->domain.hash_id;
    id->hash_seed = b->domain.seed;
    id->target_error = b->error;
    id->created = io_calls.now();
    id->name_bytes = (uint16_t)b->name_bytes;
    memcpy(id->name, b->name, b->name_bytes);

    memcpy(c->uuid, uuid, UUID_BYTES);
    c->sequence = c->generation = 1;
    c->keys = b->n_keys;
    c->watermark = b->watermark;
    c->state = STATE_SEALED;
    c->clean = c->n_stages = 1;
    c->binding_bytes = (uint8_t)b->binding_bytes;
    memcpy(c->binding, b->binding, b->binding_bytes);

    struct stage_desc *s = &c->stages[0];
    double expected;
    int err = plan_stage_geometry(b->n_keys, b->error, &s->geometry, &expected);
    if (err)
        return err;
    s->layout = LAYOUT_SPLIT_BLOCKS;
    s->capacity = s->keys = b->n_keys;
    s->target_error = b->error;
    s->length = s->geometry.n_blocks * s->geometry.lanes * BLOCK_BYTES;
    s->offset = PAGE_BYTES;
    if (s->length >= HUGE_PAGE_BYTES)
        s->offset = (at + PAGE_BYTES + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES *
                        HUGE_PAGE_BYTES -
                    at;
    uint64_t digests = digests_bytes(s->length / PAGE_BYTES);
    s->digests_offset = digests ? s->offset + s->length : 0;
    c->committed_bytes = s->offset + s->length + digests;
    out->file_bytes = c->committed_bytes;
    return 0;
}

static int write_filter(const struct tamis_builder *b, int fd, uint64_t at,
                        struct built *built)
{
    struct stage_desc *s = &built->commit.stages[0];
    uint8_t header[PAGE_BYTES];
    if (s->length > SIZE_MAX || at > INT64_MAX - built->file_bytes)
        return EFBIG;
    uint8_t *bits = mmap(NULL, (size_t)s->length, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bits == MAP_FAILED)
        return ENOMEM;
    int err = fill(b, &s->geometry, bits);
    if (!err)
        err = write_stage(fd, at, bits, s);
    munmap(bits, (size_t)s->length);
    if (err)
        return err;
    identity_encode(&built->identity, header);
    commit_encode(&built->commit, SLOT_BIRTH, header + IDENTITY_BYTES);
    return io_write(fd, header, sizeof header, at);
}

static int plan_or_fail(struct tamis_builder *b, const uint8_t *uuid, uint64_t at,
                        const char *path, struct built *built, struct tamis_diag *diag)
{
    if (b->failed)
        return diag_errno(diag, b->failed, path, "an earlier add failed");
    int err = plan_built(b, uuid, at, built);
    return err ? diag_fail(diag, err, path, "%llu keys are too many for one filter",
                           (unsigned long long)b->n_keys)
               : 0;
}

int builder_finish_at(struct tamis_builder *b, const uint8_t uuid[UUID_BYTES], int dir,
                      const char *name, bool sync_dir, struct built *built,
                      struct tamis_diag *diag)
{
    char temp[IO_TEMP_NAME_BYTES];
    int fd, err = plan_or_fail(b, uuid, 0, name, built, diag);
    if (err)
        return err;
    err = io_create_temp(dir, name, temp, &fd);
    if (err)
        return diag_errno(diag, err, name, "cannot create");
    err = write_filter(b, fd, 0, built);
    if (!err)
        err = io_publish(dir, temp, name, fd, sync_dir);
    if (err) {
        io_discard(dir, temp, fd);
        if (err == EEXIST)
            return diag_fail(diag, TAMIS_ERR_EXISTS, name, "exists already");
        return diag_errno(diag, err, name, "cannot write");
    }
    if (close(fd) != 0 && errno != EINTR)
        return diag_errno(diag, errno, name, "cannot close");
    return 0;
}

int tamis_builder_finish_file(struct tamis_builder *b, const char *path,
                              struct tamis_diag *diag)
{
    struct built built;
    uint8_t uuid[UUID_BYTES];
    const char *base;
    int dir;
    diag_clear(diag);
    io_calls.random(uuid, sizeof uuid);
    int err = io_open_parent(path, &dir, &base);
    if (err)
        return diag_errno(diag, err, path, "cannot open its directory");
    if (faccessat(dir, base, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        err = diag_fail(diag, TAMIS_ERR_EXISTS, path, "exists already");
    else
        err = builder_finish_at(b, uuid, dir, base, true, &built, diag);
    close(dir);
    return err;
}

int tamis_builder_finish_fd(struct tamis_builder *b, int fd, uint64_t offset,
                            uint64_t *n_bytes, struct tamis_diag *diag)
{
    struct built built;
    uint8_t uuid[UUID_BYTES];
    *n_bytes = 0;
    diag_clear(diag);
    if (offset % PAGE_BYTES != 0 || offset > INT64_MAX)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL,
                         "a filter starts at a multiple of 4096");
    io_calls.random(uuid, sizeof uuid);
    int err = plan_or_fail(b, uuid, offset, NULL, &built, diag);
    if (err)
        return err;
    err = write_filter(b, fd, offset, &built);
    if (err)
        return diag_errno(diag, err, NULL, "cannot write the filter");
    *n_bytes = built.file_bytes;
    return 0;
}
