/* A builder takes keys in, and notes their hashes and range; finish.c makes a filter of
 * them. How many keys will come is not known, so their hashes are kept (spool.c). */
#include "lib/builder/inside.h"
#include "format/hash.h"
#include "lib/sort/sort.h"

enum { DEFAULT_MEMORY_LIMIT = 64 << 20, MAX_THREADS = 256, SOME_KEYS = 256 };

/* ---- creating ---- */

static int builder_check_options(const struct tamis_builder_options *o,
                                 struct tamis_diag *diag)
{
    if (!(o->error >= ERROR_MIN && o->error <= ERROR_MAX))
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "error %g is outside 1e-8 .. 0.5",
                         o->error);
    if (o->list_bits > 64)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL,
                         "a list has 1 to 64 bits of each hash, not %llu",
                         (unsigned long long)o->list_bits);
    if (o->kind > UINT16_MAX ||
        (o->kind && o->kind != TAMIS_BLOOM && o->kind != TAMIS_RIBBON))
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL,
                         "no filter of this kind is built");
    return domain_check(o->domain, diag);
}

/* Copies name and binding. */
static void take_name(struct tamis_builder *b, const struct tamis_identity *from)
{
    b->who.name = from->name ? b->name : NULL;
    b->who.name_bytes = from->name ? from->name_bytes : 0;
    b->who.binding = from->binding ? b->binding : NULL;
    b->who.binding_bytes = from->binding ? from->binding_bytes : 0;
    memcpy(b->name, from->name ? from->name : "", b->who.name_bytes);
    memcpy(b->binding, from->binding ? from->binding : "", b->who.binding_bytes);
}

