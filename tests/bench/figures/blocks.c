/* Blocks in the caller's memory: asked and filled by calls and inline, against the
 * inline probe of a file with the same bits, and a loop by hand. */
#include "tests/bench/bench.h"
#include "tests/support/inline/loops.h"

#include <lib/tamis_inline.h>

#include <stdlib.h>
#include <string.h>

struct asked {
    const struct inline_loops *loops;
    struct tamis_inline file;
    struct tamis_inline_blocks value;
    struct tamis_blocks blocks;
    struct probing probing;
};

static double took(struct asked *a, uint64_t began)
{
    double ns = (double)(now_ns() - began);
    sink += a->probing.n_absent;
    return ns / (double)a->probing.n;
}

static double lap_file(void *ctx)
{
    struct asked *a = ctx;
    struct probing *p = &a->probing;
    uint64_t began = now_ns();
    p->n_absent =
        a->loops->probe(&a->file, bench.domain.tag, p->hashes, p->n, p->absent);
    return took(a, began);
}

static double lap_blocks(void *ctx)
{
    struct asked *a = ctx;
    struct probing *p = &a->probing;
    uint64_t began = now_ns();
    p->n_absent = a->loops->probe_blocks(&a->value, p->bits->base, p->bits->n_bytes,
                                         bench.domain.tag, p->hashes, p->n, p->absent);
    return took(a, began);
}

static double lap_call(void *ctx)
{
    struct asked *a = ctx;
    struct probing *p = &a->probing;
    struct tamis_key key = tamis_key_of_hash(bench.domain.tag, 0);
    uint64_t began = now_ns();
    p->n_absent = 0;
    for (size_t i = 0; i < p->n; i++) {
        key.hash = p->hashes[i];
        p->n_absent += tamis_blocks_probe(&a->blocks, p->bits->base, p->bits->n_bytes,
                                          &key, NULL) == TAMIS_ABSENT;
    }
    return took(a, began);
}

static void probes(struct tamis_filter *filter, const struct bits *bits,
                   const struct tamis_blocks *blocks)
{
    size_t n = bench.sizes.probes;
    uint64_t *hashes = hashes_of(fresh_negatives(n), n);
    struct asked a = {.loops = inline_loops_at(0),
                      .blocks = *blocks,
                      .probing = probing_of(filter, bits, hashes, n)};
    must(tamis_filter_inline(filter, TAMIS_INLINE_VERSION, &a.file), NULL, "inline");
    must(tamis_blocks_inline(blocks, TAMIS_INLINE_VERSION, &a.value), NULL, "blocks");
    struct asked file = a, call = a;
    struct lap laps[] = {{.run = lap_blocks, .ctx = &a},
                         {.run = lap_file, .ctx = &file},
                         {.run = lap_call, .ctx = &call}};
    race(laps, 3, bench.sizes.reps);
    figure("blocks_inline", laps[0].ns, laps[1].ns, "%zu KiB, %s", bits->n_bytes >> 10,
           a.loops->name);
    figure_pairs("blocks_inline", laps[0].samples, laps[1].samples, bench.sizes.reps);
    figure("blocks_call", laps[2].ns, laps[1].ns, "%zu KiB", bits->n_bytes >> 10);
    if (a.probing.n_absent != file.probing.n_absent ||
        call.probing.n_absent != file.probing.n_absent)
        wrong("blocks: ABSENT %zu times, by call %zu, in the file %zu",
              a.probing.n_absent, call.probing.n_absent, file.probing.n_absent);
    tamis_inline_release(&a.file);
    free(hashes);
}

/* ---- adds ---- */

/* As many keys a call as fit into a block. The same ones again and again: structs of
 * keys from memory would take longer than adding them. */
enum { KEYS_A_CALL = 50, KEYS = 20 * KEYS_A_CALL, ROUNDS = 500 };

struct filling {
    struct filling_bits adding;
    const struct inline_loops *loops;
    struct tamis_inline_blocks value;
    struct tamis_blocks blocks;
    struct tamis_key *keys;
    size_t n_bytes;
};

