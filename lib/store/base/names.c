/* Names: a small hash map from names of segments (and UUIDs) to numbers. It keeps
 * pointers: the caller owns the bytes, and keeps them as long as the map. */
#include "lib/store/base/base.h"
#include "format/hash.h"

struct name_bucket {
    const uint8_t *bytes; /* NULL: free */
    uint64_t hash;
    uint32_t n_bytes, value;
};

/* The bucket of this name, or the free one where it belongs. At most half of the
 * buckets are taken, so there is one. */
static struct name_bucket *names_find(const struct names *s, const void *name,
                                      size_t n_bytes, uint64_t hash)
{
    size_t mask = s->n_buckets - 1;
    for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
        struct name_bucket *bucket = &s->buckets[i];
        if (!bucket->bytes)
            return bucket;
        if (bucket->hash == hash && bucket->n_bytes == n_bytes &&
            memcmp(bucket->bytes, name, n_bytes) == 0)
            return bucket;
    }
}

static int names_grow(struct names *s)
{
    size_t n_buckets = s->n_buckets ? s->n_buckets * 2 : 16;
    struct names bigger = {.n = s->n, .n_buckets = n_buckets};
    bigger.buckets = calloc(bigger.n_buckets, sizeof *bigger.buckets);
    if (!bigger.buckets)
        return ENOMEM;
    for (size_t i = 0; i < s->n_buckets; i++) {
        const struct name_bucket *old = &s->buckets[i];
        if (old->bytes)
            *names_find(&bigger, old->bytes, old->n_bytes, old->hash) = *old;
    }
    free(s->buckets);
    *s = bigger;
    return 0;
}

int names_reserve(struct names *s)
{
    return s->n_buckets / 2 <= s->n ? names_grow(s) : 0;
}

int names_set(struct names *s, const void *name, size_t n_bytes, uint32_t value)
{
    int rc = names_reserve(s);
    if (rc)
        return rc;
    uint64_t hash = hash_key(0, name, n_bytes);
    struct name_bucket *bucket = names_find(s, name, n_bytes, hash);
    if (!bucket->bytes) {
        s->n++;
        *bucket = (struct name_bucket){name, hash, (uint32_t)n_bytes, value};
    }
    bucket->value = value;
    return 0;
}

uint32_t names_get(const struct names *s, const void *name, size_t n_bytes)
{
    if (!s->n || !name)
        return 0;
    const struct name_bucket *bucket =
        names_find(s, name, n_bytes, hash_key(0, name, n_bytes));
    return bucket->bytes ? bucket->value : 0;
}

void names_clear(struct names *s)
{
    free(s->buckets);
    *s = (struct names){0};
}
