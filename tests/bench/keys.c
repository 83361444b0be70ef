/* The keys: numbered, of 16 to 40 bytes, made from the seed; the same ones for tamis
 * and for its peers. No key is both added and asked as an absent one. */
#include "tests/bench/bench.h"

#define GOLDEN UINT64_C(0x9E3779B97F4A7C15)

/* The finalizer of splitmix64 (Steele, Lea, Flood 2014): a bijection. */
uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* The first word is a bijection of the number: no two keys are equal. */
size_t key_text(uint64_t i, char bytes[KEY_MOST])
{
    uint64_t word = mixed(i + mixed(bench.seed) * GOLDEN);
    size_t n_bytes = 16 + (word >> 40) % (KEY_MOST - 16 + 1);
    for (size_t at = 0; at < KEY_MOST; at += sizeof word) {
        memcpy(bytes + at, &word, sizeof word);
        word = word * GOLDEN + at;
    }
    return n_bytes;
}

void keys_fill(uint64_t first, size_t n, struct tamis_key *keys,
               char (*bytes)[KEY_MOST])
{
    for (size_t i = 0; i < n; i++)
        keys[i] = (struct tamis_key){bytes[i], key_text(first + i, bytes[i]), 0, 0};
}

void hashes_fill(uint64_t first, size_t n, uint64_t *hashes)
{
    enum { AT_ONCE = 256 };
    char bytes[AT_ONCE * KEY_MOST];
    uint64_t ends[AT_ONCE + 1] = {0};
    for (size_t done = 0; done < n; done += AT_ONCE) {
        size_t m = n - done < AT_ONCE ? n - done : AT_ONCE;
        for (size_t i = 0; i < m; i++)
            ends[i + 1] = ends[i] + key_text(first + done + i, bytes + ends[i]);
        tamis_domain_hash(&bench.domain, bytes, ends, m, hashes + done);
    }
}

uint64_t *hashes_of(uint64_t first, size_t n)
{
    uint64_t *hashes = allocate(n * sizeof *hashes);
    hashes_fill(first, n, hashes);
    return hashes;
}

/* ---- pieces ---- */

struct source source_of(uint64_t n_keys, size_t n)
{
    struct source s = {.n_keys = n_keys, .n = n};
    s.warm = n_keys <= bench.sizes.small;
    for (int present = 0; present < 2; present++) {
        struct piece *p = &s.pieces[present];
        *p = (struct piece){.n = n, .present = present};
        p->hashes = allocate(n * sizeof *p->hashes);
        p->keys = allocate(n * sizeof *p->keys);
        p->bytes = allocate(n * KEY_MOST);
        p->ends = allocate((n + 1) * sizeof *p->ends);
        p->ends[0] = 0;
    }
    return s;
}

static uint64_t number_of(const struct source *s, const struct piece *p, uint64_t drawn)
{
    bool present = p->present;
    if (strcmp(bench.planted, present ? "loss" : "error") == 0)
        present = !present;
    return present ? drawn % s->n_keys : ABSENT_KEYS + drawn / 4;
}

const struct piece *piece_next(struct source *s, bool present)
{
    static uint64_t n_drawn; /* of all sources: no key comes twice in a cold one */
    struct piece *p = &s->pieces[present];
    if (s->warm && s->ready[present])
        return p;
    s->ready[present] = true;
    for (size_t i = 0; i < p->n; i++) {
        uint64_t number = number_of(s, p, mixed(++n_drawn));
        char *bytes = p->bytes + p->ends[i];
        p->ends[i + 1] = p->ends[i] + key_text(number, bytes);
        p->keys[i] = tamis_key_of(&bench.domain, bytes, p->ends[i + 1] - p->ends[i]);
        p->hashes[i] = p->keys[i].hash;
    }
    return p;
}

void source_free(struct source *s)
{
    for (int present = 0; present < 2; present++) {
        free(s->pieces[present].hashes);
        free(s->pieces[present].keys);
    }
}