static void take_options(struct tamis_builder *b, const struct tamis_builder_options *o)
{
    uint64_t limit = o->memory_limit ? o->memory_limit : DEFAULT_MEMORY_LIMIT;
    b->error = o->error;
    take_name(b, &o->identity);
    if (o->identity.store_uuid)
        b->who.store_uuid = memcpy(b->store_uuid, o->identity.store_uuid, UUID_BYTES);
    if (o->domain)
        b->domain = *o->domain;
    else
        tamis_domain_random(&b->domain);
    b->watermark = o->watermark;
    b->limit = limit < SIZE_MAX / 2 ? (size_t)limit : SIZE_MAX / 2;
    b->n_threads = o->n_threads < 1             ? 1
                   : o->n_threads < MAX_THREADS ? o->n_threads
                                                : MAX_THREADS;
    b->spool_fd = -1;
    b->range.known = true;
    b->checks = o->check != 0;
    b->list_bits = (unsigned)o->list_bits;
    b->kind = o->kind == TAMIS_RIBBON ? KIND_RIBBON : KIND_BLOOM;
    check_note(b);
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
    int err = builder_check_options(&o, diag);
    if (!err)
        err = identity_check(&o.identity, diag);
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

int builder_rename(struct tamis_builder *b, const struct tamis_identity *as,
                   struct tamis_diag *diag)
{
    int err = as && as->name ? identity_check(as, diag) : 0;
    if (!err && as && as->name)
        take_name(b, as);
    return err;
}

void tamis_builder_free(struct tamis_builder *b)
{
    if (!b)
        return;
    spool_free(b);
    free(b->spool_dir);
    free(b);
}

/* ---- adding ---- */

static int builder_take(struct tamis_builder *b, const uint64_t *hashes, size_t n)
{
    if (n && !b->n_keys)
        b->last = ~hashes[0]; /* it repeats none */
    while (n && !b->failed) {
        if (b->n_hashes == b->capacity)
            b->failed = spool_make_room(b, n);
        if (b->failed)
            break;
        size_t room = b->capacity - b->n_hashes, some = n < room ? n : room;
        if (b->checks)
            check_came_in(b, hashes, some, b->last);
        /* Sorted input has the versions of a key in one run, and one is enough. */
        size_t taken = hashes_distinct(b->hashes + b->n_hashes, hashes, some, b->last);
        b->last = hashes[some - 1];
        b->n_hashes += taken;
        b->n_keys += taken;
        hashes += some;
        n -= some;
    }
    return b->failed;
}

/* ---- the range of the keys ---- */

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

/* Eight bytes as a number: if two differ, their keys are in the same order. */
static uint64_t prefix(const void *key, size_t n)
{
    uint64_t p = 0;
    if (n >= sizeof p)
        memcpy(&p, key, sizeof p);
    else
        memcpy(&p, n ? key : "", n);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return p;
#else
    return __builtin_bswap64(p);
#endif
}

/* Only keys that may be the first or the last yet are looked at closely; and of many
 * in order, the last of them will do. */
static void widen_by(struct tamis_builder *b, const struct tamis_key *keys, size_t n)
{
    bool first = b->n_keys == 0;
    const struct tamis_key *low = NULL, *high = NULL;
    uint64_t low_prefix = first ? UINT64_MAX : b->first_prefix;
    uint64_t high_prefix = first ? 0 : b->last_prefix;
    for (size_t i = 0; i < n; i++) {
        const struct tamis_key *k = &keys[i];
        uint64_t p = prefix(k->bytes, k->n_bytes);
        if (p <= low_prefix &&
            (!low || p < low_prefix ||
             compare(k->bytes, k->n_bytes, low->bytes, low->n_bytes) < 0)) {
            low = k;
            low_prefix = p;
        }
        if (p >= high_prefix &&
            (!high || p > high_prefix ||
             compare(k->bytes, k->n_bytes, high->bytes, high->n_bytes) > 0)) {
            high = k;
            high_prefix = p;
        }
    }
    if (!low && !high)
        return;
    check_notes(b);
    if (low)
        widen(&b->range, first, low->bytes, low->n_bytes);
    if (high)
        widen(&b->range, false, high->bytes, high->n_bytes);
    b->first_prefix = low_prefix;
    b->last_prefix = high_prefix;
    check_note(b);
}

/* A hash came without its key. */
static void forget_range(struct tamis_builder *b)
{
    if (!b->range.known)
        return;
    check_notes(b);
    b->range.known = false;
    check_note(b);
}

/* ---- keys and hashes in ---- */

static int add_some_keys(struct tamis_builder *b, const struct tamis_key *keys,
                         size_t n)
{
    uint64_t hashes[SOME_KEYS];
    bool is_known = true;
    hash_keys(b->domain.seed, keys, n, hashes);
    for (size_t i = 0; i < n; i++) {
        if (keys[i].bytes) /* a key of no bytes has some pointer, too */
            continue;
        if (keys[i].tag != b->domain.tag)
            return TAMIS_ERR_MISMATCH;
        hashes[i] = keys[i].hash;
        is_known = false;
    }
    if (!is_known)
        forget_range(b);
    if (b->range.known)
        widen_by(b, keys, n);
    return builder_take(b, hashes, n);
}

int tamis_builder_add_keys(struct tamis_builder *b, const struct tamis_key *keys,
                           size_t n)
{
    int err = n && !keys ? TAMIS_ERR_RANGE : b->failed;
    for (size_t done = 0; done < n && !err; done += SOME_KEYS)
        err =
            add_some_keys(b, keys + done, n - done < SOME_KEYS ? n - done : SOME_KEYS);
    return err;
}

int tamis_builder_add_key(struct tamis_builder *b, const void *key, size_t n_bytes)
{
    struct tamis_key one = {.bytes = n_bytes ? key : "", .n_bytes = n_bytes};
    return tamis_builder_add_keys(b, &one, 1);
}

int tamis_builder_add_hashes(struct tamis_builder *b, uint64_t tag,
                             const uint64_t *hashes, size_t n)
{
    if (tag != b->domain.tag)
        return TAMIS_ERR_MISMATCH;
    if (n && !hashes)
        return TAMIS_ERR_RANGE;
    if (n)
        forget_range(b);
    return builder_take(b, hashes, n);
}

const uint64_t *builder_hashes(const struct tamis_builder *b, size_t *n)
{
    static const uint64_t none[1];
    *n = b->n_hashes;
    if (b->n_spooled)
        return NULL;
    return b->n_hashes ? b->hashes : none;
}

/* Draws a new set id if keys were added since the last one. So a filter and a list have
 * the same, if no key was added between them. */
const uint8_t *builder_set_id(struct tamis_builder *b)
{
    if (!b->has_set_id || b->n_in_set != b->n_keys)
        io_calls.random(b->set_id, sizeof b->set_id);
    b->has_set_id = true;
    b->n_in_set = b->n_keys;
    return b->set_id;
}

struct builder_facts builder_facts(const struct tamis_builder *b)
{
    return (struct builder_facts){b->domain,   b->name,  b->who.name_bytes,
                                  b->n_keys,   b->rank,  b->list_bits,
                                  b->replaces, b->error, &b->range};
}

void builder_set_edit(struct tamis_builder *b, uint32_t rank, bool balanced,
                      bool replaces)
{
    b->rank = rank;
    b->replaces = replaces;
    b->balanced = balanced && b->kind == KIND_BLOOM;
}

struct builder_size *builder_size(struct tamis_builder *b)
{
    return b->balanced ? &b->size : NULL;
}
