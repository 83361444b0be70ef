/* A LevelDB filter policy of split blocks (tamis_leveldb.h). LevelDB hands a policy
 * user keys: its InternalFilterPolicy removes the sequence number. A key with several
 * versions comes several times in a row. */
#include "tamis_leveldb.h"
#include "embedded.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys that most filters have at most: 2 KiB and a block. */
enum { REMEMBERED = 1024 };

struct state {
    struct tamis_domain domain;
    double error;
    char name[40];
    /* A plan takes as long as all the rest of a small filter. By number of keys: the
     * geometry in one word, 0 if it was not planned yet: lanes in the lowest byte,
     * words in the next, blocks above. */
    _Atomic uint32_t plans[REMEMBERED];
};

static const double default_error = 0.01;
static const struct tamis_plan_options of_blocks = {.size = sizeof of_blocks,
                                                    .blocks = 1};

void *tamis_leveldb_state_new(double error, uint64_t seed)
{
    struct tamis_plan plan;
    struct state *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->error = error == 0 ? default_error : error;
    if (tamis_plan_filter(1, s->error, &of_blocks, &plan) != 0 ||
        tamis_domain_init(&s->domain, 1, seed) != 0) {
        free(s);
        return NULL;
    }
    /* The name stands for the bytes: other bytes for the same keys need a new name. */
    snprintf(s->name, sizeof s->name, "tamis.blocks%d.%016" PRIx64, EMBEDDED_VERSION,
             seed);
    crc32c_init();
    return s;
}

void tamis_leveldb_state_free(void *state)
{
    free(state);
}

const char *tamis_leveldb_name(void *state)
{
    const struct state *s = state;
    return s->name;
}

static bool plan(struct state *s, size_t n_keys, struct tamis_blocks *b)
{
    struct tamis_plan plan;
    uint32_t packed = n_keys < REMEMBERED ? s->plans[n_keys] : 0;
    b->tag = s->domain.tag;
    if (packed) {
        b->lanes = packed & 0xFF;
        b->words = packed >> 8 & 0xFF;
        b->n_blocks = packed >> 16;
        return true;
    }
    if (tamis_plan_filter(n_keys, s->error, &of_blocks, &plan) != 0)
        return false;
    b->lanes = plan.lanes;
    b->words = plan.words;
    b->n_blocks = plan.n_blocks;
    if (n_keys < REMEMBERED && b->n_blocks <= UINT16_MAX)
        s->plans[n_keys] = /* threads write the same */
            b->lanes | b->words << 8 | (uint32_t)b->n_blocks << 16;
    return true;
}

/* Hashes n keys, each once however many versions of it follow each other. */
static size_t hash_distinct(const struct state *s, const char *const *keys,
                            const size_t *keys_bytes, size_t n, struct tamis_key *out)
{
    size_t n_distinct = 0;
    for (size_t i = 0; i < n; i++) {
        struct tamis_key k = tamis_key_of(&s->domain, keys[i], keys_bytes[i]);
        /* Equal hashes set the same bits, whatever the keys. */
        if (n_distinct == 0 || k.hash != out[n_distinct - 1].hash)
            out[n_distinct++] = k;
    }
    return n_distinct;
}

char *tamis_leveldb_create(void *state, const char *const *keys,
                           const size_t *keys_bytes, int n_keys, size_t *n_bytes)
{
    struct state *s = state;
    struct tamis_blocks blocks;
    size_t n = n_keys > 0 ? (size_t)n_keys : 0;
    struct tamis_key *hashed = malloc((n + 1) * sizeof *hashed);
    uint8_t *filter = NULL;
    *n_bytes = 0;
    if (!hashed)
        return NULL;
    n = hash_distinct(s, keys, keys_bytes, n, hashed);
    size_t wanted = plan(s, n, &blocks) ? embedded_bytes(&blocks) : 0;
    if (wanted)
        filter = calloc(1, wanted);
    if (filter && !embedded_fill(filter, wanted, &blocks, hashed, n)) {
        free(filter);
        filter = NULL;
    }
    *n_bytes = filter ? wanted : 0;
    free(hashed);
    return (char *)filter;
}

uint8_t tamis_leveldb_may_match(void *state, const char *key, size_t key_bytes,
                                const char *filter, size_t n_bytes)
{
    const struct state *s = state;
    struct tamis_blocks blocks;
    const uint8_t *bits;
    size_t bits_bytes;
    if (!embedded_read((const uint8_t *)filter, n_bytes, &blocks, &bits, &bits_bytes))
        return 1;
    blocks.tag = s->domain.tag;
    struct tamis_key k = tamis_key_of(&s->domain, key, key_bytes);
    return tamis_blocks_probe(&blocks, bits, bits_bytes, &k, NULL) != TAMIS_ABSENT;
}

leveldb_filterpolicy_t *tamis_leveldb_policy(double error, uint64_t seed)
{
    void *state = tamis_leveldb_state_new(error, seed);
    return state ? leveldb_filterpolicy_create(
                       state, tamis_leveldb_state_free, tamis_leveldb_create,
                       tamis_leveldb_may_match, tamis_leveldb_name)
                 : NULL;
}