static double lap_add_inline(void *ctx)
{
    struct filling *f = ctx;
    uint64_t began = now_ns();
    sink += f->loops->add_blocks(&f->value, f->adding.bits, f->n_bytes,
                                 bench.domain.tag, f->adding.hashes, f->adding.n);
    return (double)(now_ns() - began) / (double)f->adding.n;
}

static double lap_add_call(void *ctx)
{
    struct filling *f = ctx;
    uint64_t began = now_ns();
    for (size_t i = 0; i < KEYS / KEYS_A_CALL * ROUNDS; i++)
        must(tamis_blocks_add(&f->blocks, f->adding.bits, f->n_bytes,
                              f->keys + i % (KEYS / KEYS_A_CALL) * KEYS_A_CALL,
                              KEYS_A_CALL),
             NULL, "adding to blocks");
    return (double)(now_ns() - began) / KEYS / ROUNDS;
}

static double lap_add_hand(void *ctx)
{
    struct filling *f = ctx;
    uint64_t began = now_ns();
    for (int i = 0; i < ROUNDS; i++)
        lap_add_by_hand(&f->adding);
    return (double)(now_ns() - began) / KEYS / ROUNDS;
}

static void adds(const struct tamis_blocks *blocks)
{
    size_t n = KEYS, n_bytes = (size_t)tamis_blocks_bytes(blocks);
    struct filling f = {.loops = inline_loops_at(0), .blocks = *blocks};
    uint8_t *memory[3];
    f.n_bytes = n_bytes;
    f.keys = allocate(n * sizeof *f.keys);
    uint64_t *hashes = hashes_of(0, n);
    for (size_t i = 0; i < n; i++)
        f.keys[i] = tamis_key_of_hash(bench.domain.tag, hashes[i]);
    must(tamis_blocks_inline(blocks, TAMIS_INLINE_VERSION, &f.value), NULL, "blocks");
    struct filling by[3];
    for (int i = 0; i < 3; i++) {
        memory[i] = aligned_alloc(4096, (n_bytes + 4095) / 4096 * 4096);
        if (!memory[i])
            give_up("no memory for %zu bytes", n_bytes);
        memset(memory[i], 0, n_bytes);
        by[i] = f;
        by[i].adding = (struct filling_bits){
            memory[i], {blocks->n_blocks, blocks->lanes, blocks->words}, hashes, n};
    }
    struct lap laps[] = {{.run = lap_add_inline, .ctx = &by[0]},
                         {.run = lap_add_call, .ctx = &by[1]},
                         {.run = lap_add_hand, .ctx = &by[2]}};
    race(laps, 3, bench.sizes.reps);
    figure("blocks_add_inline", laps[0].ns, laps[2].ns, "%zu KiB, %s", n_bytes >> 10,
           f.loops->name);
    figure("blocks_add", laps[1].ns, laps[2].ns, "%d keys a call, %zu KiB", KEYS_A_CALL,
           n_bytes >> 10);
    if (blocks->lanes == 1 && (memcmp(memory[0], memory[2], n_bytes) != 0 ||
                               memcmp(memory[1], memory[2], n_bytes) != 0))
        wrong("blocks: not the bits that a loop by hand sets");
    for (int i = 0; i < 3; i++)
        free(memory[i]);
    free(f.keys), free(hashes);
}

void figures_blocks(void)
{
    const char *path = filter_file(bench.sizes.small, 0.01);
    struct tamis_filter *filter = filter_open(path, TAMIS_CHECK_LAZY);
    check_present(filter, bench.sizes.small, UINT64_MAX);
    struct bits bits = bits_map(path);
    struct tamis_blocks blocks = {bits.geometry.lanes, bits.geometry.words,
                                  bits.geometry.n_blocks, bench.domain.tag};
    probes(filter, &bits, &blocks);
    adds(&blocks);
    bits_unmap(&bits);
    tamis_filter_close(filter);
}
