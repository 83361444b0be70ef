/* Names: a small hash map from names of segments (and UUIDs) to numbers. It keeps
 * pointers: the caller owns the bytes, and keeps them as long as the map. */
#include "lib/store/base/base.h"
#include "format/hash.h"

struct name_slot {
    const uint8_t *bytes; /* NULL: free */
    uint64_t hash;
    uint32_t n_bytes, value;
};

/* The slot of this name, or the free one where it belongs. At most half of the slots
 * are taken, so there is one. */
static struct name_slot *names_find(const struct names *s, const void *name,
                                    size_t n_bytes, uint64_t hash)
{
    size_t mask = s->n_slots - 1;
    for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
        struct name_slot *slot = &s->slots[i];
        if (!slot->bytes)
            return slot;
        if (slot->hash == hash && slot->n_bytes == n_bytes &&
            memcmp(slot->bytes, name, n_bytes) == 0)
            return slot;
    }
}

static int names_grow(struct names *s)
{
    struct names bigger = {.n = s->n, .n_slots = s->n_slots ? s->n_slots * 2 : 16};
    bigger.slots = calloc(bigger.n_slots, sizeof *bigger.slots);
    if (!bigger.slots)
        return ENOMEM;
    for (size_t i = 0; i < s->n_slots; i++) {
        const struct name_slot *old = &s->slots[i];
        if (old->bytes)
            *names_find(&bigger, old->bytes, old->n_bytes, old->hash) = *old;
    }
    free(s->slots);
    *s = bigger;
    return 0;
}

int names_reserve(struct names *s)
{
    return s->n_slots / 2 <= s->n ? names_grow(s) : 0;
}

int names_set(struct names *s, const void *name, size_t n_bytes, uint32_t value)
{
    int rc = names_reserve(s);
    if (rc)
        return rc;
    uint64_t hash = hash_key(0, name, n_bytes);
    struct name_slot *slot = names_find(s, name, n_bytes, hash);
    if (!slot->bytes) {
        s->n++;
        *slot = (struct name_slot){name, hash, (uint32_t)n_bytes, value};
    }
    slot->value = value;
    return 0;
}

uint32_t names_get(const struct names *s, const void *name, size_t n_bytes)
{
    if (!s->n || !name)
        return 0;
    const struct name_slot *slot =
        names_find(s, name, n_bytes, hash_key(0, name, n_bytes));
    return slot->bytes ? slot->value : 0;
}

void names_clear(struct names *s)
{
    free(s->slots);
    *s = (struct names){0};
}
